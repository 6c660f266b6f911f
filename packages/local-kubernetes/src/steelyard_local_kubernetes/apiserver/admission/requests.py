"""Requests and limits of a whole Pod: the sum of its containers, or what its largest init container needs."""

from collections.abc import Iterable

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.amounts import Amounts, add, amounts, largest

_OF_PODS = ("cpu", "memory")


def pod_amounts(spec: Json, field: str) -> Amounts:
    """`field` is `requests` or `limits`."""
    total = _sum(_own(container, field) for container in sequence(spec, "containers"))
    sidecars: Amounts = {}
    needed: list[Amounts] = []
    for container in sequence(spec, "initContainers"):
        own = _own(container, field)
        if container.get("restartPolicy") == "Always":
            # A sidecar runs along with all that comes after it.
            total, sidecars = add(total, own), add(sidecars, own)
            needed.append(sidecars)
        else:
            needed.append(add(own, sidecars))
    total = largest([total, *needed])
    whole = amounts(mapping(spec, "resources", field))
    huge = {name: whole[name] for name in whole if name in _OF_PODS or name.startswith("hugepages-")}
    return total | huge


def _own(container: Json, field: str) -> Amounts:
    return amounts(mapping(container, "resources", field))


def _sum(lists: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for values in lists:
        total = add(total, values)
    return total
