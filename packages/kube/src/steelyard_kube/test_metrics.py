"""Metrics of a work queue, as client-go counts them."""

from prometheus_client import CollectorRegistry

from steelyard_kube.metrics import ReconcileMetrics, WorkQueueMetrics
from steelyard_kube.test_workqueue import VirtualTimers
from steelyard_kube.workqueue import Backoff, WorkQueue


def test_a_key_is_counted_from_its_adding_to_its_end() -> None:
    registry, clock = CollectorRegistry(), VirtualTimers()
    queue: WorkQueue[str] = WorkQueue(Backoff(base=1), clock, metrics=WorkQueueMetrics(registry, "q"))

    def value(name: str) -> float | None:
        return registry.get_sample_value(f"workqueue_{name}", {"name": "q"})

    for key in ("a", "a", "b"):
        queue.add(key)
    assert (value("adds_total"), value("depth")) == (2, 2)
    clock.now += 3
    assert queue.take() == "a"
    assert (value("queue_duration_seconds_sum"), value("depth")) == (3, 1)
    clock.now += 2
    assert queue.take() == "b"
    assert (value("unfinished_work_seconds"), value("longest_running_processor_seconds")) == (2, 2)
    queue.add("a")  # while it is in work: it comes again, and waits from now on
    clock.now += 4
    queue.finish("a")
    assert (value("adds_total"), value("work_duration_seconds_sum"), value("depth")) == (3, 6, 1)
    assert queue.take() == "a"
    assert value("queue_duration_seconds_sum") == 3 + 2 + 3 + 4
    queue.retry("a")
    assert value("retries_total") == 1


def test_a_queue_that_starts_again_is_measured_again() -> None:
    registry, clock = CollectorRegistry(), VirtualTimers()
    metrics = WorkQueueMetrics(registry, "q")
    for _ in range(2):
        queue: WorkQueue[str] = WorkQueue(timers=clock, metrics=metrics)
        queue.add("a")
        queue.take()
        clock.now += 5
        assert registry.get_sample_value("workqueue_unfinished_work_seconds", {"name": "q"}) == 5


def test_failures_are_counted_by_controller() -> None:
    registry = CollectorRegistry()
    metrics = ReconcileMetrics(registry)
    metrics.count("report", 0.1, failed=True)
    metrics.count("report", 0.1, failed=False)
    labels = {"controller": "report"}
    assert registry.get_sample_value("controller_runtime_reconcile_errors_total", labels) == 1
    assert registry.get_sample_value("controller_runtime_reconcile_time_seconds_count", labels) == 2
