"""The RuntimeClass of a new Pod: it has to be there, and says what the Pod costs besides and where it may run."""

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.rules.pods import tolerate_the_node
from steelyard_local_kubernetes.apiserver.store import Store

BUCKET = "runtimeclasses.node.k8s.io"
_DIFFERS = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_WITHOUT = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def set_runtime(store: Store, pod: Json) -> None:
    """Give a Pod its class's overhead, node selector and tolerations. Raises Refusal."""
    spec = pod["spec"]
    runtime = _runtime(store, pod)
    if overhead := mapping(runtime, "overhead", "podFixed"):
        spec.setdefault("overhead", overhead)
    scheduling = mapping(runtime, "scheduling")
    if selector := mapping(scheduling, "nodeSelector"):
        own = mapping(spec, "nodeSelector")
        for key in selector.keys() & own.keys():
            if selector[key] != own[key]:
                text = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {selector[key]}; "
                raise errors.forbidden_new(
                    "", "pods", pod, f"{text}pod.spec.nodeSelector[{key}] = {own[key]}"
                )
        spec["nodeSelector"] = own | selector
    if tolerations := sequence(scheduling, "tolerations"):
        tolerate_the_node(spec)  # a Pod has these first
        own_tolerations = sequence(spec, "tolerations")
        spec["tolerations"] = [*own_tolerations, *(row for row in tolerations if row not in own_tolerations)]


def check_runtime(store: Store, pod: Json) -> None:
    """Refuse an overhead that is not the class's."""
    overhead = pod["spec"].get("overhead")
    fixed = mapping(_runtime(store, pod), "overhead", "podFixed")
    if fixed and overhead != fixed:
        raise errors.forbidden_new("", "pods", pod, _DIFFERS)
    if not fixed and overhead is not None:
        raise errors.forbidden_new("", "pods", pod, _WITHOUT)


def _runtime(store: Store, pod: Json) -> Json:
    name = pod["spec"].get("runtimeClassName")
    if name is None:
        return {}
    item = store.get(BUCKET, ("", name))
    if item is None:
        raise errors.forbidden_new("", "pods", pod, f'pod rejected: RuntimeClass "{name}" not found')
    return item.parse()
