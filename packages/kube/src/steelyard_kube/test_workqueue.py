"""The work queue under any order of calls: never twice at once, nothing lost, back-off per key."""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from steelyard_kube.workqueue import Backoff, WorkQueue, spare_worker


@dataclass
class Alarm:
    callback: Callable[[], object] | None

    def cancel(self) -> None:
        self.callback = None


@dataclass
class VirtualTimers:
    """Time that passes only when the test says so."""

    now: float = 0.0
    _alarms: list[tuple[float, int, Alarm]] = field(default_factory=list)
    _ids: "count[int]" = field(default_factory=count)

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], object]) -> Alarm:
        alarm = Alarm(callback)
        heapq.heappush(self._alarms, (self.now + delay, next(self._ids), alarm))
        return alarm

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._alarms and self._alarms[0][0] <= end:
            self.now, _, alarm = heapq.heappop(self._alarms)
            if alarm.callback:
                alarm.callback()
        self.now = end


KEYS = st.sampled_from(["a1", "a2", "a3", "b1", "b2", "c1"])
LIMIT = 2


def tenant(key: str) -> str:
    return key[0]


class Work(RuleBasedStateMachine):
    """Keys that were added: those not yet taken up are `owed`, and the queue must hand them out, once at a
    time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.timers = VirtualTimers()
        self.queue: WorkQueue[str] = WorkQueue(timers=self.timers, tenant=tenant, tenant_limit=LIMIT)
        self.owed: set[str] = set()
        self.working: set[str] = set()
        self.due: dict[str, float] = {}

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        self.owed.add(key)

    @rule(key=KEYS, seconds=st.integers(1, 20))
    def add_after(self, key: str, seconds: int) -> None:
        self.queue.add_after(key, seconds)
        self.due[key] = min(self.due.get(key, 1e9), self.timers.now + seconds)

    @rule(key=KEYS)
    def cancel(self, key: str) -> None:
        self.queue.cancel(key)
        self.due.pop(key, None)

    @rule(seconds=st.integers(1, 10))
    def wait(self, seconds: int) -> None:
        self.timers.advance(seconds)
        for key, when in list(self.due.items()):
            if when <= self.timers.now:
                self.owed.add(key)
                del self.due[key]

    @rule()
    def take(self) -> None:
        key = self.queue.take()
        if key is None:
            for owed in self.owed - self.working:
                assert self.in_work(tenant(owed)) == LIMIT, "a key is owed, and nobody gets it"
            return
        assert key not in self.working, "the same key twice at once"
        assert key in self.owed, "a key that nobody asked for"
        self.owed.remove(key)
        self.working.add(key)
        assert self.in_work(tenant(key)) <= LIMIT, "one tenant has more in work than it may"

    def in_work(self, whose: str) -> int:
        return sum(tenant(key) == whose for key in self.working)

    @precondition(lambda self: self.working)
    @rule(data=st.data(), outcome=st.sampled_from(["succeeded", "failed"]))
    def finish(self, data: st.DataObject, outcome: str) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        if outcome == "failed":
            seconds = self.queue.retry(key)
            self.due[key] = min(self.due.get(key, 1e9), self.timers.now + seconds)
        else:
            self.queue.forget(key)
        self.queue.finish(key)
        self.working.remove(key)

    @invariant()
    def counts_agree(self) -> None:
        assert self.queue.working == len(self.working)
        assert len(self.queue) == len(self.owed)


TestWork = Work.TestCase
TestWork.settings = settings(stateful_step_count=40, deadline=None)


def test_a_key_added_while_in_work_comes_again_once() -> None:
    queue: WorkQueue[str] = WorkQueue(timers=VirtualTimers())
    queue.add("a")
    assert queue.take() == "a"
    queue.add("a")
    queue.add("a")
    assert queue.take() is None
    queue.finish("a")
    assert queue.take() == "a"
    queue.finish("a")
    assert queue.take() is None


def test_back_off_grows_per_key_to_its_cap_and_is_forgotten() -> None:
    timers = VirtualTimers()
    queue: WorkQueue[str] = WorkQueue(Backoff(base=1, cap=5), timers=timers)
    assert [queue.retry("a") for _ in range(5)] == [1, 2, 4, 5, 5]
    assert queue.retry("b") == 1
    assert queue.failures("a") == 5
    queue.forget("a")
    assert queue.retry("a") == 1


def test_many_failing_keys_share_one_rate() -> None:
    timers = VirtualTimers()
    queue: WorkQueue[int] = WorkQueue(Backoff(base=0.1, per_second=10, burst=5), timers=timers)
    waits = [queue.retry(key) for key in range(20)]
    assert waits[:6] == pytest.approx([0.1] * 6)
    assert waits[-1] == pytest.approx(1.5)
    timers.advance(60)
    assert queue.retry(99) == pytest.approx(0.1)


def test_a_tenant_with_thousands_of_keys_delays_another_by_one_key() -> None:
    queue: WorkQueue[str] = WorkQueue(timers=VirtualTimers(), tenant=tenant)
    for number in range(3000):
        queue.add(f"a{number}")
    for key in ("b1", "b2", "c1"):
        queue.add(key)
    assert [queue.take() for _ in range(8)] == ["a0", "b1", "c1", "a1", "b2", "a2", "a3", "a4"]


def test_keys_that_come_again_and_again_delay_another_by_one_key() -> None:
    queue: WorkQueue[str] = WorkQueue(timers=VirtualTimers(), tenant=tenant)
    for key in ("a1", "a2", "a3", "b1"):
        queue.add(key)
    order = []
    for _ in range(8):
        taken = queue.take()
        assert taken
        order.append(taken)
        queue.add(taken)  # its object has changed again while it was in work
        queue.finish(taken)
    assert order == ["a1", "b1", "a2", "b1", "a3", "b1", "a1", "b1"]


def test_the_last_worker_is_kept_for_another_tenant() -> None:
    workers = 4
    queue: WorkQueue[str] = WorkQueue(
        timers=VirtualTimers(), tenant=tenant, tenant_limit=spare_worker(workers)
    )
    for number in range(9):
        queue.add(f"a{number}")
    assert [queue.take() for _ in range(workers)] == ["a0", "a1", "a2", None]
    queue.add("b1")
    assert queue.take() == "b1"
    queue.finish("a1")
    assert queue.take() == "a3"
    assert spare_worker(1) == 1


def test_retries_of_one_tenant_do_not_delay_anothers() -> None:
    timers = VirtualTimers()
    queue: WorkQueue[str] = WorkQueue(timers=timers, tenant=tenant)
    waits = [queue.retry(f"a{number}") for number in range(3000)]
    assert waits[-1] == pytest.approx(2900 / 50)
    assert queue.retry("b1") == pytest.approx(0.05)


def test_a_key_whose_tenant_changes_while_in_work_leaves_no_trace_of_it() -> None:
    whose = {"key": "a"}
    queue: WorkQueue[str] = WorkQueue(timers=VirtualTimers(), tenant=lambda key: whose[key], tenant_limit=1)
    for owner in ("a", "b", "a", "b"):
        whose["key"] = owner
        queue.add("key")
        assert queue.take() == "key"
        whose["key"] = "c"
        queue.finish("key")


async def test_a_worker_that_is_cancelled_as_a_key_comes_leaves_it_to_another() -> None:
    queue: WorkQueue[str] = WorkQueue(tenant=tenant)
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a1")  # wakes the first
    first.cancel()
    assert await asyncio.wait_for(second, 60) == "a1"


def test_the_earliest_of_several_times_counts() -> None:
    timers = VirtualTimers()
    queue: WorkQueue[str] = WorkQueue(timers=timers)
    for seconds in (5, 3, 9):
        queue.add_after("a", seconds)
    timers.advance(3)
    assert queue.take() == "a"
    queue.finish("a")
    timers.advance(60)
    assert queue.take() is None


async def test_workers_share_the_keys_on_a_real_loop() -> None:
    queue: WorkQueue[int] = WorkQueue(Backoff(base=0.001))
    seen: list[int] = []
    finished = asyncio.Event()

    async def worker() -> None:
        while True:
            key = await queue.get()
            await asyncio.sleep(0)
            if queue.failures(key) < 2:
                queue.retry(key)
            else:
                seen.append(key)
                queue.forget(key)
            queue.finish(key)
            if len(seen) == 10:
                finished.set()

    workers = [asyncio.create_task(worker()) for _ in range(3)]
    for key in range(10):
        queue.add(key)
    await asyncio.wait_for(finished.wait(), 60)
    for task in workers:
        task.cancel()
    assert sorted(seen) == list(range(10))
    queue.close()
