"""Readers of Pods: phase, conditions by type, and how their containers are."""

from collections.abc import Iterable
from typing import Any

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_conditions, read_status, true_condition


def is_terminal(pod: Json | None) -> bool:
    """Return whether the Pod has ended: its containers never run again."""
    return read_status(pod).get("phase") in {"Succeeded", "Failed"}


def active_index(pod: Json) -> list[str]:
    """Index of the Pods that have not ended: they all have the empty text as their value, and others are left out."""
    return [] if is_terminal(pod) else [""]


def read_phase(pod: Json | None) -> str:
    """The Pod's phase; Pending while the kubelet has not written one."""
    return str(read_status(pod).get("phase") or "Pending")


def conditions_by_type(pod: Json | None) -> dict[str, Json]:
    return {condition["type"]: condition for condition in read_conditions(pod) if "type" in condition}


def container_statuses(pod: Json | None) -> list[dict[str, Any]]:
    """Statuses of the containers, without init containers."""
    return sequence(pod, "status", "containerStatuses")


def init_container_statuses(pod: Json | None) -> list[dict[str, Any]]:
    return sequence(pod, "status", "initContainerStatuses")


def all_container_statuses(pod: Json | None) -> list[dict[str, Any]]:
    """Statuses of init containers, then of containers, in the order in which they start."""
    return [*init_container_statuses(pod), *container_statuses(pod)]


def list_containers(spec: Json | None) -> list[dict[str, Any]]:
    """Init containers, then containers, of the specification of a Pod, in the order in which they start."""
    return [*sequence(spec, "initContainers"), *sequence(spec, "containers")]


def is_sidecar(container: Json) -> bool:
    """Return whether an init container goes on running along with the containers."""
    return container.get("restartPolicy") == "Always"


def sidecars(pod: Json) -> list[dict[str, Any]]:
    """Init containers that go on running along with the containers."""
    return [container for container in sequence(pod, "spec", "initContainers") if is_sidecar(container)]


def join_by(key: str, *lists: Iterable[Json]) -> list[Json]:
    """Join lists whose items have a key, such as the mountPath of mounts: a later item takes an earlier one's place.

    Items without the key stay. The API refuses a Pod with two mounts at one path, or two volumes of one name.
    """
    return list({item.get(key, id(item)): item for items in lists for item in items}.values())


def waiting_state(container: Json) -> Json:
    """The `waiting` state of a container status; empty when it does not wait."""
    return mapping(container, "state", "waiting")


def find_end(container: Json) -> Json | None:
    """The `terminated` state of a container status, if it has ended for now."""
    return mapping(container, "state", "terminated") or None


def last_termination(container: Json) -> Json | None:
    """The end of the container before its last restart, if the kubelet restarted it."""
    return mapping(container, "lastState", "terminated") or None


def is_ready(pod: Json | None) -> bool:
    """Return whether the condition Ready holds."""
    return true_condition(pod, "Ready") is not None
