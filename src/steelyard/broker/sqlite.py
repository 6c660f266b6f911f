"""The log in one SQLite file: several processes of one machine write and read it.

Positions lie beside the records, so `transact` is one commit. Partitions are shared out among the members that live;
a member is known by its process, so that who was killed is succeeded at once, and by a lease, for who has stalled.
"""

import os
import secrets
import sqlite3
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import orjson

from steelyard.broker.log import (
    COMPACTED,
    PARTITIONS,
    Batch,
    Fenced,
    LogError,
    Message,
    PartitionsDiffer,
    Record,
)
from steelyard.broker.partition import partition_of
from steelyard.sqlite import Database

LEASE_SECONDS = 30.0
MIGRATIONS = (
    """
    CREATE TABLE log (epoch INTEGER NOT NULL, partitions INTEGER NOT NULL);
    CREATE TABLE records (
        topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
        key TEXT NOT NULL, value BLOB, headers BLOB NOT NULL, written REAL NOT NULL,
        PRIMARY KEY (topic, partition, offset)
    ) WITHOUT ROWID;
    CREATE TABLE newest (
        topic TEXT NOT NULL, key TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
        PRIMARY KEY (topic, key)
    ) WITHOUT ROWID;
    CREATE TABLE ends (
        topic TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL, PRIMARY KEY (topic, partition)
    ) WITHOUT ROWID;
    CREATE TABLE positions (
        member_group TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL,
        PRIMARY KEY (member_group, topic, partition)
    ) WITHOUT ROWID;
    CREATE TABLE members (
        member TEXT PRIMARY KEY, member_group TEXT NOT NULL, topic TEXT NOT NULL,
        process TEXT NOT NULL, renewed REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE holdings (
        member_group TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, member TEXT NOT NULL,
        PRIMARY KEY (member_group, topic, partition)
    ) WITHOUT ROWID;
    """,
)
_COLUMNS = "topic, partition, offset, key, value, headers, written"


async def open_sqlite_log(path: Path | str, partitions: int = PARTITIONS) -> "SqliteLog":
    """The log of a file, made where there is none. Raises PartitionsDiffer, DatabaseError."""
    database = await Database.open(path, MIGRATIONS)
    try:
        epoch, found = await database.write(lambda connection: _begin(connection, partitions))
        if found != partitions:
            raise PartitionsDiffer(
                f"{path}: has {found} partitions, not {partitions}; the number is fixed when the log is made"
            )
    except BaseException:
        await database.close()
        raise
    return SqliteLog(database, epoch, partitions)


class SqliteLog:
    """Made by `open_sqlite_log`."""

    def __init__(self, database: Database, epoch: int, partitions: int) -> None:
        self.epoch, self.partitions = epoch, partitions
        self._database = database

    async def publish(self, messages: Sequence[Message]) -> Sequence[Record]:
        return await self._database.write(lambda connection: _append(connection, messages, self.partitions))

    async def read(self, topic: str, partition: int, start: int, limit: int = 500) -> Sequence[Record]:
        return await self._database.read(lambda connection: _read(connection, topic, partition, start, limit))

    async def ends(self, topic: str) -> Mapping[int, int]:
        query = "SELECT partition, next FROM ends WHERE topic = ?"
        found = dict(
            self._database.read_now(lambda connection: connection.execute(query, (topic,)).fetchall())
        )
        return {partition: found.get(partition, 0) for partition in range(self.partitions)}

    async def latest(self, topic: str, key: str) -> Record | None:
        return self._database.read_now(lambda connection: _latest(connection, topic, key))

    def version(self) -> int:
        return self._database.version()

    async def changed(self, since: int, timeout: float) -> int:
        return await self._database.changed(since, timeout)

    async def inbox(self, group: str, topic: str) -> "SqliteInbox":
        return SqliteInbox(self, self._database, group, topic)

    async def expire(self, topic: str, before: datetime) -> int:
        return await self._database.write(lambda connection: _expire(connection, topic, before.timestamp()))

    async def close(self) -> None:
        await self._database.close()


class SqliteInbox:
    """A member of a group; made by `SqliteLog.inbox`."""

    def __init__(self, log: SqliteLog, database: Database, group: str, topic: str) -> None:
        self.group, self.topic = group, topic
        self._log, self._database = log, database
        self._member, self._process = secrets.token_hex(8), _process(os.getpid())
        self._renewed = 0.0

    async def batch(self, limit: int = 500, wait: float = 1.0) -> Batch:
        if time.time() - self._renewed > LEASE_SECONDS / 6:
            await self._database.write(self._renew)
        version = self._database.version()
        batch = await self._database.read(lambda connection: self._read(connection, limit))
        if not batch.records and wait > 0:
            await self._database.changed(version, wait)
            batch = await self._database.read(lambda connection: self._read(connection, limit))
        return batch

    async def transact(self, batch: Batch, outputs: Sequence[Message] = ()) -> Sequence[Record]:
        return await self._database.write(lambda connection: self._transact(connection, batch, outputs))

    async def close(self) -> None:
        def leave(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM members WHERE member = ?", (self._member,))
            connection.execute("DELETE FROM holdings WHERE member = ?", (self._member,))

        await self._database.write(leave)

    def _read(self, connection: sqlite3.Connection, limit: int) -> Batch:
        records: list[Record] = []
        positions = {}
        for partition, start in connection.execute(
            """SELECT holdings.partition, coalesce(positions.next, 0) FROM holdings
               LEFT JOIN positions USING (member_group, topic, partition)
               WHERE member_group = ? AND topic = ? AND member = ?""",
            (self.group, self.topic, self._member),
        ).fetchall():
            found = _read(connection, self.topic, partition, start, limit - len(records))
            if found:
                records += found
                positions[partition] = found[-1].offset + 1
            if len(records) >= limit:
                break
        return Batch(records, positions)

    def _transact(
        self, connection: sqlite3.Connection, batch: Batch, outputs: Sequence[Message]
    ) -> list[Record]:
        held = {
            row[0]
            for row in connection.execute(
                "SELECT partition FROM holdings WHERE member_group = ? AND topic = ? AND member = ?",
                (self.group, self.topic, self._member),
            )
        }
        if not set(batch.positions) <= held:
            raise Fenced(f"{self.topic}: group {self.group} has given this member's partitions to another")
        connection.executemany(
            "INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?)",
            [(self.group, self.topic, partition, next_) for partition, next_ in batch.positions.items()],
        )
        return _append(connection, outputs, self._log.partitions)

    def _renew(self, connection: sqlite3.Connection) -> None:
        """Say that we live, take the partitions that are ours, and give back those that are another's."""
        now = time.time()
        connection.execute(
            "INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?, ?)",
            (self._member, self.group, self.topic, self._process, now),
        )
        members = self._living(connection, now)
        mine = members.index(self._member)
        due = {each for each in range(self._log.partitions) if each % len(members) == mine}
        place = (self.group, self.topic)
        held = dict(
            connection.execute(
                "SELECT partition, member FROM holdings WHERE member_group = ? AND topic = ?", place
            ).fetchall()
        )
        for partition in range(self._log.partitions):
            holder = held.get(partition)
            if partition in due and holder not in members:
                row = (*place, partition, self._member)
                connection.execute("INSERT OR REPLACE INTO holdings VALUES (?, ?, ?, ?)", row)
            elif partition not in due and holder == self._member:
                connection.execute(
                    "DELETE FROM holdings WHERE member_group = ? AND topic = ? AND partition = ?",
                    (*place, partition),
                )
        # While partitions are changing hands, look again soon.
        settled = all(held.get(partition) == self._member for partition in due)
        self._renewed = now if settled else now - LEASE_SECONDS / 6 + 0.2

    def _living(self, connection: sqlite3.Connection, now: float) -> list[str]:
        rows = connection.execute(
            "SELECT member, process, renewed FROM members WHERE member_group = ? AND topic = ? ORDER BY member",
            (self.group, self.topic),
        ).fetchall()
        dead = [
            member
            for member, process, renewed in rows
            if now - renewed > LEASE_SECONDS or not _lives(process)
        ]
        connection.executemany("DELETE FROM members WHERE member = ?", [(each,) for each in dead])
        return [member for member, _, _ in rows if member not in dead]


def _begin(connection: sqlite3.Connection, partitions: int) -> tuple[int, int]:
    """Epoch and number of partitions; a new log's epoch is the time at which it is made."""
    found = connection.execute("SELECT epoch, partitions FROM log").fetchone()
    if found is None:
        found = (int(time.time()), partitions)
        connection.execute("INSERT INTO log VALUES (?, ?)", found)
    return int(found[0]), int(found[1])


def _append(connection: sqlite3.Connection, messages: Sequence[Message], partitions: int) -> list[Record]:
    now = datetime.now(UTC)
    return [_append_one(connection, each, partitions, now) for each in messages]


def _append_one(connection: sqlite3.Connection, message: Message, partitions: int, now: datetime) -> Record:
    topic, partition = message.topic, message.partition
    if partition is None:
        partition = partition_of(message.key, partitions)
    elif not 0 <= partition < partitions:
        raise LogError(f"{topic}: partition {partition} is not one of 0 to {partitions - 1}")
    offset = connection.execute(
        """INSERT INTO ends VALUES (?, ?, 1) ON CONFLICT (topic, partition) DO UPDATE SET next = next + 1
           RETURNING next - 1""",
        (topic, partition),
    ).fetchone()[0]
    if topic in COMPACTED:
        _compact(connection, topic, message.key, partition, offset)
    row = (topic, partition, offset, message.key, message.value, orjson.dumps(dict(message.headers)))
    connection.execute(
        f"INSERT INTO records ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, now.timestamp())
    )
    return Record(topic, partition, offset, message.key, message.value, dict(message.headers), now)


def _compact(connection: sqlite3.Connection, topic: str, key: str, partition: int, offset: int) -> None:
    connection.execute(
        """DELETE FROM records WHERE (topic, partition, offset) IN
           (SELECT topic, partition, offset FROM newest WHERE topic = ? AND key = ?)""",
        (topic, key),
    )
    connection.execute("INSERT OR REPLACE INTO newest VALUES (?, ?, ?, ?)", (topic, key, partition, offset))


def _read(connection: sqlite3.Connection, topic: str, partition: int, start: int, limit: int) -> list[Record]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM records WHERE topic = ? AND partition = ? AND offset >= ? ORDER BY offset LIMIT ?",
        (topic, partition, start, limit),
    )
    return [_record(row) for row in rows]


def _latest(connection: sqlite3.Connection, topic: str, key: str) -> Record | None:
    row = connection.execute(
        f"""SELECT {_COLUMNS} FROM records WHERE (topic, partition, offset) =
            (SELECT topic, partition, offset FROM newest WHERE topic = ? AND key = ?)""",
        (topic, key),
    ).fetchone()
    return _record(row) if row else None


def _record(row: tuple[str, int, int, str, bytes | None, bytes, float]) -> Record:
    topic, partition, offset, key, value, headers, written = row
    when = datetime.fromtimestamp(written, UTC)
    return Record(topic, partition, offset, key, value, orjson.loads(headers), when)


def _expire(connection: sqlite3.Connection, topic: str, before: float) -> int:
    tombstones = " AND value IS NULL" if topic in COMPACTED else ""
    gone = connection.execute(
        f"DELETE FROM records WHERE topic = ? AND written < ?{tombstones}", (topic, before)
    ).rowcount
    if topic in COMPACTED:
        connection.execute(
            """DELETE FROM newest WHERE topic = ? AND NOT EXISTS (
                 SELECT 1 FROM records WHERE records.topic = newest.topic
                 AND records.partition = newest.partition AND records.offset = newest.offset)""",
            (topic,),
        )
    return gone


def _process(pid: int) -> str:
    """A process and its start, so that a pid that another has now is not taken for it; empty when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{pid}-{boot}-{fields[19]}"


def _lives(process: str) -> bool:
    pid = process.partition("-")[0]
    return pid.isdigit() and _process(int(pid)) == process
