"""Tests that a reader of a whole topic lets all others have their turn meanwhile: a lease is renewed by the
same loop.

Counted is what a reader takes from the log between two turns of another task, whatever time that takes here. The same
over a million records and a real lease is in `tests/integration/test_long_reads.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from steelyard.broker.consume import BATCH
from steelyard.broker.follow import follow
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import EVENTS, QUARANTINE, READ_BYTES, STATE, WAITING, Message, Record
from steelyard.broker.quarantine.administration import list_entries
from steelyard.broker.quarantine.dead_letters import list_waiting
from steelyard.broker.quarantine.marks import Aside
from steelyard.broker.scan import PIECE
from steelyard.services.reaper.reaper import reap
from steelyard.services.simulation.commands import aggregate, create, message, status
from steelyard.services.simulation.entities import START, make_evaluation
from steelyard_schema.retention import DELETED_FOR

ENTITIES = 6 * PIECE


class Counting(MemoryLog):
    """Counts the reads since another task had its turn, and keeps the most."""

    def __init__(self) -> None:
        super().__init__(1, clock=lambda: START)
        self.records = self.bytes = self.most = self.most_bytes = self.reads = 0

    async def read(self, topic: str, partition: int, start: int, limit: int = 500) -> Sequence[Record]:
        records = await super().read(topic, partition, start, limit)
        self._count(records)
        return records

    async def latest(self, topic: str, key: str) -> Record | None:
        latest = await super().latest(topic, key)
        self._count([latest] if latest else [])
        return latest

    def _count(self, records: Sequence[Record]) -> None:
        self.reads += len(records)
        self.records += len(records)
        self.bytes += sum(len(record.value or b"") for record in records)
        self.most, self.most_bytes = max(self.most, self.records), max(self.most_bytes, self.bytes)

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[None]:
        """Another task has its turn whenever the loop comes round."""

        async def turns() -> None:
            while True:
                self.records = self.bytes = 0
                await asyncio.sleep(0)

        self.most = self.most_bytes = self.reads = 0
        other = asyncio.create_task(turns())
        try:
            yield
        finally:
            other.cancel()


async def _reap(log: MemoryLog) -> int:
    return await reap(log, START + 2 * DELETED_FOR)


async def _quarantined(log: MemoryLog) -> int:
    return len(await list_entries(log))


async def _waiting(log: MemoryLog) -> int:
    return len(await list_waiting(log, "k1"))


async def _aside(log: MemoryLog) -> int:
    return len((await Aside.open(log, "sink")).keys)


def _marks(number: int) -> list[Message]:
    return [
        Message(QUARANTINE, f"sink/k{n}", b'{"reason":"KeyError"}', {"consumer": "sink"})
        for n in range(number)
    ]


def _waiters(number: int) -> list[Message]:
    return [Message(WAITING, "k1", b"x" * 5000, {"origin": f"{EVENTS}/0/{n}"}) for n in range(number)]


async def _states(number: int) -> list[Message]:
    """States of deleted entities, with which the reaper has most to do."""
    small, entity = MemoryLog(1, clock=lambda: START), make_evaluation()
    await aggregate(small, message(create(entity)), message(status(entity, "Deleted")))
    (state,) = await small.read(STATE, 0, 0)
    return [Message(STATE, f"k{n}", state.value, state.headers, 0) for n in range(number)]


Read = Callable[[Counting], Awaitable[int]]


class ReadyOutlet:
    """An outlet that never waits."""

    def __init__(self) -> None:
        self.count = 0

    async def positions(self, epoch: int) -> Mapping[int, int]:
        return {}

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        self.count += len(records)


async def _follow(log: MemoryLog) -> int:
    outlet, stop = ReadyOutlet(), asyncio.Event()
    await follow(log, STATE, outlet, consumer="follower", stop=stop, caught_up=stop.set)
    return outlet.count


READERS: dict[str, Read] = {
    "the reaper": _reap,
    "the list of what is in quarantine": _quarantined,
    "what waits for one entity": _waiting,
    "the marks of a consumer": _aside,
    "who follows the state": _follow,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
async def test_between_two_turns_of_others_one_piece_is_read(read: Read) -> None:
    log = Counting()
    await log.publish([*await _states(ENTITIES), *_marks(ENTITIES), *_waiters(ENTITIES)])
    async with log.counted():
        assert await read(log) == ENTITIES
    assert log.reads >= ENTITIES
    assert log.most <= (BATCH if read is _follow else PIECE)
    assert log.most_bytes <= READ_BYTES
