"""The alarm, on the event loops that an evaluation runs on."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from steelyard_evaluation.engine.alarm import Alarm


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    """Run a coroutine on one of the loops."""
    factory = None if request.param == "asyncio" else pytest.importorskip("uvloop").Loop

    def run(case: Callable[[], Awaitable[None]]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(60):
                await case()

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(limited())

    return run


Run = Callable[[Callable[[], Awaitable[None]]], None]


def test_it_rings_once_at_the_earliest_time(run: Run) -> None:
    async def case() -> None:
        loop, rings, rang = asyncio.get_running_loop(), list[float](), asyncio.Event()
        start = loop.time()

        def ring() -> None:
            rings.append(loop.time() - start)
            rang.set()

        alarm = Alarm(ring)
        for seconds in (60, 0.02, 30, 0.05):
            alarm.set(start + seconds)
        await rang.wait()
        assert rings[0] > 0.015, "uvloop rounds to milliseconds"
        rang.clear()
        alarm.set(start + 0.06)
        await rang.wait()
        assert len(rings) == 2

    run(case)


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.0001])
def test_a_time_that_has_come_can_be_set_twice(seconds: float, run: Run) -> None:
    """A busy process sets an alarm later than the time it is set for."""

    async def case() -> None:
        loop, rings, rang = asyncio.get_running_loop(), list[int](), asyncio.Event()

        def ring() -> None:
            rings.append(1)
            rang.set()

        alarm = Alarm(ring)
        for later in (0.0, 1.0, -1.0):
            alarm.set(loop.time() + seconds + later)
        await rang.wait()
        assert rings == [1]

    run(case)


def test_one_that_is_cancelled_does_not_ring(run: Run) -> None:
    async def case() -> None:
        loop, rang = asyncio.get_running_loop(), asyncio.Event()
        cancelled = Alarm(lambda: pytest.fail("it rang"))
        cancelled.cancel()
        cancelled.set(loop.time() + 0.01)
        cancelled.cancel()
        Alarm(rang.set).set(loop.time() + 0.03)
        await rang.wait()

    run(case)
