"""The gate before a provider: the limits are kept, turns come in order, and nobody waits in vain."""

import asyncio
from itertools import pairwise

import pytest

from steelyard.hosted.gate import Gate, RateLimited

PATIENCE = 60.0


async def begin(gate: Gate, calls: int, order: list[int] | None = None) -> list[float]:
    """Make calls at once; return the times at which they begin, in order."""
    loop = asyncio.get_running_loop()
    times: list[float] = []

    async def make(number: int) -> None:
        async with gate.passed(PATIENCE):
            times.append(loop.time())
            if order is not None:
                order.append(number)

    await asyncio.gather(*(make(number) for number in range(calls)))
    return times


async def test_no_window_holds_more_calls_than_the_rate() -> None:
    rate, window = 5, 0.2
    order: list[int] = []
    times = await begin(Gate(rate, None, window=window), 4 * rate, order)
    assert order == sorted(order)
    assert all(later - earlier >= window for earlier, later in zip(times, times[rate:], strict=False))


async def test_processes_share_the_rate() -> None:
    window = 0.1
    times = await begin(Gate(4, None, lambda: 4, window=window), 4)
    assert all(later - earlier >= window for earlier, later in pairwise(times))


async def test_only_so_many_calls_at_once() -> None:
    gate, running, most = Gate(None, 3), 0, 0

    async def make() -> None:
        nonlocal running, most
        async with gate.passed(PATIENCE):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1

    await asyncio.gather(*(make() for _ in range(20)))
    assert most == 3


async def test_a_call_whose_turn_is_far_off_is_told_when_to_come_back() -> None:
    gate = Gate(2, None)
    await begin(gate, 2)
    with pytest.raises(RateLimited) as error:
        async with gate.passed(1.0):
            pass
    assert 50 < error.value.retry_after <= 60


async def test_a_call_that_waits_behind_others_is_told_so() -> None:
    gate = Gate(1, None)
    await begin(gate, 1)
    waiting = asyncio.create_task(begin(gate, 1))
    while not gate._waiting:  # noqa: ASYNC110 - nothing tells that it waits
        await asyncio.sleep(0)
    with pytest.raises(RateLimited) as error:
        async with gate.passed(1.0):
            pass
    assert 110 < error.value.retry_after <= 120
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_a_full_house_is_told_after_the_patience() -> None:
    gate = Gate(None, 1)
    async with gate.passed(PATIENCE):
        with pytest.raises(RateLimited) as error:
            async with gate.passed(0.01):
                pass
    assert error.value.retry_after == 1
    async with gate.passed(PATIENCE):
        pass


async def test_a_call_that_is_given_up_takes_nobodys_turn() -> None:
    gate = Gate(None, 1)
    async with gate.passed(PATIENCE):
        given_up = asyncio.create_task(begin(gate, 1))
        waiting = asyncio.create_task(begin(gate, 1))
        while len(gate._waiting) < 2:  # noqa: ASYNC110 - nothing tells that it waits
            await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
    assert len(await waiting) == 1
