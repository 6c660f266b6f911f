"""Readers of Pods: phase, conditions by type, and how their containers are."""

from typing import Any

from steelyard.kube.objects import conditions_of, status_of
from steelyard.types import Json


def phase_of(pod: Json) -> str:
    """The Pod's phase; Pending while the kubelet has not written one."""
    return str(status_of(pod).get("phase") or "Pending")


def conditions_by_type(pod: Json) -> dict[str, Json]:
    return {condition["type"]: condition for condition in conditions_of(pod)}


def container_statuses(pod: Json) -> list[dict[str, Any]]:
    """Statuses of the containers, without init containers."""
    return status_of(pod).get("containerStatuses") or []


def init_container_statuses(pod: Json) -> list[dict[str, Any]]:
    return status_of(pod).get("initContainerStatuses") or []


def all_container_statuses(pod: Json) -> list[dict[str, Any]]:
    """Statuses of init containers, then of containers, in the order in which they start."""
    return [*init_container_statuses(pod), *container_statuses(pod)]


def waiting_state(container: Json) -> Json:
    """The `waiting` state of a container status; empty when it does not wait."""
    return (container.get("state") or {}).get("waiting") or {}


def terminated_state(container: Json) -> Json | None:
    """The `terminated` state of a container status, if it has ended for now."""
    return (container.get("state") or {}).get("terminated") or None


def last_termination(container: Json) -> Json | None:
    """The end of the container before its last restart, if the kubelet restarted it."""
    return (container.get("lastState") or {}).get("terminated") or None


def is_ready(pod: Json) -> bool:
    """Return whether the condition Ready holds."""
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions_of(pod)
    )
