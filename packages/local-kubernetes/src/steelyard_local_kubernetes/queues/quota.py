"""Requests of a workload's Pods, and whether they fit into the quota of its ClusterQueue."""

from collections import defaultdict
from dataclasses import dataclass

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_status
from steelyard_local_kubernetes.controllers.ray.status import amount_text
from steelyard_local_kubernetes.quantity import number, pod_requests
from steelyard_local_kubernetes.queues.cohorts import Quota, Usage

_ROUNDING = 1e-6  # error of added fractions: 0.2 three times is more than 0.6


def text(resource: str, amount: float) -> str:
    return amount_text(amount, binary=resource not in ("cpu", "pods"))


def demand(pod_set: Json) -> dict[str, float]:
    """Return what all Pods of a set ask for."""
    template = mapping(pod_set, "template")
    spec = {"containers": [], **mapping(template, "spec")}
    # A Pod is one for a quota, though one of many containers takes several places of the node.
    amounts = {**pod_requests({"spec": spec}), "pods": 1.0}
    return {name: amount * pod_set["count"] for name, amount in amounts.items() if amount}


def workload_usage(workload: Json) -> Usage:
    """Return what an admitted workload uses."""
    used: Usage = defaultdict(float)
    for assigned in sequence(read_status(workload), "admission", "podSetAssignments"):
        flavors = mapping(assigned, "flavors")
        for resource, amount in mapping(assigned, "resourceUsage").items():
            if resource in flavors:
                used[flavors[resource], resource] += number(amount)
    return used


@dataclass(frozen=True)
class Fit:
    """An assignment of flavours to the sets of Pods, or why there is none."""

    assignments: tuple[Json, ...] = ()
    reason: str = ""
    never_fits: bool = False  # not even into an empty queue


def fit(workload: Json, quota: Quota) -> Fit:
    """Find for each set of Pods, and each group of resources, the first flavour with enough quota."""
    taken: Usage = defaultdict(float)
    assignments, reasons, never_fits = [], [], False
    for pod_set in sequence(workload["spec"], "podSets"):
        chosen, faults, too_large = _assign(pod_set, quota, taken)
        never_fits = never_fits or too_large
        if faults:
            reasons.append(f"couldn't assign flavors to pod set {pod_set['name']}: {', '.join(faults)}")
            continue
        amounts = demand(pod_set)
        for resource, flavor in chosen.items():
            taken[flavor, resource] += amounts.get(resource, 0.0)
        usage = {name: text(name, amounts[name]) for name in chosen}
        assignments.append(
            {"name": pod_set["name"], "flavors": chosen, "resourceUsage": usage, "count": pod_set["count"]}
        )
    return Fit(reason="; ".join(reasons), never_fits=never_fits) if reasons else Fit(tuple(assignments))


def _assign(pod_set: Json, quota: Quota, taken: Usage) -> tuple[dict[str, str], list[str], bool]:
    """Return the flavour of each resource; else the reasons why not, and true if it never fits."""
    amounts = demand(pod_set)
    groups = sequence(quota.spec, "resourceGroups")
    covered = {name for group in groups for name in group["coveredResources"]}
    chosen: dict[str, str] = {}
    for name in amounts:
        if name not in covered and name != "pods":
            return {}, [f"resource {name} unavailable in ClusterQueue"], True
    for group in groups:
        requested = {name: amount for name, amount in amounts.items() if name in group["coveredResources"]}
        if not requested:
            continue
        reasons: list[str] = []
        too_large = True
        for flavor in (entry["name"] for entry in group["flavors"]):
            faults = [_lack(quota, flavor, name, amount, taken) for name, amount in requested.items()]
            if not any(text for text, _ in faults):
                chosen |= dict.fromkeys(requested, flavor)
                break
            too_large = too_large and any(never for _, never in faults)
            reasons += [text for text, _ in faults if text]
        else:
            return {}, reasons, too_large
    return chosen, [], False


def _lack(quota: Quota, flavor: str, name: str, amount: float, taken: Usage) -> tuple[str, bool]:
    """Return what a flavour lacks of a resource, empty if nothing, and true if it never has that much."""
    capacity = quota.capacity(flavor, name)
    whole = amount + taken[flavor, name]
    if whole > capacity + _ROUNDING:
        sizes = f"{text(name, whole)} > {text(name, capacity)}"
        return f"insufficient quota for {name} in flavor {flavor}, request > maximum capacity ({sizes})", True
    if (lacking := whole - quota.free(flavor, name)) > _ROUNDING:
        return (
            f"insufficient unused quota for {name} in flavor {flavor}, {text(name, lacking)} more needed",
            False,
        )
    return "", False
