"""Requests and limits of a container: names, amounts, and how the two relate."""

from steelyard.local.apiserver.errors import Cause, invalid, required
from steelyard.local.apiserver.names import key_causes
from steelyard.local.apiserver.rules.fields import amount_of, quantity_causes
from steelyard.types import Json, mapping

_STANDARD = ("cpu", "memory", "ephemeral-storage")
_COUNTED = (
    "pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas",
)  # fmt: skip


def resource_causes(resources: Json, path: str) -> list[Cause]:
    limits, requests = mapping(resources, "limits"), mapping(resources, "requests")
    causes: list[Cause] = []
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            where = f"{path}.{field}[{name}]"
            causes += _name_causes(name, where)
            causes += quantity_causes(value, where, whole=_is_counted(name))
    for name, value in requests.items():
        if name in limits:
            causes += _pair_causes(name, value, limits[name], path)
        # A device cannot be promised twice: what is requested of it is also its limit.
        elif _is_counted(name) and "/" in name:
            text = "Limit must be set for non overcommitable resources"
            causes.append(required(f"{path}.limits", text))
    return causes


def _pair_causes(name: str, request: object, limit: object, path: str) -> list[Cause]:
    where = f"{path}.requests"
    if _is_counted(name) and amount_of(request) != amount_of(limit):
        return [invalid(where, str(request), f"must be equal to {name} limit of {limit}")]
    if amount_of(request) > amount_of(limit):
        return [invalid(where, str(request), f"must be less than or equal to {name} limit of {limit}")]
    return []


def _is_counted(name: str) -> bool:
    """Counted in pieces: all but Kubernetes' own."""
    # A name without a domain, or in Kubernetes' own, is of Kubernetes; all other names are of devices.
    return name in _COUNTED or ("/" in name and "kubernetes.io/" not in name)


def _name_causes(name: str, path: str) -> list[Cause]:
    causes = key_causes(name, path)
    if "/" in name:
        return causes
    huge = name.startswith("hugepages-")
    if not causes and name not in (*_STANDARD, *_COUNTED) and not huge:
        causes.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    if name not in _STANDARD and not huge:
        causes.append(invalid(path, name, "must be a standard resource for containers"))
    return causes
