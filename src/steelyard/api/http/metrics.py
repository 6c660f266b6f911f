"""Prometheus metrics of one API process."""

from datetime import datetime

from prometheus_client import Counter, Gauge, Histogram

from steelyard.accounts.outbox import Backlog
from steelyard_common.figures import Figures

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Requests by route and status, with their times; `figures` holds the other metrics of the process as well."""

    def __init__(self, figures: Figures | None = None) -> None:
        self.figures = figures or Figures()
        self.registry = self.figures.registry
        names = ["method", "route"]
        self._requests = Counter(
            "steelyard_api_requests", "Requests answered.", [*names, "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "steelyard_api_request_seconds",
            "Time to answer.",
            names,
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._left_out = Counter(
            "steelyard_api_entities_left_out",
            "Entities that could not be read, left out of an answer.",
            ["kind"],
            registry=self.registry,
        )
        self._unsent = Gauge(
            "steelyard_outbox_unsent_commands",
            "Commands that were accepted and are not in the log yet.",
            registry=self.registry,
        )
        self._oldest = Gauge(
            "steelyard_outbox_oldest_unsent_age_seconds",
            "Time for which the oldest of them waits.",
            registry=self.registry,
        )
        # Looking a child up by its labels costs as much as counting: the children are kept.
        self._counters: dict[tuple[str, str, int], Counter] = {}
        self._histograms: dict[tuple[str, str], Histogram] = {}

    def show_backlog(self, backlog: Backlog, now: datetime) -> None:
        """Show what the outbox has not sent."""
        self._unsent.set(backlog.rows)
        self._oldest.set(max(0.0, (now - backlog.oldest).total_seconds()) if backlog.oldest else 0.0)

    def count_left_out(self, kind: str) -> None:
        """Count an entity that could not be read."""
        self._left_out.labels(kind).inc()

    def count_answer(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count an answer by the method and the path of its route."""
        counter = self._counters.get((method, path, status))
        if counter is None:
            counter = self._counters[method, path, status] = self._requests.labels(method, path, str(status))
            self._histograms[method, path] = self._seconds.labels(method, path)
        counter.inc()
        self._histograms[method, path].observe(seconds)
