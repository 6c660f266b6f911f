"""The scheduler and the evictions of the embedded node: a refusal for one Pod delays no other."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from steelyard_common.types import Json
from steelyard_kube.events import EventRecorder
from steelyard_kube.objects import is_deleting
from steelyard_kube.resource import EVENTS, PODS
from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.pod_object import PodObject
from steelyard_local_kubernetes.kubelet.scheduler import Scheduler
from steelyard_local_kubernetes.kubelet.taints import TaintEviction
from steelyard_local_kubernetes.kubelet.test_placement import NO_EXECUTE, make_node
from steelyard_local_kubernetes.kubelet.testing import make_config, make_pod
from steelyard_local_kubernetes.kubelet.worker import PodWorker
from tests.exploration.virtual_time import run
from tests.refusals.judging import MINUTE, judge
from tests.refusals.refusing import BUSY, RefusingCluster, lasting_ways


@dataclass(frozen=True)
class Node:
    cluster: RefusingCluster
    config: KubeletConfig
    events: EventRecorder

    def pods(self) -> list[Json]:
        return self.cluster.store.objects(PODS)

    def pod(self, name: str) -> Json:
        pod = self.cluster.store.find(PODS, name, "default")
        assert pod is not None
        return pod

    def loop(self, part: str) -> tuple[Callable[[], Awaitable[None]], asyncio.Event]:
        clock = self.cluster.clock
        if part == "scheduler":
            scheduler = Scheduler(self, self.pods, now=clock.now, monotonic=clock.monotonic)
            return scheduler.run, scheduler.wake
        tainted = make_node(taints=[NO_EXECUTE])
        eviction = TaintEviction(self, self.pods, lambda: tainted, clock.monotonic)
        return eviction.run, eviction.wake

    def is_done(self, part: str, name: str) -> bool:
        pod = self.pod(name)
        return bool(pod["spec"].get("nodeName")) if part == "scheduler" else is_deleting(pod)


async def live(part: str, cluster: RefusingCluster, folder: Path) -> Node:
    events = EventRecorder(cluster, component="test", now=cluster.clock.now)
    node = Node(cluster, make_config(folder), events)
    for name in ("bad", "good"):
        spec = {} if part == "scheduler" else {"nodeName": "n"}
        cluster.store.put(make_pod(name=name, **spec))
    loop, wake = node.loop(part)
    wake.set()
    tasks = [asyncio.ensure_future(loop()), asyncio.ensure_future(events.run())]
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * MINUTE):
            await cluster.stop.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return node


WRITES = (("scheduler", "patch"), ("eviction", "patch/status"), ("eviction", "delete"))
TOLD = [way for way in lasting_ways("patch") if way not in BUSY]


@pytest.mark.parametrize(
    ("part", "verb", "way"), [(part, verb, way) for part, verb in WRITES for way in lasting_ways(verb)]
)
def test_what_is_refused_of_one_pod_delays_no_other(part: str, verb: str, way: str, tmp_path: Path) -> None:
    async def case() -> Node:
        refuses = lambda attempt: (attempt.verb, attempt.name) == (verb, "bad")  # noqa: E731
        return await live(part, RefusingCluster(way, refuses), tmp_path)

    node = run(case())
    # An eviction is an event of its own; a scheduler says in the Pod's status what it could not do.
    judge(node.cluster, silent=part == "eviction")
    assert not node.is_done(part, "bad")
    assert node.is_done(part, "good") or way in BUSY
    assert node.cluster.store.objects(EVENTS)


@pytest.mark.parametrize("way", TOLD)
def test_a_pod_that_was_refused_is_bound_once_it_is_not(way: str, tmp_path: Path) -> None:
    async def case() -> Node:
        refuses = lambda attempt: attempt.verb == "patch" and attempt.name == "bad" and attempt.at < MINUTE  # noqa: E731
        return await live("scheduler", RefusingCluster(way, refuses), tmp_path)

    assert run(case()).is_done("scheduler", "bad")


class StatusWriter(PodWorker):
    """A kubelet's worker whose only work is to write a Pod's status; it starts no process."""

    def __init__(self, cluster: RefusingCluster, pod: Json, events: EventRecorder) -> None:
        self.events, self.wake, self._faults = events, asyncio.Event(), 0
        self.object = PodObject(cluster, pod, self.wake.set, lambda pod: None)
        self.tries = 0

    async def _step(self) -> float | None:
        self.tries += 1
        await self.object.write_status({"phase": "Running", "startTime": f"{self.tries}"})
        return None

    def _nothing_left(self) -> bool:
        return False

    async def run(self) -> None:
        while not await self._reconcile():
            pass


@pytest.mark.parametrize("way", TOLD)
def test_a_kubelet_whose_status_is_refused_says_it_and_waits(way: str) -> None:
    async def case() -> RefusingCluster:
        cluster = RefusingCluster(way, lambda attempt: attempt.verb == "patch/status")
        events = EventRecorder(cluster, component="kubelet", now=cluster.clock.now)
        cluster.store.put(make_pod(name="bad"))
        (pod,) = cluster.store.objects(PODS)
        worker = StatusWriter(cluster, pod, events)
        worker.node = SimpleNamespace(gpus=SimpleNamespace(is_held=lambda uid: False))  # type: ignore[assignment]
        tasks = [asyncio.ensure_future(worker.run()), asyncio.ensure_future(events.run())]
        await asyncio.sleep(2 * MINUTE)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return cluster

    cluster = run(case())
    judge(cluster)
    assert {event["reason"] for event in cluster.store.objects(EVENTS)} == {"FailedSync"}
