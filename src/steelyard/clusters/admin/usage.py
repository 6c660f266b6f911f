"""Usage of cluster queues; as text, a bar of characters."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from steelyard.clusters.reading import items, number, text
from steelyard_common.types import Json
from steelyard_schema.quantity import amount, quantity

WIDTH = 30
_UNITS = [("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)]


@dataclass(frozen=True)
class ClusterQueueView:
    """A ClusterQueue; `resource` is the whole object."""

    resource: Json

    @property
    def name(self) -> str:
        return text(self.resource, "metadata", "name")

    @property
    def cohort(self) -> str:
        return text(self.resource, "spec", "cohortName") or text(self.resource, "spec", "cohort")

    @property
    def stop_policy(self) -> str:
        return text(self.resource, "spec", "stopPolicy") or "None"

    @property
    def pending(self) -> int:
        return number(self.resource, "status", "pendingWorkloads")

    @property
    def admitted(self) -> int:
        return number(self.resource, "status", "admittedWorkloads")


@dataclass(frozen=True)
class Usage:
    """Quota and usage of one resource in one flavour of a queue."""

    queue: str
    flavor: str
    resource: str
    quota: Decimal
    used: Decimal
    borrowed: Decimal

    @property
    def share(self) -> float:
        """Usage as a part of the quota; more than 1 where it is borrowed."""
        return float(self.used / self.quota) if self.quota else (1.0 if self.used else 0.0)

    def __str__(self) -> str:
        filled = min(round(self.share * WIDTH), WIDTH)
        bar = "#" * filled + "." * (WIDTH - filled)
        used, quota, borrowed = (
            _format(self.resource, number) for number in (self.used, self.quota, self.borrowed)
        )
        amounts = f"{used} of {quota}" + (f", {borrowed} borrowed" if self.borrowed else "")
        return f"{self.queue} {self.flavor} {self.resource} [{bar}] {self.share:.0%} ({amounts})"


def _format(resource: str, number: Decimal) -> str:
    if resource == "memory" or resource.endswith("storage"):
        for unit, size in _UNITS:
            if number >= size:
                return f"{number / size:.1f}".removesuffix(".0") + unit
    return quantity(number)


def list_usage(view: ClusterQueueView) -> Iterator[Usage]:
    """Yield the usage of a queue, in the order of its quotas."""
    used: dict[tuple[str, str], Json] = {
        (text(flavor, "name"), text(entry, "name")): entry
        for flavor in items(view.resource, "status", "flavorsUsage")
        for entry in items(flavor, "resources")
    }
    for group in items(view.resource, "spec", "resourceGroups"):
        for flavor in items(group, "flavors"):
            for quota in items(flavor, "resources"):
                key = text(flavor, "name"), text(quota, "name")
                entry = used.get(key, {})
                yield Usage(
                    view.name,
                    *key,
                    _amount(quota.get("nominalQuota")),
                    _amount(entry.get("total")),
                    _amount(entry.get("borrowed")),
                )


def _amount(value: object) -> Decimal:
    try:
        return amount(str(value)) if value is not None else Decimal(0)
    except ValueError:
        return Decimal(0)
