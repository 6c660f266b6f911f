"""Metrics of the orchestrator in Prometheus' form; the registry comes from the process that serves `/metrics`."""

from collections.abc import Mapping

from prometheus_client import Counter, Gauge, Histogram

from steelyard_common.figures import Figures
from steelyard_kube.metrics import ReconcileMetrics, WorkQueueMetrics

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)


class OrchestratorMetrics:
    """Admissions, and those who wait."""

    def __init__(self, figures: Figures | None = None) -> None:
        figures = Figures() if figures is None else figures
        self.leading = figures.leading
        registry = figures.registry
        self.work_queue = WorkQueueMetrics(registry, "orchestrator")
        self.reconciliations = ReconcileMetrics(registry)
        self.admitted = Counter(
            "steelyard_orchestrator_admitted", "Workflows admitted.", ["kind"], registry=registry
        )
        self.seconds = Histogram(
            "steelyard_orchestrator_created_to_admitted_seconds",
            "From an entity's creation to its admission.",
            ["kind"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.failed = Counter(
            "steelyard_orchestrator_failed",
            "Workflows that failed before they ran.",
            ["reason"],
            registry=registry,
        )
        self.held = Gauge(
            "steelyard_orchestrator_held", "Workflows admitted and not ended.", registry=registry
        )
        self.retries = Counter(
            "steelyard_orchestrator_retries", "Looks at a resource that are repeated.", registry=registry
        )
        self._waiting = Gauge(
            "steelyard_orchestrator_waiting", "Workflows that wait, by reason.", ["reason"], registry=registry
        )

    def stop(self) -> None:
        """Another process leads: what it holds is for that one to say."""
        self.held.set(0)
        self._waiting.clear()

    def count_waiting(self, reasons: Mapping[str, int]) -> None:
        self._waiting.clear()
        for reason, number in reasons.items():
            self._waiting.labels(reason).set(number)
