"""The gate before a provider: the limits are kept, turns come in order, and no call waits in vain."""

import asyncio
from collections import deque
from itertools import pairwise

import pytest

from steelyard_evaluation.hosted.gate import Gate, RateLimited

PATIENCE = 60.0


class BeginTimes(deque[float]):
    """Times at which calls begin, by the gate's own reading: the test's own would be later on a busy machine."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[float] = []

    def append(self, time: float) -> None:
        self.all.append(time)
        super().append(time)


async def begin(gate: Gate, calls: int, order: list[int] | None = None) -> None:
    """Make calls at once, and note the order in which they begin."""

    async def make(number: int) -> None:
        async with gate.turn(PATIENCE):
            if order is not None:
                order.append(number)

    await asyncio.gather(*(make(number) for number in range(calls)))


async def test_no_window_holds_more_calls_than_the_rate() -> None:
    rate, window = 5, 0.2
    order: list[int] = []
    gate = Gate(rate, None, window=window)
    gate._begun = begun = BeginTimes()
    await begin(gate, 4 * rate, order)
    assert order == sorted(order)
    assert len(begun.all) == 4 * rate
    assert all(later >= earlier + window for earlier, later in zip(begun.all, begun.all[rate:], strict=False))


async def test_processes_share_the_rate() -> None:
    window = 0.1
    gate = Gate(4, None, lambda: 4, window=window)
    gate._begun = begun = BeginTimes()
    await begin(gate, 4)
    assert len(begun.all) == 4
    assert all(later >= earlier + window for earlier, later in pairwise(begun.all))


async def test_only_so_many_calls_at_once() -> None:
    gate, running, most = Gate(None, 3), 0, 0

    async def make() -> None:
        nonlocal running, most
        async with gate.turn(PATIENCE):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1

    await asyncio.gather(*(make() for _ in range(20)))
    assert most == 3


async def test_a_call_whose_turn_is_far_off_learns_when_to_come_back() -> None:
    gate = Gate(2, None)
    await begin(gate, 2)
    with pytest.raises(RateLimited) as error:
        async with gate.turn(1.0):
            pass
    assert 50 < error.value.retry_after <= 60


async def test_a_call_that_waits_behind_others_gets_that_answer() -> None:
    gate = Gate(1, None)
    await begin(gate, 1)
    waiting = asyncio.create_task(begin(gate, 1))
    while not gate._waiting:  # noqa: ASYNC110 - nothing tells that it waits
        await asyncio.sleep(0)
    with pytest.raises(RateLimited) as error:
        async with gate.turn(1.0):
            pass
    assert 110 < error.value.retry_after <= 120
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_a_full_house_is_reported_after_the_patience() -> None:
    gate = Gate(None, 1)
    async with gate.turn(PATIENCE):
        with pytest.raises(RateLimited) as error:
            async with gate.turn(0.01):
                pass
    assert error.value.retry_after == 1
    async with gate.turn(PATIENCE):
        pass


async def test_a_call_that_is_given_up_takes_no_turn() -> None:
    gate, order = Gate(None, 1), list[int]()
    async with gate.turn(PATIENCE):
        given_up = asyncio.create_task(begin(gate, 1))
        waiting = asyncio.create_task(begin(gate, 1, order))
        while len(gate._waiting) < 2:  # noqa: ASYNC110 - nothing tells that it waits
            await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
    await waiting
    assert order == [0]
