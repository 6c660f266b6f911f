"""Kinds of jobs that queues admit: how each is suspended, which Pods it wants, and how it ends."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import owner_references, read_conditions, read_labels, read_spec, read_status
from steelyard_kube.resource import (
    APP_WRAPPERS,
    JOBS,
    RAY_CLUSTERS,
    RAY_JOBS,
    TRAINING,
    Resource,
    find_resource,
)
from steelyard_local_kubernetes.controllers.ray.submitter import submitter_template

DEFAULT = "default"
"""Name of the LocalQueue that takes the jobs of its namespace which name none."""
QUEUE, PRIORITY_CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"


@dataclass(frozen=True)
class End:
    """The way in which a job ended."""

    succeeded: bool
    message: str


@dataclass(frozen=True)
class JobKind:
    """A kind of job that queues admit, and how to suspend it and read its state."""

    resource: Resource
    pod_sets: Callable[[Json], list[Json]]
    end: Callable[[Json], End | None]
    is_active: Callable[[Json], bool]
    """True while Pods of the job may still run."""
    is_ready: Callable[[Json], bool]
    suspend_path: tuple[str, ...] = ("spec", "suspend")

    def is_suspended(self, obj: Json) -> bool:
        return bool(mapping(obj, *self.suspend_path[:-1]).get(self.suspend_path[-1]))

    def patch(self, *, suspend: bool) -> Json:
        """Return the merge patch that suspends or resumes a job."""
        patch: Json = {self.suspend_path[-1]: suspend}
        for name in reversed(self.suspend_path[:-1]):
            patch = {name: patch}
        return patch


def pod_set(name: str, template: Json, count: int) -> Json:
    return {"name": name.lower()[:63], "count": count, "template": {"spec": read_spec(template)}}


def _condition(obj: Json, kind: str) -> Json | None:
    return next(
        (c for c in read_conditions(obj) if c.get("type") == kind and c.get("status") == "True"), None
    )


def _ends(success: str, failure: str) -> Callable[[Json], End | None]:
    def end(obj: Json) -> End | None:
        for kind, succeeded in ((success, True), (failure, False)):
            if condition := _condition(obj, kind):
                return End(succeeded, str(condition.get("message") or "Job finished"))
        return None

    return end


def _job_pods(job: Json) -> list[Json]:
    spec = job["spec"]
    parallelism = 1 if spec.get("parallelism") is None else int(spec["parallelism"])
    completions = spec.get("completions")
    return [
        pod_set(
            "main", spec["template"], parallelism if completions is None else min(parallelism, completions)
        )
    ]


def _job_is_ready(job: Json) -> bool:
    status = read_status(job)
    required = int(_job_pods(job)[0]["count"])
    return int(status.get("ready") or 0) + int(status.get("succeeded") or 0) >= required


def ray_pods(spec: Json) -> list[Json]:
    """Return the sets of Pods of a Ray cluster's specification."""
    sets = [pod_set("head", mapping(spec, "headGroupSpec", "template"), 1)]
    autoscaled = spec.get("enableInTreeAutoscaling")
    for group in sequence(spec, "workerGroupSpecs"):
        least = int(group.get("minReplicas") or 0)
        desired = int(group.get("replicas") or 0)
        if autoscaled:
            # The most that it may have: otherwise each change by the autoscaler would put it into the queue again.
            desired = int(group.get("maxReplicas") or 0)
        count = max(desired, least) * int(group.get("numOfHosts") or 1)
        sets.append(pod_set(group["groupName"], mapping(group, "template"), count))
    return sets


def _ray_job_pods(job: Json) -> list[Json]:
    spec = job["spec"]
    cluster = mapping(spec, "rayClusterSpec")
    if spec.get("submissionMode", "K8sJobMode") != "K8sJobMode":
        return ray_pods(cluster)
    return [*ray_pods(cluster), pod_set("submitter", submitter_template(spec, cluster), 1)]


def _ray_cluster_is_active(cluster: Json) -> bool:
    return read_status(cluster).get("state") not in (None, "", "suspended")


def _ray_job_end(job: Json) -> End | None:
    status = read_status(job)
    state = status.get("jobDeploymentStatus")
    if state in ("Complete", "Failed", "ValidationFailed"):
        return End(status.get("jobStatus") != "FAILED" and state == "Complete", status.get("message") or "")
    return None


def _ray_job_is_active(job: Json) -> bool:
    return read_status(job).get("jobDeploymentStatus") not in (None, "", "New", "Suspended")


def _ray_job_is_ready(job: Json) -> bool:
    return mapping(job, "status", "rayClusterStatus").get("state") == "ready"


def _replicas(job: Json) -> Iterable[tuple[str, Json]]:
    """Yield the roles of a training job by their names."""
    spec = job["spec"]
    if job["kind"] == "DLJob":
        roles = spec.get("roles") or {}
        yield from roles.items() if isinstance(roles, dict) else ((role["name"], role) for role in roles)
        return
    for field, value in spec.items():
        if field.endswith("ReplicaSpecs"):
            yield from value.items()


def _training_pods(job: Json) -> list[Json]:
    def count(role: Json) -> int:
        return 1 if role.get("replicas") is None else int(role["replicas"])

    return [pod_set(name, mapping(role, "template"), count(role)) for name, role in _replicas(job)]


def _training_active(job: Json) -> int:
    statuses = mapping(job, "status", "replicaStatuses").values()
    return sum(int(status.get("active") or 0) for status in statuses)


def _training(resource: Resource) -> JobKind:
    return JobKind(
        resource,
        _training_pods,
        _ends("Succeeded", "Failed"),
        lambda job: _training_active(job) > 0,
        lambda job: _condition(job, "Running") is not None,
        ("spec", "runPolicy", "suspend"),
    )


def _wrapper_pods(wrapper: Json) -> list[Json]:
    sets: list[Json] = []
    for number, component in enumerate(sequence(wrapper["spec"], "components")):
        for inner in component_pods(component):
            sets.append({**inner, "name": f"{wrapper['metadata']['name'][:40]}-{number}-{inner['name']}"})
    return sets


def component_pods(component: Json) -> list[Json]:
    """Return the sets of Pods of a component: those that it declares, else those of its kind."""
    template = component["template"]
    if declared := sequence(component, "podSets"):
        sets = []
        for number, entry in enumerate(declared):
            inner = mapping(template, *entry["path"].split(".")[1:])  # the first word is `template`
            count = 1 if entry.get("replicas") is None else int(entry["replicas"])
            sets.append(pod_set(f"{number}", inner, count))
        return sets
    match template.get("kind"):
        case "Pod":
            return [pod_set("0", template, 1)]
        case "Job":
            return _job_pods(template)
        case "RayCluster":
            return ray_pods(template["spec"])
        case "RayJob":
            return _ray_job_pods(template)
        case "Deployment" | "StatefulSet" | "ReplicaSet":
            replicas = template["spec"].get("replicas")
            return [pod_set("0", template["spec"]["template"], 1 if replicas is None else int(replicas))]
        case _:
            return _training_pods(template) if "spec" in template else []


def _wrapper_end(wrapper: Json) -> End | None:
    phase = read_status(wrapper).get("phase")
    return End(phase == "Succeeded", f"AppWrapper {phase}") if phase in ("Succeeded", "Failed") else None


MANAGED: dict[Resource, JobKind] = {
    managed.resource: managed
    for managed in (
        JobKind(
            JOBS,
            _job_pods,
            _ends("Complete", "Failed"),
            lambda job: int(read_status(job).get("active") or 0) > 0,
            _job_is_ready,
        ),
        JobKind(
            RAY_CLUSTERS,
            lambda cluster: ray_pods(cluster["spec"]),
            lambda cluster: None,
            _ray_cluster_is_active,
            lambda cluster: read_status(cluster).get("state") == "ready",
        ),
        JobKind(RAY_JOBS, _ray_job_pods, _ray_job_end, _ray_job_is_active, _ray_job_is_ready),
        JobKind(
            APP_WRAPPERS,
            _wrapper_pods,
            _wrapper_end,
            lambda wrapper: read_status(wrapper).get("phase") not in (None, "", "Suspended"),
            lambda wrapper: _condition(wrapper, "PodsReady") is not None,
        ),
        *(_training(resource) for resource in TRAINING),
    )
}


def suspend_new(obj: Json) -> None:
    """Suspend a new job that names a queue, as Kueue's webhook does: no Pod of it runs before it is admitted."""
    parent = obj
    for name in job_kind(obj).suspend_path[:-1]:
        parent = parent.setdefault(name, {})
    parent[job_kind(obj).suspend_path[-1]] = True


def job_kind(obj: Json) -> JobKind:
    return MANAGED[find_resource(obj)]


def is_queued(obj: Json) -> bool:
    """Return whether a queue admits the object: it names one, and belongs to no other job that is admitted itself."""
    kinds = {(resource.api_version, resource.kind) for resource in (RAY_JOBS, APP_WRAPPERS)}
    # A job on a cluster that is there has no Pods of its own to admit.
    return (
        bool(read_labels(obj).get(QUEUE))
        and not _is_owned(obj, kinds)
        and not mapping(obj, "spec", "clusterSelector")
    )


def takes_default_queue(obj: Json) -> bool:
    """Return whether a new job is given the queue `default` of its namespace, if there is one (Kueue 0.12).

    It names none, and none admits its owner.
    """
    kinds = {(resource.api_version, resource.kind) for resource in MANAGED}
    return QUEUE not in read_labels(obj) and not _is_owned(obj, kinds)


def _is_owned(obj: Json, kinds: set[tuple[str, str]]) -> bool:
    return any((owner.get("apiVersion"), owner.get("kind")) in kinds for owner in owner_references(obj))
