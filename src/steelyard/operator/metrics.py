"""What the operator counts, in Prometheus' form, on `/metrics`."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client import Counter as Total

from steelyard.operator.training.metrics import TrainingMetrics

Json = dict[str, Any]


class Metrics:
    """A registry of its own, so that two operators in one process do not share numbers."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.syncs = Total(
            "steelyard_operator_syncs", "Looks at a resource.", ["kind", "result"], registry=self.registry
        )
        self.seconds = Histogram(
            "steelyard_operator_sync_seconds",
            "Duration of a look at a resource.",
            ["kind"],
            registry=self.registry,
        )
        self.writes = Total(
            "steelyard_operator_api_writes", "Writes to the API.", ["verb"], registry=self.registry
        )
        self.queue = Gauge(
            "steelyard_operator_queue", "Resources that wait for a worker.", registry=self.registry
        )
        self.leading = Gauge(
            "steelyard_operator_leading", "1 while this process leads.", registry=self.registry
        )
        self._resources = Gauge(
            "steelyard_resources", "Resources by kind and status.", ["kind", "status"], registry=self.registry
        )

        self.training = TrainingMetrics(self.registry)

    def count(self, resources: Iterable[Json]) -> None:
        counts = Counter((obj.get("kind", ""), _standing(obj.get("status") or {})) for obj in resources)
        self._resources.clear()
        for (kind, status), number in counts.items():
            self._resources.labels(kind, status).set(number)


def _standing(status: Json) -> str:
    """In one word; of a training job its last condition."""
    if "status" in status:
        return str(status["status"] or "Created")
    return str((status.get("conditions") or [{"type": "Created"}])[-1]["type"])
