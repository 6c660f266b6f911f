"""Tests of reading outcomes while others are expected."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from steelyard.api.commands.outcomes import OutcomeReader
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import OUTCOMES, Message, Record


class SlowLog(MemoryLog):
    """A log whose reads wait, as reads of servers do, and are counted while they wait."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = asyncio.Event()
        self.waiting = 0
        self.most_waiting = 0

    async def read(self, topic: str, partition: int, start: int, limit: int = 500) -> Sequence[Record]:
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        await self.answer.wait()
        self.waiting -= 1
        return await super().read(topic, partition, start, limit)


@pytest.fixture
async def log() -> SlowLog:
    return SlowLog()


async def _all_read(log: SlowLog) -> None:
    async with asyncio.timeout(60):
        while log.waiting < log.partitions:  # noqa: ASYNC110 - the log tells nobody
            await asyncio.sleep(0)


def _outcome(command: str) -> Message:
    return Message(OUTCOMES, command, b'{"command": "%b", "outcome": "applied"}' % command.encode())


async def test_who_expects_an_outcome_does_not_wait_for_a_read_under_way(log: SlowLog) -> None:
    reader = OutcomeReader(log)
    first = await reader.expect("first")
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reader.run())
        await _all_read(log)

        second = await asyncio.wait_for(reader.expect("second"), 60)

        await log.publish([_outcome("first"), _outcome("second")])
        log.answer.set()
        assert [(await future).outcome for future in (first, second)] == ["applied", "applied"]
        running.cancel()


async def test_partitions_are_read_at_once(log: SlowLog) -> None:
    reader = OutcomeReader(log)
    await reader.expect("command")
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reader.run())
        await _all_read(log)
        running.cancel()

    assert log.most_waiting == log.partitions


async def test_an_outcome_expected_while_the_last_one_is_read_is_not_lost(log: SlowLog) -> None:
    reader = OutcomeReader(log)
    ends: Mapping[int, int] = await log.ends(OUTCOMES)
    first = await reader.expect("first")
    await log.publish([_outcome("first")])
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reader.run())
        await _all_read(log)
        second = await reader.expect("second")
        log.answer.set()
        await first

        await log.publish([_outcome("second")])

        assert (await asyncio.wait_for(second, 60)).outcome == "applied"
        running.cancel()
    assert ends != await log.ends(OUTCOMES)
