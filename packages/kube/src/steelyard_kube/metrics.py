"""Metrics of work queues and of those who work on them, under the names that Kubernetes' own controllers use.

Dashboards and alerts that are made for client-go and controller-runtime read them as they are.
"""

from collections.abc import Callable, Hashable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600)


class WorkQueueMetrics:
    """Metrics of client-go's work queues for the queue `name`."""

    def __init__(self, registry: CollectorRegistry, name: str) -> None:
        def gauge(metric: str, text: str) -> Gauge:
            return Gauge(f"workqueue_{metric}", text, ["name"], registry=registry).labels(name)

        def counter(metric: str, text: str) -> Counter:
            return Counter(f"workqueue_{metric}", text, ["name"], registry=registry).labels(name)

        def histogram(metric: str, text: str) -> Histogram:
            return Histogram(
                f"workqueue_{metric}", text, ["name"], buckets=_SECONDS, registry=registry
            ).labels(name)

        self._depth = gauge("depth", "Keys that wait for a worker.")
        self._unfinished = gauge(
            "unfinished_work_seconds", "Seconds for which workers have had their keys, in all."
        )
        self._longest = gauge(
            "longest_running_processor_seconds", "Seconds for which a worker has had its key, at most."
        )
        self._adds = counter("adds", "Keys added to the queue.")
        self._retries = counter("retries", "Keys added again after a failure.")
        self._waited = histogram("queue_duration_seconds", "Time that a key waits for a worker.")
        self._worked = histogram("work_duration_seconds", "Time that a worker has a key.")
        self._added: dict[Hashable, float] = {}
        self._taken: dict[Hashable, float] = {}
        self._now: Callable[[], float] = float

    def watch(self, length: Callable[[], int], now: Callable[[], float]) -> None:
        """Measure a queue from now on, whose keys are all new."""
        self._now, self._added, self._taken = now, {}, {}
        self._depth.set_function(length)
        self._unfinished.set_function(lambda: sum(now() - since for since in self._taken.values()))
        self._longest.set_function(
            lambda: max((now() - since for since in self._taken.values()), default=0.0)
        )

    def note_added(self, key: Hashable) -> None:
        self._adds.inc()
        self._added.setdefault(key, self._now())

    def note_taken(self, key: Hashable) -> None:
        self._taken[key] = now = self._now()
        self._waited.observe(now - self._added.pop(key, now))

    def note_done(self, key: Hashable) -> None:
        now = self._now()
        self._worked.observe(now - self._taken.pop(key, now))

    def note_retry(self) -> None:
        self._retries.inc()


class ReconcileMetrics:
    """Metrics of controller-runtime's reconciliations, by controller: a kind in lower case, or a service."""

    def __init__(self, registry: CollectorRegistry) -> None:
        names = ["controller"]
        self._errors = Counter(
            "controller_runtime_reconcile_errors",
            "Reconciliations that failed and are tried again.",
            names,
            registry=registry,
        )
        self._seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a reconciliation.",
            names,
            buckets=_SECONDS,
            registry=registry,
        )

    def count(self, controller: str, seconds: float, *, failed: bool) -> None:
        """Count a reconciliation."""
        self._seconds.labels(controller).observe(seconds)
        self._errors.labels(controller).inc(failed)
