"""The caches of training: children of jobs, selected by v1's label; the frameworks of the cluster.

Children are found by the uid that controls them, and those without a controller by the job that their labels name.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from steelyard.operator.edge import Key
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training.labels import JOB_NAME, OPERATOR_NAME
from steelyard.operator.training.observed.ownership import operator_name
from steelyard.operator.training.policies.gang import VOLCANO
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.informer import Informer
from steelyard_kube.objects import find_controller, read_annotations, read_labels, read_spec, read_status
from steelyard_kube.resource import (
    CONFIG_MAPS,
    COSCHEDULING_POD_GROUPS,
    DL_JOBS,
    FRAMEWORKS,
    HORIZONTAL_POD_AUTOSCALERS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    TRAINING,
    VOLCANO_POD_GROUPS,
    Resource,
)

BY_CONTROLLER = "controller"
BY_LABELS = "labels"
BY_FRAMEWORK = "framework"
UNRESOLVED = "unresolved"
_KINDS = {operator_name(resource.kind): resource for resource in TRAINING}


def child_kinds(settings: OperatorSettings) -> tuple[Resource, ...]:
    """Return the kinds of objects, besides Pods, that jobs of the operator's kinds may have."""
    kinds: list[Resource] = [SERVICES, CONFIG_MAPS]
    wanted = set(settings.training.kinds)
    if "MPIJob" in wanted:
        kinds += [SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS]
    if wanted & {"PyTorchJob", "PaddleJob"}:
        kinds.append(HORIZONTAL_POD_AUTOSCALERS)
    if settings.training.gang_scheduler:
        volcano = settings.training.gang_scheduler == VOLCANO
        kinds.append(VOLCANO_POD_GROUPS if volcano else COSCHEDULING_POD_GROUPS)
    return tuple(kinds) if wanted else ()


class Watcher(Protocol):
    """Receiver of changes in the caches."""

    def replica_changed(self, key: Key, replicas: int) -> None: ...

    def pod_changed(self, key: Key, old: Json | None, new: Json) -> None: ...


class TrainingCaches:
    """`jobs` are the informers of all kinds, `owners` the resources there are, by uid."""

    def __init__(
        self,
        cluster: Cluster,
        jobs: Mapping[Resource, Informer],
        settings: OperatorSettings,
        owners: Mapping[str, Key],
        watcher: Watcher,
    ) -> None:
        self._jobs = {resource: informer for resource, informer in jobs.items() if resource in TRAINING}
        self._owners = owners
        self._watcher = watcher
        self._settings = settings
        self._children = {
            resource: Informer(
                cluster,
                resource,
                namespace=settings.namespace,
                # Only labelled objects are watched: a cluster may have far more Pods of others than of jobs.
                label_selector=JOB_NAME,
                indexes={BY_CONTROLLER: _controller, BY_LABELS: _job_of_orphan},
                transform=slim_pod if resource == PODS else slim,
                on_change=self._child_changed,
                # Volcano's or the scheduler plugins' PodGroups exist only where these are installed.
                optional=resource not in (PODS, SERVICES),
                # Tens of thousands of Pods are kept, and each is read only when its own job is reconciled.
                packed=True,
            )
            for resource in ((*child_kinds(settings), PODS) if self._jobs else ())
        }
        self._frameworks = (
            Informer(cluster, FRAMEWORKS, on_change=self._framework_changed, optional=True)
            if DL_JOBS in self._jobs
            else None
        )

    def informers(self) -> Iterable[Informer]:
        yield from self._children.values()
        if self._frameworks:
            yield self._frameworks

    def children(self, job: Json) -> tuple[list[Json], list[Json]]:
        metadata = job["metadata"]
        labelled = _index_key(metadata["namespace"], metadata["name"], operator_name(job["kind"]))
        objects: list[Json] = []
        pods: list[Json] = []
        for kind, informer in self._children.items():
            cached = pods if kind == PODS else objects
            cached += informer.by_index(BY_CONTROLLER, metadata["uid"])
            cached += informer.by_index(BY_LABELS, labelled)
        return objects, pods

    def settings(self) -> OperatorSettings:
        """Return the settings with the cluster's frameworks."""
        return self._settings

    def apply_write(self, kind: Resource, obj: Json) -> bool:
        informer = self._children.get(kind)
        labels = read_labels(obj)
        # An object without the label would never be shown by the watch, and so never leave the cache again.
        return informer.apply_write(obj) if informer and JOB_NAME in labels else False

    def _framework_changed(self, old: Json | None, new: Json | None) -> None:
        """Jobs that could not begin, because their framework was missing or wrong, are looked at again."""
        assert self._frameworks is not None
        frameworks = {framework["metadata"]["name"]: framework for framework in self._frameworks.items()}
        self._settings = self._settings.model_copy(update={"frameworks": frameworks})
        waiting = self._jobs[DL_JOBS].by_index(BY_FRAMEWORK, UNRESOLVED)
        self._look_again(job["metadata"]["uid"] for job in waiting)

    def _child_changed(self, old: Json | None, new: Json | None) -> None:
        uids = {uid for obj in (old, new) if obj for uid in (*_controller(obj), *self._adopter(obj))}
        self._look_again(uids)
        # Events of Pods follow from the difference between two states, which a later reconciliation no longer sees.
        if new and new["kind"] == PODS.kind:
            for uid in uids & self._owners.keys():
                self._watcher.pod_changed(self._owners[uid], old, new)

    def _look_again(self, uids: Iterable[str]) -> None:
        for uid in uids:
            if uid in self._owners:
                replicas = self._children[PODS].count(BY_CONTROLLER, uid)
                self._watcher.replica_changed(self._owners[uid], replicas)

    def _adopter(self, obj: Json) -> Iterable[str]:
        """The job whose labels an orphan has."""
        labels = read_labels(obj)
        informer = self._jobs.get(_KINDS.get(labels.get(OPERATOR_NAME, ""), PODS))
        # Only an object without a controller may be adopted; another controller's is left alone, whatever its labels
        # say.
        if find_controller(obj) is None and informer:
            job = informer.get(obj["metadata"].get("namespace"), labels.get(JOB_NAME, ""))
            if job:
                yield job["metadata"]["uid"]


def _framework(job: Json) -> Iterable[str]:
    """Index DLJobs whose status has no framework yet."""
    return () if read_status(job).get("framework") else (UNRESOLVED,)


def _controller(obj: Json) -> Iterable[str]:
    owner = find_controller(obj)
    return (owner["uid"],) if owner else ()


def _job_of_orphan(obj: Json) -> Iterable[str]:
    if find_controller(obj) is not None:
        return ()
    metadata = obj["metadata"]
    labels = read_labels(obj)
    return (_index_key(metadata["namespace"], labels.get(JOB_NAME, ""), labels.get(OPERATOR_NAME, "")),)


def _index_key(namespace: str, job: str, operator: str) -> str:
    return f"{namespace}/{operator}/{job}"


JOB_INDEXES = {BY_FRAMEWORK: _framework}
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_POD_SPEC = ("nodeName", "restartPolicy")
_CONTAINERS = ("containerStatuses", "initContainerStatuses")
_POD_STATUS = ("phase", "reason", "message", "startTime", "conditions", *_CONTAINERS)
_CONTAINER = ("name", "ready", "restartCount", "state", "lastState", "imageID")


def slim_job(obj: Json) -> Json:
    """A job without copies of itself."""
    obj["metadata"].pop("managedFields", None)
    # `kubectl apply` keeps a whole copy of the manifest here, and a job's templates are large.
    read_annotations(obj).pop(_APPLIED, None)
    return obj


def slim(obj: Json) -> Json:
    """A child without what no decision reads."""
    obj["metadata"].pop("managedFields", None)
    if obj["kind"] == SERVICES.kind:
        obj["metadata"].pop("annotations", None)
        # Of a Service only its existence and owner decide; selectors and cluster IPs are not read.
        obj.pop("spec", None)
        obj.pop("status", None)
    return obj


def slim_pod(obj: Json) -> Json:
    """A Pod as far as decisions read it: tens of thousands are kept."""
    metadata, spec, status = obj["metadata"], read_spec(obj), read_status(obj)
    metadata.pop("managedFields", None)
    metadata.pop("annotations", None)
    kept = {name: status[name] for name in _POD_STATUS if name in status}
    for which in (name for name in _CONTAINERS if name in kept):
        kept[which] = [
            {name: container[name] for name in _CONTAINER if name in container} for container in kept[which]
        ]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": metadata,
        "spec": {name: spec[name] for name in _POD_SPEC if name in spec},
        "status": kept,
    }
