"""Records of one partition in their order, for a reader that mostly goes on where it stopped."""

import asyncio
from collections import deque
from collections.abc import Sequence

from steelyard.broker.kafka.progress import Progress
from steelyard.broker.kafka.tail import Partition, Tail
from steelyard.broker.log import READ_BYTES, Record

FULL_BYTES = 4 * READ_BYTES
FULL_RECORDS = 4000


class Cursor:
    """Keeps what the tail has read and no consumer has taken yet. Belongs to the event loop."""

    def __init__(self, tail: Tail, place: Partition) -> None:
        self._tail, self._place = tail, place
        self._lock = asyncio.Lock()
        self._begin(-1)
        self._assigned = False

    def _begin(self, start: int) -> None:
        self._next = start
        self._kept: deque[Record] = deque()
        self._bytes = 0
        self._paused = False
        self._progress = Progress("/".join(map(str, self._place)))
        self._progress.advance(max(start, 0))

    def store(self, records: Sequence[Record], reached: int) -> Sequence[Record]:
        """Leave all records to the event loop, which keeps them."""
        return records

    def advance(self, records: Sequence[Record], reached: int) -> None:
        if not self._assigned:
            return  # read for an earlier start
        for record in records:
            if record.offset >= self._progress.reached:
                self._kept.append(record)
                self._bytes += len(record.value or b"")
        self._progress.advance(reached)
        if not self._paused and (self._bytes > FULL_BYTES or len(self._kept) > FULL_RECORDS):
            self._paused = True
            self._tail.pause(self._place, paused=True)

    def fail(self, fault: str) -> None:
        self._progress.fault = fault

    def end(self, fault: str) -> None:
        self._progress.end(fault)

    async def read(self, start: int, limit: int, end: int) -> list[Record]:
        """Return records from `start` on, at most `limit` and READ_BYTES; none only where none lie before `end`."""
        async with self._lock:
            if start != self._next:
                await self._seek(start)
            taken: list[Record] = []
            size = 0
            while len(taken) < limit:
                if not self._kept:
                    if taken:
                        break  # the rest up to `end` may be markers of transactions, which a broker reports late
                    if self._paused:
                        self._tail.pause(self._place, paused=False)
                        self._paused = False
                    if self._progress.reached >= end:
                        break
                    await self._progress.reach(self._progress.reached + 1)
                    continue
                size += len(self._kept[0].value or b"")
                if taken and size > READ_BYTES:
                    break
                record = self._kept.popleft()
                self._bytes -= len(record.value or b"")
                taken.append(record)
            self._next = taken[-1].offset + 1 if taken else self._next
            return taken

    async def _seek(self, start: int) -> None:
        if self._assigned:
            self._assigned = False
            await self._tail.leave([self._place])
        self._begin(start)
        self._assigned = True
        await self._tail.follow({self._place: self}, {self._place: start})
