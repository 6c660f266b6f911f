"""The log in memory: for tests, and the plainest statement of what a log is."""

import asyncio
import bisect
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate

from steelyard.broker.log import (
    COMPACTED,
    PARTITIONS,
    READ_BYTES,
    UNREAD,
    BadMessage,
    Batch,
    Fenced,
    LogError,
    Message,
    Record,
)
from steelyard.broker.partition import find_partition
from steelyard.broker.sharing import gather, share

Clock = Callable[[], datetime]
Crash = Callable[[], None]


def _go_on() -> None:
    return None


class MemoryLog:
    """A log of one process.

    Tests let it fail: `crash` is called before each write, and `crash_after` when it is done; both may raise. Records
    written by then stay, as in a file.
    """

    def __init__(
        self,
        partitions: int = PARTITIONS,
        *,
        id: str = "memory",
        epoch: int = 1,
        clock: Clock = lambda: datetime.now(UTC),
        crash: Crash = _go_on,
        crash_after: Crash = _go_on,
    ) -> None:
        self.id, self.epoch, self.partitions = id, epoch, partitions
        self.crash, self.crash_after = crash, crash_after
        self._clock = clock
        self._records: dict[tuple[str, int], list[Record]] = defaultdict(list)
        self._newest: dict[tuple[str, str], Record] = {}
        self._ends: dict[tuple[str, int], int] = defaultdict(int)
        self._positions: dict[tuple[str, str], dict[int, int]] = {}
        self._members: dict[tuple[str, str], list[MemoryInbox]] = defaultdict(list)
        self._version = 0
        self.written = 0
        """Messages so far."""
        self._changed = asyncio.Event()

    async def begin_epoch(self, epoch: int) -> None:
        if epoch <= self.epoch:
            raise LogError(f"the log has epoch {self.epoch}; {epoch} is not a later one")
        self.epoch = epoch

    async def publish(self, messages: Sequence[Message]) -> Sequence[Record]:
        await asyncio.sleep(0)  # as with every real log, others get their turn
        return self.write(messages)

    def write(self, messages: Sequence[Message], also: Callable[[], None] = _go_on) -> list[Record]:
        """The messages, and what belongs to the same transaction."""
        placed = [(message, self._place(message)) for message in messages]
        self.crash()
        written = [self._append(message, partition) for message, partition in placed]
        self.written += len(written)
        also()
        self.wake()
        self.crash_after()
        return written

    def wake(self) -> None:
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def _place(self, message: Message) -> int:
        if message.partition is None:
            return find_partition(message.key, self.partitions)
        if not 0 <= message.partition < self.partitions:
            raise BadMessage(
                f"{message.topic}: partition {message.partition} is not one of 0 to {self.partitions - 1}"
            )
        return message.partition

    def _append(self, message: Message, partition: int) -> Record:
        place = (message.topic, partition)
        record = Record(
            message.topic, partition, self._ends[place], message.key, message.value, dict(message.headers),
            self._clock(),
        )  # fmt: skip
        self._ends[place] += 1
        if message.topic in COMPACTED:
            self._remove(self._newest.get((message.topic, message.key)))
            self._newest[message.topic, message.key] = record
        self._records[place].append(record)
        return record

    def _remove(self, record: Record | None) -> None:
        if record is not None:
            kept = self._records[record.topic, record.partition]
            del kept[bisect.bisect_left(kept, record.offset, key=_offset)]

    async def read(self, topic: str, partition: int, start: int, limit: int = 500) -> Sequence[Record]:
        return self.read_now(topic, partition, start, limit)

    async def read_each(
        self, topic: str, starts: Mapping[int, int], limit: int = 500
    ) -> Mapping[int, Sequence[Record]]:
        read = await asyncio.gather(
            *(self.read(topic, partition, start, limit) for partition, start in starts.items())
        )
        return {partition: records for partition, records in zip(starts, read, strict=True) if records}

    def read_now(self, topic: str, partition: int, start: int, limit: int) -> list[Record]:
        kept = self._records[topic, partition]
        first = bisect.bisect_left(kept, start, key=_offset)
        sizes = accumulate(len(record.value or b"") for record in kept[first : first + limit])
        fitting = sum(1 for size in sizes if size <= READ_BYTES)
        return kept[first : first + min(limit, max(1, fitting))]

    async def ends(self, topic: str) -> Mapping[int, int]:
        return {partition: self._ends[topic, partition] for partition in range(self.partitions)}

    async def positions(self, group: str, topic: str) -> Mapping[int, int]:
        return dict(self._positions.get((group, topic), {}))

    async def unread(self, topic: str, positions: Mapping[int, int]) -> Mapping[int, int]:
        kept = {partition: self._records[topic, partition] for partition in positions}
        return {
            partition: min(
                UNREAD, len(kept[partition]) - bisect.bisect_left(kept[partition], start, key=_offset)
            )
            for partition, start in positions.items()
        }

    async def latest(self, topic: str, key: str) -> Record | None:
        return self._newest.get((topic, key))

    async def find_latest(self, topic: str, keys: Collection[str]) -> Mapping[str, Record]:
        records = {key: await self.latest(topic, key) for key in keys}
        return {key: record for key, record in records.items() if record is not None}

    def version(self) -> int:
        return self._version

    async def wait_for_change(self, since: int, timeout: float) -> int:
        if self._version == since:
            try:
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self._version

    async def inbox(self, group: str, topic: str) -> "MemoryInbox":
        self._positions.setdefault((group, topic), dict.fromkeys(range(self.partitions), 0))
        member = MemoryInbox(self, group, topic)
        self._members[group, topic].append(member)
        self.wake()
        return member

    def leave(self, member: "MemoryInbox") -> None:
        members = self._members[member.group, member.topic]
        if member in members:
            members.remove(member)
            self.wake()

    def assignment(self, member: "MemoryInbox") -> dict[int, int]:
        """The partitions that are a member's now, and where each goes on."""
        members = {
            f"{number:06}": inbox for number, inbox in enumerate(self._members[member.group, member.topic])
        }
        positions = self._positions[member.group, member.topic]
        due = share(list(members), self.partitions) if members else {}
        return {partition: positions[partition] for partition, name in due.items() if members[name] is member}

    def move(self, member: "MemoryInbox", positions: Mapping[int, int]) -> None:
        self._positions[member.group, member.topic].update(positions)

    def rewind(self, group: str, topic: str, positions: Mapping[int, int]) -> None:
        """The group's members read again from there."""
        self._positions[group, topic].update(positions)

    async def expire(self, topic: str, before: datetime) -> int:
        gone = [
            record
            for (name, partition), records in self._records.items()
            for record in records
            if name == topic
            and record.written < before
            and record.offset < self._unread(topic, partition)
            and (topic not in COMPACTED or record.value is None)
        ]
        for record in gone:
            self._remove(record)
            self._newest.pop((topic, record.key), None)
        return len(gone)

    def _unread(self, topic: str, partition: int) -> float:
        """The first offset that some group has yet to read."""
        offsets = [positions[partition] for (_, name), positions in self._positions.items() if name == topic]
        return min(offsets, default=float("inf"))

    async def facts(self) -> Sequence[str]:
        return ("lost with the process",)

    async def close(self) -> None:
        return None


class MemoryInbox:
    """A member of a group in the same process."""

    def __init__(self, log: MemoryLog, group: str, topic: str) -> None:
        self.group, self.topic = group, topic
        self._log = log
        self._paused: set[int] = set()
        self._turns = 0

    async def batch(self, limit: int = 500, wait: float = 1.0) -> Batch:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        await asyncio.sleep(0)
        while True:
            version = self._log.version()
            batch = self._gather(limit)
            left = until - loop.time()
            if batch.records or left <= 0:
                return batch
            await self._log.wait_for_change(version, left)

    def _gather(self, limit: int) -> Batch:
        starts = [start for start in self._log.assignment(self).items() if start[0] not in self._paused]
        self._turns += 1
        turn = self._turns % len(starts) if starts else 0
        read = self._log.read_now
        return gather(
            lambda partition, start, most: read(self.topic, partition, start, most),
            dict(starts[turn:] + starts[:turn]),
            limit,
        )

    def pause(self, partition: int) -> None:
        self._paused.add(partition)

    async def transact(self, batch: Batch, outputs: Sequence[Message] = ()) -> Sequence[Record]:
        await asyncio.sleep(0)
        held = self._log.assignment(self)
        if any(held.get(position) != batch.starts.get(position) for position in batch.positions):
            raise Fenced(f"{self.topic}: group {self.group} has given this member's partitions to another")
        return self._log.write(outputs, lambda: self._log.move(self, batch.positions))

    async def close(self) -> None:
        self._log.leave(self)


def _offset(record: Record) -> int:
    return record.offset
