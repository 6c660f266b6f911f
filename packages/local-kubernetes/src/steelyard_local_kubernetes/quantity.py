"""Kubernetes quantities (`100m`, `256Mi`) as numbers, and what a Pod asks for."""

from collections.abc import Iterable
from decimal import Decimal

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.pods import is_sidecar, sidecars
from steelyard_schema.quantity import amount as amount_of

CONTAINERS = 4
"""Containers of a Pod that run side by side and take the place of one Pod of the node."""
_LARGEST = Decimal(2**63 - 1)


def number(quantity: str | int | float) -> float:
    """ValueError for any other text. Larger amounts count as the largest, as in a real cluster: `1e999` is more
    than every machine has, but not infinite."""
    return float(min(max(amount_of(str(quantity)), -_LARGEST), _LARGEST))


def quantity_text(resource: str, amount: float) -> str:
    """A quantity for a person: cores in thousandths, memory and disk in Mi."""
    if resource == "cpu":
        return f"{amount:g}" if amount == int(amount) else f"{round(amount * 1000)}m"
    if resource in ("memory", "ephemeral-storage"):
        return f"{round(amount / 1024**2)}Mi"
    return f"{amount:g}"


def container_requests(container: Json) -> dict[str, float]:
    """Return a container's requests, and its limits where it requests nothing of a resource."""
    resources = mapping(container, "resources")
    # Kubernetes' rule: what is limited and not requested is requested as much as it is limited.
    amounts = {**mapping(resources, "limits"), **mapping(resources, "requests")}
    return {name: number(amount) for name, amount in amounts.items()}


def _add_up(parts: Iterable[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def pod_requests(pod: Json) -> dict[str, float]:
    """Return a Pod's requests: containers and sidecars together, or its largest init container with the sidecars before
    it.
    """
    total = _add_up(
        container_requests(container) for container in (*pod["spec"]["containers"], *sidecars(pod))
    )
    beside: dict[str, float] = {}
    # They run one after the other, before the others: room for the greediest is enough.
    for container in sequence(pod["spec"], "initContainers"):
        amounts = _add_up([beside, container_requests(container)])
        if is_sidecar(container):
            beside = amounts
        for name, amount in amounts.items():
            total[name] = max(total.get(name, 0.0), amount)
    # Each container is two processes here, and few Pods have more than some.
    running = len(pod["spec"]["containers"]) + len(sidecars(pod))
    return {**total, "pods": max(1.0, running / CONTAINERS)}


def memory_limit(container: Json) -> int | None:
    """Bytes, or None without a limit."""
    limit = mapping(container, "resources", "limits").get("memory")
    return int(number(limit)) if limit is not None else None
