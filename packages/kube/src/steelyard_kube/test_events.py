"""The event recorder: counted, cut, dropped, and never in anybody's way."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from steelyard_common.types import Json
from steelyard_kube.cluster import Resource
from steelyard_kube.errors import Unreachable
from steelyard_kube.events import EventRecorder
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import EVALUATIONS, EVENTS, NODES


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


class Clock:
    time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, seconds: int) -> None:
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(cluster: MemoryCluster, clock: Clock) -> EventRecorder:
    return EventRecorder(cluster, component="operator", instance="one", pause=0, sweep=0, now=clock)


def evaluation(cluster: MemoryCluster, name: str = "e") -> Json:
    return cluster.store.put({"metadata": {"name": name, "namespace": "default"}}, EVALUATIONS)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_an_event_says_who_did_what_to_which(cluster: MemoryCluster, recorder: EventRecorder) -> None:
    obj = evaluation(cluster)
    recorder.record(obj, "Normal", "JobCreated", "created Job e-client-a1")
    assert cluster.store.objects(EVENTS) == []
    await recorder.flush()
    (event,) = cluster.store.objects(EVENTS)
    assert event["involvedObject"] == {
        "apiVersion": "dyff.io/v1alpha1",
        "kind": "Evaluation",
        "name": "e",
        "namespace": "default",
        "uid": obj["metadata"]["uid"],
    }
    assert event["metadata"]["namespace"] == "default"
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "JobCreated", 1)
    assert event["source"] == {"component": "operator"}


async def test_the_same_again_counts(cluster: MemoryCluster, recorder: EventRecorder, clock: Clock) -> None:
    obj = evaluation(cluster)
    for _ in range(3):
        recorder.record(obj, "Warning", "Failed", "why")
    await recorder.flush()
    clock.advance(60)
    recorder.record(obj, "Warning", "Failed", "why")
    recorder.record(obj, "Warning", "Failed", "another reason")
    await recorder.flush()
    counts = {event["message"]: event["count"] for event in cluster.store.objects(EVENTS)}
    assert counts == {"why": 4, "another reason": 1}
    first = next(event for event in cluster.store.objects(EVENTS) if event["count"] == 4)
    assert (first["firstTimestamp"], first["lastTimestamp"]) == (
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:01:00Z",
    )


async def test_events_of_one_namespace_neither_delay_nor_crowd_out_anothers(
    cluster: MemoryCluster, recorder: EventRecorder
) -> None:
    for number in range(2000):
        busy = {
            "kind": "Evaluation",
            "metadata": {"name": f"e{number}", "namespace": "busy", "uid": str(number)},
        }
        recorder.record(busy, "Warning", "Failed", "why")
    other = {"kind": "Evaluation", "metadata": {"name": "other", "namespace": "other", "uid": "other"}}
    recorder.record(other, "Warning", "Failed", "why")
    assert recorder.dropped == 1000
    order: list[str] = []
    cluster.before_call = lambda verb, resource, name: order.append(name.partition(".")[0])
    await recorder.flush()
    assert order[:3] == ["e0", "other", "e1"]


async def test_an_event_that_expired_is_reported_again(
    cluster: MemoryCluster, recorder: EventRecorder
) -> None:
    obj = evaluation(cluster)
    recorder.record(obj, "Normal", "Ready", "yes")
    await recorder.flush()
    (event,) = cluster.store.objects(EVENTS)
    cluster.store.remove(EVENTS, event["metadata"]["name"], "default")
    recorder.record(obj, "Normal", "Ready", "yes")
    await recorder.flush()
    assert [event["count"] for event in cluster.store.objects(EVENTS)] == [1]


async def test_an_api_that_is_away_costs_events_and_nothing_else(
    cluster: MemoryCluster, recorder: EventRecorder
) -> None:
    def away(verb: str, resource: Resource, name: str) -> None:
        raise Unreachable("away")

    cluster.before_call = away
    obj = evaluation(cluster)
    recorder.record(obj, "Normal", "Ready", "yes")
    recorder.record(obj, "Normal", "Ready", "yes")
    await recorder.flush()
    assert recorder.dropped == 2
    cluster.before_call = None
    recorder.record(obj, "Normal", "Ready", "yes")
    await recorder.flush()
    assert len(cluster.store.objects(EVENTS)) == 1


async def test_what_waits_is_bounded(cluster: MemoryCluster, recorder: EventRecorder) -> None:
    obj = evaluation(cluster)
    for number in range(1500):
        recorder.record(obj, "Normal", f"Busy{number % 100}", str(number))
    assert recorder.dropped == 500
    await recorder.flush()
    assert len(cluster.store.objects(EVENTS)) == 1000


async def test_long_names_and_messages_are_cut(cluster: MemoryCluster, recorder: EventRecorder) -> None:
    recorder.record(evaluation(cluster, "n" * 253), "Normal", "Long", "m" * 5000)
    await recorder.flush()
    (event,) = cluster.store.objects(EVENTS)
    assert len(event["metadata"]["name"]) == 253
    assert len(event["message"]) == 1024


async def test_what_has_no_namespace_speaks_in_default(
    cluster: MemoryCluster, recorder: EventRecorder
) -> None:
    recorder.record(cluster.store.put({"metadata": {"name": "n"}}, NODES), "Normal", "Ready", "yes")
    await recorder.flush()
    assert cluster.store.objects(EVENTS)[0]["metadata"]["namespace"] == "default"


async def test_a_task_of_its_own_writes(cluster: MemoryCluster, recorder: EventRecorder) -> None:
    written = asyncio.Event()
    cluster.after_call = lambda verb, resource, name: written.set()
    writing = asyncio.create_task(recorder.run())
    for number in range(3):
        recorder.record(evaluation(cluster), "Normal", "Step", str(number))
        await asyncio.wait_for(written.wait(), 60)
        written.clear()
    assert len(cluster.store.objects(EVENTS)) == 3
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)


async def test_two_flushes_at_once_write_each_event_once(
    cluster: MemoryCluster, recorder: EventRecorder
) -> None:
    for number in range(20):
        recorder.record(evaluation(cluster, f"e{number}"), "Normal", "Ready", "yes")
    await asyncio.gather(recorder.flush(), recorder.flush())
    assert [event["count"] for event in cluster.store.objects(EVENTS)] == [1] * 20
    assert recorder.dropped == 0


async def test_what_has_long_not_happened_again_is_not_remembered(
    cluster: MemoryCluster, recorder: EventRecorder, clock: Clock
) -> None:
    writing = asyncio.create_task(recorder.run())
    for number in range(100):
        recorder.record(evaluation(cluster, f"e{number}"), "Normal", "Ready", "yes")
    await until(lambda: len(cluster.store.objects(EVENTS)) == 100)
    assert recorder.count_events == 200
    clock.advance(299)
    recorder.record(evaluation(cluster, "e0"), "Normal", "Ready", "yes")
    await until(lambda: any(event["count"] == 2 for event in cluster.store.objects(EVENTS)))
    clock.advance(102)
    await until(lambda: recorder.count_events == 1)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    recorder.record(evaluation(cluster, "e0"), "Normal", "Ready", "yes")
    recorder.record(evaluation(cluster, "e1"), "Normal", "Ready", "yes")
    await recorder.flush()
    counts = Counter(
        (event["involvedObject"]["name"], event["count"]) for event in cluster.store.objects(EVENTS)
    )
    assert (counts["e0", 3], counts["e1", 1], counts.total()) == (1, 2, 101)


async def test_an_allowance_that_is_not_full_again_is_remembered(
    cluster: MemoryCluster, recorder: EventRecorder, clock: Clock
) -> None:
    writing = asyncio.create_task(recorder.run())
    obj, other = evaluation(cluster), evaluation(cluster, "other")
    for number in range(30):
        recorder.record(obj, "Normal", "Busy", str(number))
    recorder.record(other, "Normal", "Busy", "once")
    clock.advance(600)
    await until(lambda: recorder.count_events == 1)
    for number in range(30, 40):
        recorder.record(obj, "Normal", "Busy", str(number))
    assert recorder.dropped == 5 + 8
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)


async def test_of_hundreds_of_like_events_the_first_are_reported(
    cluster: MemoryCluster, recorder: EventRecorder, clock: Clock
) -> None:
    obj, other = evaluation(cluster), evaluation(cluster, "other")
    for number in range(100):
        recorder.record(obj, "Normal", "SuccessfulCreatePod", f"Created pod: e-{number}")
    recorder.record(obj, "Warning", "Failed", "it failed")
    recorder.record(other, "Normal", "SuccessfulCreatePod", "Created pod: other-0")
    await recorder.flush()
    assert (len(cluster.store.objects(EVENTS)), recorder.dropped) == (27, 75)
    clock.advance(300)
    recorder.record(obj, "Normal", "SuccessfulCreatePod", "Created pod: e-100")
    recorder.record(obj, "Normal", "SuccessfulCreatePod", "Created pod: e-101")
    await recorder.flush()
    assert (len(cluster.store.objects(EVENTS)), recorder.dropped) == (28, 76)
