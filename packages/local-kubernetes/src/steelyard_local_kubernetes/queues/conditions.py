"""Conditions of Workloads and queues, in Kueue's words."""

from datetime import datetime

from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_status
from steelyard_local_kubernetes.controllers.decision import with_condition

RESERVED, ADMITTED, EVICTED = "QuotaReserved", "Admitted", "Evicted"
FINISHED, PODS_READY, REQUEUED, ACTIVE = "Finished", "PodsReady", "Requeued", "Active"


def set_condition(status: Json, kind: str, value: bool, reason: str, message: str, now: datetime) -> Json:
    """Return the status with the condition."""
    condition = {"type": kind, "status": str(value), "reason": reason, "message": message}
    conditions = list(sequence(status, "conditions"))
    return {**status, "conditions": with_condition(conditions, condition, now, stamp="lastTransitionTime")}


def holds(obj: Json, kind: str) -> bool:
    """Return whether a condition is True."""
    return status_holds(read_status(obj), kind)


def status_holds(status: Json, kind: str) -> bool:
    conditions = sequence(status, "conditions")
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


def admit_status(status: Json, queue: str, assignments: list[Json], now: datetime) -> Json:
    """Return the status of a workload that is admitted: without admission checks both come at once."""
    status = {**status, "admission": {"clusterQueue": queue, "podSetAssignments": assignments}}
    message = f"Quota reserved in ClusterQueue {queue}"
    status = set_condition(status, RESERVED, True, "QuotaReserved", message, now)
    if status_holds(status, EVICTED):
        status = set_condition(status, EVICTED, False, "QuotaReserved", "Previously evicted", now)
    return set_condition(status, ADMITTED, True, "Admitted", "The workload is admitted", now)


def pending(status: Json, reason: str, message: str, now: datetime) -> Json:
    """Return the status of a workload that waits."""
    return set_condition(status, RESERVED, False, reason, message, now)


def evict_status(status: Json, reason: str, message: str, now: datetime) -> Json:
    return set_condition(status, EVICTED, True, reason, message, now)


def release_status(status: Json, now: datetime) -> Json:
    """Return the status of an evicted workload whose Pods are gone: its quota is free again."""
    why = next(c for c in sequence(status, "conditions") if c["type"] == EVICTED)
    status = {key: value for key, value in status.items() if key != "admission"}
    status = set_condition(status, RESERVED, False, "Pending", why["message"], now)
    status = set_condition(status, ADMITTED, False, "NoReservation", "The workload has no reservation", now)
    if not status_holds(status, PODS_READY):
        return set_condition(status, REQUEUED, True, why["reason"], why["message"], now)
    status = set_condition(
        status, PODS_READY, False, "WaitForStart", "Not all pods are ready or succeeded", now
    )
    return set_condition(status, REQUEUED, True, why["reason"], why["message"], now)


def finish_status(status: Json, *, succeeded: bool, message: str, now: datetime) -> Json:
    return set_condition(status, FINISHED, True, "Succeeded" if succeeded else "Failed", message, now)
