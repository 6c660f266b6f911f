"""The log in memory: for tests, and the plainest statement of what a log is."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from steelyard.broker.log import COMPACTED, PARTITIONS, Batch, Fenced, Message, Record
from steelyard.broker.partition import partition_of

Clock = Callable[[], datetime]


class MemoryLog:
    """A log of one process. `crash` is called before each write, and may raise: nothing is written then."""

    def __init__(
        self,
        partitions: int = PARTITIONS,
        *,
        epoch: int = 1,
        clock: Clock = lambda: datetime.now(UTC),
        crash: Callable[[], None] = lambda: None,
    ) -> None:
        self.epoch, self.partitions = epoch, partitions
        self.crash = crash
        self._clock = clock
        self._records: dict[tuple[str, int], list[Record]] = defaultdict(list)
        self._ends: dict[tuple[str, int], int] = defaultdict(int)
        self._positions: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        self._members: dict[tuple[str, str], list[MemoryInbox]] = defaultdict(list)
        self._version = 0
        self._changed = asyncio.Event()

    async def publish(self, messages: Sequence[Message]) -> Sequence[Record]:
        return self.write(messages)

    def write(self, messages: Sequence[Message]) -> list[Record]:
        self.crash()
        written = [self._append(each) for each in messages]
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()
        return written

    def _append(self, message: Message) -> Record:
        partition = message.partition
        if partition is None:
            partition = partition_of(message.key, self.partitions)
        place = (message.topic, partition)
        record = Record(
            message.topic, partition, self._ends[place], message.key, message.value, dict(message.headers),
            self._clock(),
        )  # fmt: skip
        self._ends[place] += 1
        kept = self._records[place]
        if message.topic in COMPACTED:
            kept[:] = [each for each in kept if each.key != message.key]
        kept.append(record)
        return record

    async def read(self, topic: str, partition: int, start: int, limit: int = 500) -> Sequence[Record]:
        return [each for each in self._records[topic, partition] if each.offset >= start][:limit]

    async def ends(self, topic: str) -> Mapping[int, int]:
        return {partition: self._ends[topic, partition] for partition in range(self.partitions)}

    async def latest(self, topic: str, key: str) -> Record | None:
        found = self._records[topic, partition_of(key, self.partitions)]
        return next((each for each in reversed(found) if each.key == key), None)

    def version(self) -> int:
        return self._version

    async def changed(self, since: int, timeout: float) -> int:
        if self._version == since:
            try:
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self._version

    async def inbox(self, group: str, topic: str) -> "MemoryInbox":
        member = MemoryInbox(self, group, topic)
        self._members[group, topic].append(member)
        return member

    def leave(self, member: "MemoryInbox") -> None:
        members = self._members[member.group, member.topic]
        if member in members:
            members.remove(member)

    def holds(self, member: "MemoryInbox") -> list[int]:
        """The partitions that are a member's now."""
        members = self._members[member.group, member.topic]
        if member not in members:
            return []
        mine = members.index(member)
        return [each for each in range(self.partitions) if each % len(members) == mine]

    def position(self, member: "MemoryInbox", partition: int) -> int:
        return self._positions[member.group, member.topic].get(partition, 0)

    def move(self, member: "MemoryInbox", positions: Mapping[int, int]) -> None:
        self._positions[member.group, member.topic].update(positions)

    async def expire(self, topic: str, before: datetime) -> int:
        gone = 0
        for (name, _), records in self._records.items():
            if name == topic:
                kept = [
                    each
                    for each in records
                    if each.written >= before or (topic in COMPACTED and each.value is not None)
                ]
                gone += len(records) - len(kept)
                records[:] = kept
        return gone

    async def close(self) -> None:
        return None


class MemoryInbox:
    """A member of a group in the same process."""

    def __init__(self, log: MemoryLog, group: str, topic: str) -> None:
        self.group, self.topic = group, topic
        self._log = log

    async def batch(self, limit: int = 500, wait: float = 1.0) -> Batch:
        version = self._log.version()
        batch = await self._read(limit)
        if not batch.records and wait > 0:
            await self._log.changed(version, wait)
            batch = await self._read(limit)
        return batch

    async def _read(self, limit: int) -> Batch:
        records: list[Record] = []
        positions = {}
        for partition in self._log.holds(self):
            start = self._log.position(self, partition)
            found = await self._log.read(self.topic, partition, start, limit - len(records))
            if found:
                records += found
                positions[partition] = found[-1].offset + 1
            if len(records) >= limit:
                break
        return Batch(records, positions)

    async def transact(self, batch: Batch, outputs: Sequence[Message] = ()) -> Sequence[Record]:
        if not set(batch.positions) <= set(self._log.holds(self)):
            raise Fenced(f"{self.topic}: group {self.group} has given this member's partitions to another")
        written = self._log.write(outputs)
        self._log.move(self, batch.positions)
        return written

    async def close(self) -> None:
        self._log.leave(self)
