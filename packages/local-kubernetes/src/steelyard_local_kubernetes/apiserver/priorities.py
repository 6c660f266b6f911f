"""The priority of a new Pod, by its class. `admission` asks; nothing on one node preempts by it."""

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.objects import Objects
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.rules.scheduling import SYSTEM_CLASSES
from steelyard_local_kubernetes.apiserver.store import Store

CLASSES = "priorityclasses.scheduling.k8s.io"
_DEFAULT = b'"globalDefault":true'


def assign_priority(store: Store, pod: Json) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName") or ""
    priority_class = _by_name(store, pod, name) if name else _global_default(store)
    # Written into the Pod: the default may be another class tomorrow, and this Pod keeps what it got.
    if priority_class and not name:
        spec["priorityClassName"] = priority_class["metadata"]["name"]
    value = priority_class["value"] if priority_class else 0
    # Kubernetes' rule: a class gives the priority, and a number of one's own is refused.
    if spec.get("priority") not in (None, value):
        text = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
        text += f"priority admission controller computed {value} from the given PriorityClass name"
        raise errors.forbidden_new("", "pods", pod, text)
    policy = priority_class["preemptionPolicy"] if priority_class else "PreemptLowerPriority"
    if spec.get("preemptionPolicy") not in (None, policy):
        text = f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
        text += f"priority admission controller computed {policy} from the given PriorityClass name"
        raise errors.forbidden_new("", "pods", pod, text)
    spec["priority"], spec["preemptionPolicy"] = value, policy


def _by_name(store: Store, pod: Json, name: str) -> Json:
    item = store.get(CLASSES, ("", name))
    if item is None:
        text = f"no PriorityClass with name {name} was found"
        raise errors.forbidden_new("", "pods", pod, text)
    return item.parse()


def _global_default(store: Store) -> Json | None:
    """Return the default class; the lowest of several, as a real server does."""
    # By the bytes first: every new Pod asks, and hardly any class is a default.
    marked = (item for item in store.bucket(CLASSES).items() if _DEFAULT in item.raw)
    classes = [item.parse() for item in marked]
    return min(
        (priority_class for priority_class in classes if priority_class.get("globalDefault")),
        key=lambda c: int(c["value"]),
        default=None,
    )


def add_system_classes(objects: Objects, kind: ResourceType) -> None:
    """Add the priority classes that every server has."""
    for name, value in SYSTEM_CLASSES.items():
        if objects.store.get(CLASSES, ("", name)) is None:
            objects.create(kind, "", {"metadata": {"name": name}, "value": value}, Options())
