"""Metrics of the operator for Prometheus, served on `/metrics`."""

from collections.abc import Mapping

from prometheus_client import Counter as Total
from prometheus_client import Gauge, Histogram

from steelyard.operator.training.metrics import TrainingMetrics
from steelyard_common.figures import Figures
from steelyard_kube.metrics import ReconcileMetrics, WorkQueueMetrics


class Metrics:
    """Metrics in a registry of their own, so that two operators in one process do not share numbers."""

    def __init__(self) -> None:
        self.figures = Figures()
        self.registry = self.figures.registry
        self.work_queue = WorkQueueMetrics(self.registry, "operator")
        self.reconciliations = ReconcileMetrics(self.registry)
        self.syncs = Total(
            "steelyard_operator_syncs",
            "Reconciliations of a resource.",
            ["kind", "result"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "steelyard_operator_sync_seconds",
            "Duration of a reconciliation in seconds.",
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

    def set_resource_counts(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Publish how many resources there are by kind and status."""
        self._resources.clear()
        for (kind, status), count in counts.items():
            self._resources.labels(kind, status).set(count)
