"""The Workload of each job: made for it, kept with it, and the job suspended and resumed by it."""

from dataclasses import dataclass, replace
from datetime import datetime

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import is_deleting, read_labels, read_spec, read_status
from steelyard_local_kubernetes.controllers.pods import owner_reference, suffix
from steelyard_local_kubernetes.controllers.queued_kinds import PRIORITY_CLASS, QUEUE, JobKind, job_kind
from steelyard_local_kubernetes.queues import conditions
from steelyard_local_kubernetes.queues.conditions import ADMITTED, EVICTED, FINISHED, PODS_READY, RESERVED
from steelyard_local_kubernetes.queues.quota import demand


@dataclass(frozen=True)
class Step:
    """Writes for one job and its Workload; `status` is the Workload's new one."""

    status: Json | None = None
    create: Json | None = None
    delete: Json | None = None
    patch_job: Json | None = None
    patch_workload: Json | None = None


def workload_name(job: Json) -> str:
    metadata = job["metadata"]
    return f"{job['kind'].lower()}-{metadata['name'][:40]}-{suffix(metadata['uid'])}"


def new_workload(job: Json, pod_sets: list[Json], classes: dict[str, int]) -> Json:
    """Return the Workload of a job."""
    metadata, labels = job["metadata"], read_labels(job)
    spec: Json = {"active": True, "queueName": labels[QUEUE], "podSets": pod_sets, "priority": 0}
    if name := labels.get(PRIORITY_CLASS):
        source = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name}
        spec |= {"priorityClassName": name, "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"}
        spec |= {"priorityClassRef": source, "priority": classes.get(name, 0)}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": workload_name(job),
            "namespace": metadata["namespace"],
            "labels": {"kueue.x-k8s.io/job-uid": metadata["uid"]},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": spec,
    }


def sync_job(job: Json, workload: Json | None, classes: dict[str, int], now: datetime) -> Step:
    """Decide the writes for a job that names a queue, and for its Workload."""
    managed = job_kind(job)
    if is_deleting(job):
        return Step()
    end = managed.end(job)
    if workload is None:
        suspend = None if managed.is_suspended(job) or end else managed.patch(suspend=True)
        # Only what does not run is counted: the Workload comes once the job is suspended.
        create = None if end or suspend else new_workload(job, managed.pod_sets(job), classes)
        return Step(create=create, patch_job=suspend)
    status = read_status(workload)
    if conditions.status_holds(status, FINISHED):
        return Step()
    if end is not None:
        done = conditions.finish_status(status, succeeded=end.succeeded, message=end.message, now=now)
        return Step(status=done)
    if _size(managed.pod_sets(job)) != _size(sequence(workload["spec"], "podSets")):
        # The job is no longer what was admitted: it is queued again.
        suspend = None if managed.is_suspended(job) else managed.patch(suspend=True)
        return Step(delete=workload, patch_job=suspend)
    step = _follow(job, workload, managed, now)
    queue = read_labels(job)[QUEUE]
    if workload["spec"].get("queueName") != queue and not conditions.status_holds(status, RESERVED):
        step = replace(step, patch_workload={"spec": {"queueName": queue}})
    return step


def _follow(job: Json, workload: Json, managed: JobKind, now: datetime) -> Step:
    status, suspended = read_status(workload), managed.is_suspended(job)
    if conditions.status_holds(status, EVICTED) and conditions.status_holds(status, RESERVED):
        if suspended and not managed.is_active(job):
            return Step(status=conditions.release_status(status, now))
        return Step(patch_job=None if suspended else managed.patch(suspend=True))
    admitted = conditions.status_holds(status, ADMITTED)
    if admitted == suspended:
        return Step(patch_job=managed.patch(suspend=not admitted))
    if admitted:
        return Step(status=_ready(job, status, managed, now))
    return Step()


def _ready(job: Json, status: Json, managed: JobKind, now: datetime) -> Json | None:
    if managed.is_ready(job):
        message = "All pods reached readiness and the workload is running"
        after = conditions.set_condition(status, PODS_READY, True, "Started", message, now)
    else:
        message = "Not all pods are ready or succeeded"
        after = conditions.set_condition(status, PODS_READY, False, "WaitForStart", message, now)
    return after if after != status else None


def _size(pod_sets: list[Json]) -> list[tuple[str, int, tuple[tuple[str, float], ...]]]:
    return [
        (pod_set["name"], int(pod_set["count"]), tuple(sorted(demand(pod_set).items())))
        for pod_set in pod_sets
    ]


def workload_priority(workload: Json) -> int:
    return int(read_spec(workload).get("priority") or 0)


def queue_time(workload: Json) -> str:
    """Return the time since which a workload is queued, as the API writes it."""
    return str(mapping(workload, "metadata").get("creationTimestamp") or "")
