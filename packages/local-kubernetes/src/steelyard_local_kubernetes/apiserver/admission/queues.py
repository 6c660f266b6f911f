"""Jobs that name a queue begin suspended, where the embedded form of Kueue admits them (`queues/`)."""

from steelyard_common.types import Json
from steelyard_kube.objects import read_annotations
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.store import Store
from steelyard_local_kubernetes.controllers.queued_kinds import (
    DEFAULT,
    MANAGED,
    QUEUE,
    is_queued,
    suspend_new,
    takes_default_queue,
)
from steelyard_local_kubernetes.definitions.building import EMBEDDED

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_QUEUES = "localqueues.kueue.x-k8s.io"
_WORKLOADS = ("", "workloads.kueue.x-k8s.io")
_BUCKETS = frozenset(f"{resource.plural}.{resource.group}" for resource in MANAGED)


def add_queue(store: Store, kind: ResourceType, obj: Json) -> None:
    """Suspend a new job that names a queue, or gets the queue `default` of its namespace.

    With a Kueue that the user has installed, its own webhook does that.
    """
    if kind.bucket not in _BUCKETS or not isinstance(obj.get("spec"), dict):
        return
    definition = store.get(_DEFINITIONS, _WORKLOADS)
    if definition is None or EMBEDDED not in read_annotations(definition.parse()):
        return
    named = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
    if takes_default_queue(named) and store.get(_QUEUES, (obj["metadata"].get("namespace", ""), DEFAULT)):
        obj["metadata"].setdefault("labels", {})[QUEUE] = DEFAULT
    if is_queued(named):
        suspend_new(named)
