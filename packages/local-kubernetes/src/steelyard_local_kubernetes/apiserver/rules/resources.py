"""Requests and limits of a container and of a whole Pod: names, amounts, and how the two relate."""

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.amounts import Amounts, add, amount, largest
from steelyard_local_kubernetes.apiserver.amounts import amounts as parsed_amounts
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    not_supported,
)
from steelyard_local_kubernetes.apiserver.rules.fields import clamp_quantity, quantity_causes
from steelyard_schema.object_names import huge_pages_faults, is_counted, resource_name_faults

_OF_PODS = ["cpu", "hugepages-", "memory"]


def resource_causes(resources: Json, path: str) -> list[Cause]:
    limits, requests = mapping(resources, "limits"), mapping(resources, "requests")
    causes: list[Cause] = []
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            where = f"{path}.{field}[{name}]"
            causes += [invalid(where, name, text) for text in resource_name_faults(name)]
            causes += quantity_causes(value, where, whole=is_counted(name))
            if name.startswith("hugepages-"):
                faults = huge_pages_faults(name, clamp_quantity(value))
                causes += [invalid(where, str(value), f"{value} {fault}") for fault in faults]
    for name, value in requests.items():
        if name in limits:
            causes += _pair_causes(name, value, limits[name], path)
        # A device cannot be promised twice: what is requested of it is also its limit.
        elif is_counted(name) and "/" in name:
            text = "Limit must be set for non overcommitable resources"
            causes.append(missing_value(f"{path}.limits", text))
    names = {*limits, *requests}
    if any(name.startswith("hugepages-") for name in names) and not names & {"cpu", "memory"}:
        causes.append(forbidden_field(path, "HugePages require cpu or memory"))
    return causes


def is_of_pods(resource: str) -> bool:
    """Return whether a Pod may have an amount of its own of this resource."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def pod_resource_causes(spec: Json, path: str) -> list[Cause]:
    """Faults of the resources of a whole Pod, which all its containers share."""
    resources, where = mapping(spec, "resources"), f"{path}.resources"
    if not resources:
        return []
    causes: list[Cause] = []
    if resources.get("claims") is not None:
        causes.append(forbidden_field(f"{where}.claims", "claims cannot be set for Resources at pod-level"))
    for field in ("limits", "requests"):
        for name in mapping(resources, field):
            if not is_of_pods(name) and not resource_name_faults(name):
                causes.append(not_supported(f"{where}.{field}[{name}]", name, _OF_PODS))
    causes += resource_causes(resources, where)
    # Amounts that cannot be read are refused already, where they stand.
    return causes or _sum_causes(spec, where)


def _sum_causes(spec: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    requests, limits = (mapping(spec["resources"], field) for field in ("requests", "limits"))
    try:
        total = _requests_of_containers(spec)
        for name, aggregate in total.items():
            if name in requests and aggregate.number > amount(requests[name]).number:
                text = f"must be greater than or equal to aggregate container requests of {aggregate}"
                causes.append(invalid(f"{path}.requests[{name}]", str(requests[name]), text))
        for index, container in enumerate(sequence(spec, "containers")):
            for name, limit in mapping(container, "resources", "limits").items():
                if name in limits and amount(limit).number > amount(limits[name]).number:
                    text = f"must be less than or equal to pod limits of {limits[name]}"
                    causes.append(invalid(f"{path}.containers[{index}][{name}].limits", str(limit), text))
    except ValueError:
        return []  # of a container, which is refused for it
    return causes


def _requests_of_containers(spec: Json) -> Amounts:
    """The most that containers request at one time: those that run on, or one that is run before them."""
    running: Amounts = {}
    for container in sequence(spec, "containers"):
        running = add(running, parsed_amounts(mapping(container, "resources", "requests")))
    sidecars: Amounts = {}
    at_start: list[Amounts] = []
    for container in sequence(spec, "initContainers"):
        own = parsed_amounts(mapping(container, "resources", "requests"))
        if container.get("restartPolicy") == "Always":
            sidecars, running = add(sidecars, own), add(running, own)
        at_start.append(sidecars if container.get("restartPolicy") == "Always" else add(sidecars, own))
    return largest([running, *at_start])


def _pair_causes(name: str, request: object, limit: object, path: str) -> list[Cause]:
    where = f"{path}.requests"
    if is_counted(name) and clamp_quantity(request) != clamp_quantity(limit):
        return [invalid(where, str(request), f"must be equal to {name} limit of {limit}")]
    if clamp_quantity(request) > clamp_quantity(limit):
        return [invalid(where, str(request), f"must be less than or equal to {name} limit of {limit}")]
    return []
