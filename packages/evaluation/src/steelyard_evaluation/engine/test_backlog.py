"""The backlog: everything that goes in is settled once, and nothing waits for what it need not."""

import asyncio
from random import Random

import pytest

from steelyard_evaluation.engine import backlog as module
from steelyard_evaluation.engine.backlog import Backlog, Work


def work(*positions: int) -> list[Work]:
    return [Work(position, position, 0, b"") for position in positions]


async def test_fresh_rows_come_in_order_and_then_nothing() -> None:
    backlog = Backlog()
    await backlog.put(work(0, 1))
    backlog.close()
    for expected in (0, 1):
        taken = await backlog.take()
        assert taken is not None
        assert taken.position == expected
        backlog.note_settled()
    assert await backlog.take() is None


async def test_a_row_that_waits_delays_no_other() -> None:
    backlog = Backlog()
    await backlog.put(work(0, 1))
    backlog.close()
    first = await backlog.take()
    assert first is not None
    backlog.put_back(first, 0.02)
    second = await backlog.take()
    assert second is not None
    assert second.position == 1
    backlog.note_settled()
    again = await backlog.take()
    assert again is first
    backlog.note_settled()
    assert backlog.finished.is_set()


async def test_workers_that_wait_hear_of_the_end() -> None:
    backlog = Backlog()
    await backlog.put(work(0))
    backlog.close()
    await backlog.take()
    waiting = [asyncio.create_task(backlog.take()) for _ in range(3)]
    await asyncio.sleep(0)
    backlog.note_settled()
    assert await asyncio.gather(*waiting) == [None, None, None]


async def test_the_feeder_waits_while_enough_is_ready() -> None:
    backlog = Backlog()
    await backlog.put(work(*range(module.FRESH_ROWS)))
    more = asyncio.create_task(backlog.put(work(module.FRESH_ROWS)))
    await asyncio.sleep(0)
    assert not more.done()
    await backlog.take()
    await more


async def test_an_empty_dataset_ends_at_once() -> None:
    backlog = Backlog()
    backlog.close()
    assert await backlog.take() is None


def test_a_loop_that_rings_early_loses_no_row() -> None:
    """uvloop rounds delays to whole milliseconds, so an alarm may ring before its row is due."""
    uvloop = pytest.importorskip("uvloop")
    rng = Random(0)

    async def run() -> None:
        backlog = Backlog()
        await backlog.put(work(0))
        backlog.close()
        for _ in range(200):
            taken = await asyncio.wait_for(backlog.take(), 60)
            assert taken is not None
            backlog.put_back(taken, rng.uniform(0.0, 0.004))

    with asyncio.Runner(loop_factory=uvloop.Loop) as runner:
        runner.run(run())
