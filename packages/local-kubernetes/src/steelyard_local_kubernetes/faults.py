"""Counts what the parts of the embedded Kubernetes could not work on, object by object, for `/metrics`."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily


class Faults:
    """Unexpected exceptions by part of the process and kind of object. None of them ended the part."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, part: str, kind: str) -> None:
        self._counts[part, kind] += 1

    def number(self, part: str, kind: str) -> int:
        return self._counts[part, kind]

    def parts(self) -> set[str]:
        """Return the parts that have met one."""
        return {part for part, _ in self._counts}

    def collect(self) -> "Iterator[CounterMetricFamily]":
        """Yield the counts at a registry's request."""
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(
            "steelyard_kubernetes_faults", "Objects that a part could not work on.", labels=["part", "kind"]
        )
        for labels, number in sorted(self._counts.items()):
            family.add_metric(labels, number)
        yield family
