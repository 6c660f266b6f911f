"""The status of queues: how many workloads wait and run, and how much of each flavour they use."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime

from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_status
from steelyard_local_kubernetes.queues import conditions
from steelyard_local_kubernetes.queues.cohorts import Quota, Usage
from steelyard_local_kubernetes.queues.conditions import ACTIVE, ADMITTED, FINISHED, RESERVED, holds
from steelyard_local_kubernetes.queues.quota import text, workload_usage


def cluster_queue_counts(
    queue: Json, workloads: list[Json], resolve: Callable[[Json], str], fault: tuple[str, str], now: datetime
) -> Json:
    mine = [workload for workload in workloads if resolve(workload) == queue["metadata"]["name"]]
    reason, message = fault if fault[0] else ("Ready", "Can admit new workloads")
    groups = sequence(queue["spec"], "resourceGroups")
    names = [
        (f["name"], limit["name"]) for group in groups for f in group["flavors"] for limit in f["resources"]
    ]
    status = conditions.set_condition(read_status(queue), ACTIVE, not fault[0], reason, message, now)
    shown = _usages(mine, names, Quota(queue["spec"]))
    return {**status, **_counts(mine), **shown}


def local_queue_counts(queue: Json, workloads: list[Json], fault: tuple[str, str], now: datetime) -> Json:
    metadata = queue["metadata"]
    mine = [
        workload
        for workload in workloads
        if workload["metadata"]["namespace"] == metadata["namespace"]
        and workload["spec"].get("queueName") == metadata["name"]
    ]
    if queue["spec"].get("stopPolicy", "None") != "None":
        fault = "Stopped", "LocalQueue is stopped"
    elif fault[0] and fault[0] != "ClusterQueueDoesNotExist":
        fault = "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
    reason, message = fault if fault[0] else ("Ready", "Can submit new workloads to localQueue")
    status = conditions.set_condition(read_status(queue), ACTIVE, not fault[0], reason, message, now)
    shown = _usages(mine, sorted({key for workload in mine for key in workload_usage(workload)}), None)
    # v1beta1 has flavorUsage where v1beta2 has flavorsUsage.
    return {**status, **_counts(mine), **shown, "flavorUsage": shown["flavorsUsage"]}


def _counts(workloads: list[Json]) -> Json:
    live = [workload for workload in workloads if not holds(workload, FINISHED)]
    return {
        "pendingWorkloads": sum(not holds(workload, RESERVED) for workload in live),
        "reservingWorkloads": sum(holds(workload, RESERVED) for workload in live),
        "admittedWorkloads": sum(holds(workload, ADMITTED) for workload in live),
    }


def _usages(workloads: list[Json], names: Iterable[tuple[str, str]], quota: Quota | None) -> Json:
    live = [workload for workload in workloads if not holds(workload, FINISHED)]
    reserving = [workload for workload in live if holds(workload, RESERVED)]
    admitted = [workload for workload in live if holds(workload, ADMITTED)]
    return {
        "flavorsReservation": _flavor_usage(reserving, names, quota),
        "flavorsUsage": _flavor_usage(admitted, names, quota),
    }


def _flavor_usage(workloads: list[Json], names: Iterable[tuple[str, str]], quota: Quota | None) -> list[Json]:
    """Return the use by flavour; of a queue with a quota also what it borrows."""
    used: Usage = defaultdict(float)
    for workload in workloads:
        for key, amount in workload_usage(workload).items():
            used[key] += amount
    flavors: dict[str, list[Json]] = {}
    for flavor, resource in names:
        entry = {"name": resource, "total": text(resource, used[flavor, resource])}
        if quota is not None:
            beyond = max(used[flavor, resource] - quota.nominal(flavor, resource), 0.0)
            entry["borrowed"] = text(resource, beyond)
        flavors.setdefault(flavor, []).append(entry)
    return [{"name": name, "resources": resources} for name, resources in flavors.items()]
