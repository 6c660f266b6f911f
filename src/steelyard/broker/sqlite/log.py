"""The log in one SQLite file: several processes of one machine write and read it.

Positions lie in the same database as the records, so `transact` is one commit. Messages published at once share a
transaction, as the writes of a process share commits. Reads are made on the event loop's thread: they take
microseconds, and another thread would have to get Python's lock back for every row.
"""

import asyncio
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from steelyard.broker.log import (
    COMPACTED,
    DEAD,
    EVENTS,
    OUTCOMES,
    PARTITIONS,
    WAITING,
    Batch,
    Fenced,
    LogError,
    Message,
    PartitionsDiffer,
    Record,
)
from steelyard.broker.sharing import gather
from steelyard.broker.sqlite import members, records
from steelyard.broker.sqlite.file import LogFile
from steelyard.broker.sqlite.members import HeldPartitions, Member
from steelyard.broker.sqlite.records import MOST_PARTITIONS, Identity, Topic
from steelyard.engines.processes import own_process

FEW = 50
"""Number of records of one partition that are read together with those of the next."""
EXPIRE_CHUNK = 2000
"""Records that one commit removes: writers wait for no more than that."""
_TOPICS = (*sorted(COMPACTED), EVENTS, OUTCOMES, DEAD, WAITING)
Placed = tuple[Message, int]


async def open_sqlite_log(path: Path | str, partitions: int = PARTITIONS) -> "SqliteLog":
    """The log of a file, made where there is none. Raises PartitionsDiffer, LogError."""
    if not 0 < partitions <= MOST_PARTITIONS:
        raise LogError(f"{path}: {partitions} partitions; 1 to {MOST_PARTITIONS} are possible")
    file = await LogFile.open(path, records.MIGRATIONS)
    new = Identity(secrets.token_hex(16), 1, partitions)
    try:
        identity = await file.write(lambda connection: records.begin(connection, new))
        if identity.partitions != partitions:
            raise PartitionsDiffer(
                f"{path}: has {identity.partitions} partitions, not {partitions}; "
                "the number is fixed when the log is made"
            )
        topics = await file.write(lambda connection: records.topics(connection, _TOPICS))
    except BaseException:
        await file.close()
        raise
    return SqliteLog(file, identity, topics)


class SqliteLog:
    """Made by `open_sqlite_log`."""

    def __init__(self, file: LogFile, identity: Identity, topics: Mapping[str, Topic]) -> None:
        self.id, self.epoch, self.partitions = identity.id, identity.epoch, identity.partitions
        self.file = file
        self._topics = topics
        self._lock = threading.Lock()
        self._joined: _Publication | None = None

    async def begin_epoch(self, epoch: int) -> None:
        await self.file.write(lambda connection: records.begin_epoch(connection, epoch))
        self.epoch = epoch

    async def publish(self, messages: Sequence[Message]) -> Sequence[Record]:
        placed = await self.place(messages)
        if not placed:
            return []  # a transaction without a change would still wake all tasks that wait for one
        with self._lock:
            joined = self._joined
            if joined is None:
                joined = self._joined = _Publication()
            start = len(joined.messages)
            joined.messages += placed
        if joined.written is None:
            joined.written = asyncio.ensure_future(self._write(joined))
        # Shielded: one who is cancelled does not cancel the others.
        written = await asyncio.shield(joined.written)
        return written[start : start + len(placed)]

    async def _write(self, joined: "_Publication") -> list[Record]:
        def write(connection: sqlite3.Connection) -> list[Record]:
            self._leave(joined)
            return records.append(connection, joined.messages, self._topics)

        try:
            return await self.file.write(write)
        finally:
            self._leave(joined)  # it may never have come to the writing thread

    def _leave(self, joined: "_Publication") -> None:
        """Close the current publication: later messages begin another one."""
        with self._lock:
            if self._joined is joined:
                self._joined = None

    async def place(self, messages: Sequence[Message]) -> list[Placed]:
        """The messages with their partitions; topics that are new are made. Raises LogError."""
        placed = [(message, records.place(message, self.partitions)) for message in messages]
        for message in messages:
            await self.topic(message.topic)
        return placed

    async def topic(self, name: str) -> Topic:
        if name not in self._topics:
            self._topics = await self.file.write(lambda connection: records.topics(connection, [name]))
        return self._topics[name]

    def append(self, connection: sqlite3.Connection, messages: Sequence[Placed]) -> list[Record]:
        return records.append(connection, messages, self._topics)

    def read_now(self, topic: Topic, partition: int, start: int, limit: int) -> list[Record]:
        return self.file.read_now(lambda connection: records.read(connection, topic, partition, start, limit))

    async def read(self, topic: str, partition: int, start: int, limit: int = 500) -> Sequence[Record]:
        return self.read_now(await self.topic(topic), partition, start, limit)

    async def read_each(
        self, topic: str, starts: Mapping[int, int], limit: int = 500
    ) -> Mapping[int, Sequence[Record]]:
        known = await self.topic(topic)
        news: dict[int, Sequence[Record]] = {}
        for partition in self.unread_now(known, starts):
            if read := self.read_now(known, partition, starts[partition], limit):
                news[partition] = read
            if len(read) > FEW:
                await asyncio.sleep(0)  # the lease has to be renewed meanwhile
        return news

    def unread_now(self, topic: Topic, starts: Mapping[int, int]) -> list[int]:
        """Return the partitions that have records from these offsets on."""
        return self.file.read_now(lambda connection: records.with_records(connection, topic, starts))

    async def ends(self, topic: str) -> Mapping[int, int]:
        """One counter gives all offsets, so it is the end of all partitions."""
        return dict.fromkeys(range(self.partitions), self.file.read_now(records.end))

    async def positions(self, group: str, topic: str) -> Mapping[int, int]:
        return self.file.read_now(lambda connection: records.group_positions(connection, group, topic))

    async def unread(self, topic: str, positions: Mapping[int, int]) -> Mapping[int, int]:
        known = await self.topic(topic)
        return self.file.read_now(lambda connection: records.unread(connection, known, positions))

    async def latest(self, topic: str, key: str) -> Record | None:
        known = await self.topic(topic)
        return self.file.read_now(lambda connection: records.latest(connection, known, key))

    async def find_latest(self, topic: str, keys: Collection[str]) -> Mapping[str, Record]:
        records = {key: await self.latest(topic, key) for key in keys}
        return {key: record for key, record in records.items() if record is not None}

    def version(self) -> int:
        return self.file.version()

    async def wait_for_change(self, since: int, timeout: float) -> int:
        return await self.file.wait_for_change(since, timeout)

    async def inbox(self, group: str, topic: str) -> "SqliteInbox":
        inbox = SqliteInbox(self, group, await self.topic(topic))
        await inbox.renew()
        return inbox

    async def expire(self, topic: str, before: datetime) -> int:
        known = await self.topic(topic)
        if known.compaction_number is not None:
            return await self._chunks(partial(records.expire_tombstones, topic=known, before=before))
        gone = 0
        for partition in range(self.partitions):
            gone += await self._chunks(
                partial(records.expire, topic=known, partition=partition, before=before)
            )
        return gone

    async def _chunks(self, expire: Callable[..., int]) -> int:
        gone = 0
        while chunk := await self.file.write(partial(expire, limit=EXPIRE_CHUNK)):
            gone += chunk
            if chunk < EXPIRE_CHUNK:
                break
        return gone

    async def facts(self) -> Sequence[str]:
        return ("one file",)

    async def close(self) -> None:
        await self.file.close()


@dataclass
class _Publication:
    """Messages of several tasks that are published in one transaction."""

    messages: list[Placed] = field(default_factory=list)
    written: "asyncio.Future[list[Record]] | None" = None


class SqliteInbox:
    """A member of a group; made by `SqliteLog.inbox`."""

    def __init__(self, log: SqliteLog, group: str, topic: Topic) -> None:
        self._log, self._topic = log, topic
        self._member = Member(secrets.token_hex(8), group, topic.name, own_process())
        self._held = HeldPartitions(0, {})
        self._renewed = 0.0
        self._paused: set[int] = set()
        self._turns = 0

    async def batch(self, limit: int = 500, wait: float = 1.0) -> Batch:
        until = time.monotonic() + wait
        while True:
            version = self._log.version() if wait else 0  # without a wait nobody asks for it
            if self._stale():
                await self.renew()
                continue
            # Each turn begins with another partition, so that a full one does not starve the others.
            starts = [
                position for position in self._held.positions.items() if position[0] not in self._paused
            ]
            self._turns += 1
            turn = self._turns % len(starts) if starts else 0
            unread = self._log.unread_now(self._topic, dict(starts[turn:] + starts[:turn]))
            batch = gather(
                partial(self._log.read_now, self._topic),
                {partition: self._held.positions[partition] for partition in unread},
                limit,
            )
            now = time.monotonic()
            if batch.records or now >= until:
                return batch
            await self._log.wait_for_change(version, min(until - now, members.RENEW_SECONDS))

    def pause(self, partition: int) -> None:
        self._paused.add(partition)

    async def transact(self, batch: Batch, outputs: Sequence[Message] = ()) -> Sequence[Record]:
        placed = await self._log.place(outputs)

        def write(connection: sqlite3.Connection) -> list[Record]:
            members.move(connection, self._member, batch)
            return self._log.append(connection, placed)

        try:
            written = await self._log.file.write(write)
        except Fenced:
            self._renewed = -members.LEASE_SECONDS  # what is held has to be looked up again
            raise
        self._held = HeldPartitions(self._held.generation, {**self._held.positions, **batch.positions})
        return written

    async def close(self) -> None:
        await self._log.file.write(lambda connection: members.leave(connection, self._member))
        self._held = HeldPartitions(0, {})

    async def renew(self) -> None:
        """Renew the lease, and learn which partitions are held now."""
        self._renewed = time.monotonic()
        self._held = await self._log.file.write(
            lambda connection: members.renew(connection, self._member, self._log.partitions)
        )

    def _stale(self) -> bool:
        if time.monotonic() - self._renewed > members.RENEW_SECONDS:
            return True
        generation = self._log.file.read_now(lambda connection: members.generation(connection, self._member))
        return generation != self._held.generation
