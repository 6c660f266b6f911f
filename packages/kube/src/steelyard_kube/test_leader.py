"""Leader election with a virtual clock: never two at once, and never none for long."""

import asyncio
import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard_kube.cluster import Resource
from steelyard_kube.errors import Conflict, Unreachable
from steelyard_kube.leader import Candidate, LeaderElector, LeaseLost, until
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import LEASES


class VirtualClock:
    """Time that passes when every task sleeps, and only as far as the test says."""

    def __init__(self) -> None:
        self.time = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._ids = count()

    def monotonic(self) -> float:
        return self.time

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time)

    async def sleep(self, seconds: float) -> None:
        waking = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.time + seconds, next(self._ids), waking))
        await waking

    async def advance(self, seconds: float) -> None:
        end = self.time + seconds
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            when, _, waking = heapq.heappop(self._sleepers)
            self.time = max(self.time, when)
            if not waking.done():
                waking.set_result(None)
            await _settle()
        self.time = end


async def _settle() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


class FrozenClock:
    """One candidate's view of a clock: while it is frozen, the candidate does not wake, as a suspended process."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.until = 0.0

    def monotonic(self) -> float:
        return self.clock.time

    def now(self) -> datetime:
        return self.clock.now()

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)
        while self.clock.time < self.until:
            await self.clock.sleep(self.until - self.clock.time)


class Standing:
    """Stands again whenever it has lost."""

    def __init__(
        self, cluster: Any, clock: Any, identity: str, has_ended: Callable[[str], bool] | None = None
    ) -> None:
        self.clock = clock
        self._working = False
        candidate = Candidate(identity, clock, has_ended or (lambda holder: False))
        self.elector = LeaderElector(cluster, candidate, namespace="default", name="lead")
        self.task = asyncio.create_task(self._stand())

    def works(self) -> bool:
        return self._working

    @property
    def acts(self) -> bool:
        """A worker acts when its work runs, it is not suspended, and it asked whether it still leads."""
        return self._working and self.clock.monotonic() >= self.clock.until and self.elector.leading

    async def _stand(self) -> None:
        while True:
            try:
                await self.elector.lead(self._work)
            except LeaseLost:
                continue

    async def _work(self) -> None:
        self._working = True
        try:
            await asyncio.Event().wait()
        finally:
            self._working = False

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_one_leads_and_the_next_takes_over_at_once_after_a_release() -> None:
    cluster, clock = MemoryCluster(), VirtualClock()
    one, two = (Standing(cluster, FrozenClock(clock), name) for name in ("one", "two"))
    await clock.advance(60)
    assert (one.works(), two.works()) == (True, False)
    await one.stop()
    await clock.advance(3)
    assert two.works()
    (lease,) = cluster.store.objects(LEASES)
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("two", 1)
    await two.stop()


async def test_a_leader_that_dies_is_replaced_after_the_lease() -> None:
    cluster, clock = MemoryCluster(), VirtualClock()
    one, two = (Standing(cluster, FrozenClock(clock), name) for name in ("one", "two"))
    await clock.advance(20)
    one.clock.until = 1e9
    await clock.advance(12)
    assert not two.works()
    await clock.advance(6)
    assert two.works()
    assert not one.acts
    for candidate in (one, two):
        await candidate.stop()


@pytest.mark.parametrize("duration", [5, 120])
async def test_a_lease_lasts_as_long_as_it_says_itself(duration: int) -> None:
    """The holder may be of another version, with another timing than the candidate's own."""
    cluster, clock = MemoryCluster(), VirtualClock()
    spec = {"holderIdentity": "another", "leaseDurationSeconds": duration, "leaseTransitions": 0}
    cluster.store.create(LEASES, {"metadata": {"name": "lead", "namespace": "default"}, "spec": spec})
    candidate = Standing(cluster, FrozenClock(clock), "one")
    await clock.advance(duration - 1)
    assert not candidate.works()
    await clock.advance(4)
    assert candidate.works()
    await candidate.stop()


async def test_a_leader_that_is_known_to_have_died_is_replaced_at_once() -> None:
    cluster, clock = MemoryCluster(), VirtualClock()
    one = Standing(cluster, FrozenClock(clock), "one")
    await clock.advance(20)
    one.clock.until = 1e9  # as if it had been killed: it releases nothing
    two = Standing(cluster, FrozenClock(clock), "two", lambda holder: holder == "one")
    await clock.advance(1)
    assert two.works()
    for candidate in (one, two):
        await candidate.stop()


async def test_a_leader_without_the_api_stops_before_another_may_begin() -> None:
    cluster, clock = MemoryCluster(), VirtualClock()
    one = Standing(cluster, FrozenClock(clock), "one")
    await clock.advance(5)

    def away(verb: str, resource: Resource, name: str) -> None:
        raise Unreachable("away")

    cluster.before_call = away
    await clock.advance(8)
    assert one.works()
    await clock.advance(3)
    assert not one.works()
    cluster.before_call = None
    await clock.advance(3)
    assert one.works()
    await one.stop()


async def test_a_lease_that_another_wrote_to_is_read_again_and_kept() -> None:
    cluster, clock = MemoryCluster(), VirtualClock()
    one = Standing(cluster, FrozenClock(clock), "one")
    await clock.advance(5)
    await cluster.patch(LEASES, "lead", {"metadata": {"labels": {"a": "b"}}}, "default")
    await clock.advance(20)
    assert one.works()
    await one.stop()


async def test_work_that_ends_or_fails_ends_the_lead() -> None:
    cluster, clock = MemoryCluster(), VirtualClock()
    elector = LeaderElector(cluster, Candidate("one", clock), namespace="default", name="lead")

    async def ends() -> None:
        assert elector.leading

    await elector.lead(ends)
    assert not elector.leading

    async def fails() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await elector.lead(fails)
    assert cluster.store.objects(LEASES)[0]["spec"]["holderIdentity"] == ""


FAULTS = st.lists(
    st.tuples(
        st.sampled_from(["wait", "freeze-one", "freeze-two", "away", "lossy", "honest", "touch"]),
        st.integers(1, 25),
    ),
    max_size=14,
)


@settings(deadline=None)
@given(faults=FAULTS, seed=st.integers(0, 1000))
def test_never_two_at_once_and_never_none_for_long(faults: list[tuple[str, int]], seed: int) -> None:
    asyncio.run(_elections(faults, Random(seed)))


async def _elections(faults: list[tuple[str, int]], rng: Random) -> None:
    cluster, clock = MemoryCluster(), VirtualClock()
    candidates = {name: Standing(cluster, FrozenClock(clock), name) for name in ("one", "two")}
    failing = 0.0

    def fail(verb: str, resource: Resource, name: str) -> None:
        if rng.random() < failing / 2:
            raise rng.choice([Unreachable("lost"), Conflict("changed")])

    cluster.before_call = cluster.after_call = fail
    for fault, seconds in faults:
        match fault.split("-"):
            case ["freeze", name]:
                candidates[name].clock.until = clock.time + seconds
            case ["away" | "lossy" | "honest", *_]:
                failing = {"away": 2.0, "lossy": 0.5, "honest": 0.0}[fault]
            case ["touch"] if cluster.store.find(LEASES, "lead", "default"):
                cluster.store.put(
                    {
                        **(cluster.store.find(LEASES, "lead", "default") or {}),
                        "metadata": {"name": "lead", "namespace": "default", "labels": {"n": str(seconds)}},
                    }
                )
        for _ in range(seconds):
            await clock.advance(1)
            assert sum(candidate.acts for candidate in candidates.values()) <= 1
    failing = 0.0
    await clock.advance(45)
    assert sum(candidate.acts for candidate in candidates.values()) == 1
    for candidate in candidates.values():
        await candidate.stop()


async def test_work_ends_at_a_stop_and_what_it_raises_before_is_reported() -> None:
    stop, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    working = asyncio.create_task(until(stop, work()))
    await asyncio.sleep(0)
    stop.set()
    await working
    assert ended.is_set()

    async def fails() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        await until(asyncio.Event(), fails())
