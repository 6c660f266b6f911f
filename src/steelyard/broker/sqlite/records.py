"""The tables of the log in SQLite, and the changes of its records within a transaction. `log.py` calls this.

A record's rowid is its place (topic and partition) in the high bits and its offset in the low ones, so that a partition
lies together, in order. Offsets of all places come from one counter: a batch of any size takes one step for its
offsets and one for each 128 rows. Steps are what counts: each gives Python's lock away, and has to get it back from
a busy event loop.
"""

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from steelyard.broker.log import COMPACTED, READ_BYTES, UNREAD, BadMessage, LogError, Message, Record
from steelyard.broker.partition import find_partition

MIGRATIONS = (
    """
    CREATE TABLE log (epoch INTEGER NOT NULL, partitions INTEGER NOT NULL, next INTEGER NOT NULL);
    CREATE TABLE topics (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE records (
        position INTEGER PRIMARY KEY,
        compacted INTEGER,
        key TEXT NOT NULL,
        written INTEGER NOT NULL,
        headers BLOB NOT NULL,
        value BLOB
    );
    CREATE UNIQUE INDEX newest ON records (compacted, key) WHERE compacted IS NOT NULL;
    CREATE INDEX tombstones ON records (compacted, written) WHERE compacted IS NOT NULL AND value IS NULL;
    CREATE TABLE positions (
        member_group TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL,
        PRIMARY KEY (member_group, topic, partition)
    ) WITHOUT ROWID;
    CREATE TABLE groups (
        member_group TEXT NOT NULL, topic TEXT NOT NULL, generation INTEGER NOT NULL,
        PRIMARY KEY (member_group, topic)
    ) WITHOUT ROWID;
    CREATE TABLE members (
        member_group TEXT NOT NULL, topic TEXT NOT NULL, member TEXT NOT NULL,
        process TEXT NOT NULL, renewed REAL NOT NULL,
        PRIMARY KEY (member_group, topic, member)
    ) WITHOUT ROWID;
    CREATE TABLE holdings (
        member_group TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, member TEXT NOT NULL,
        PRIMARY KEY (member_group, topic, partition)
    ) WITHOUT ROWID;
    """,
    "ALTER TABLE log ADD COLUMN id TEXT NOT NULL DEFAULT '';",
)
"""`compacted` is the number of a compacted topic: `newest` finds a key in it, and lets one row replace another."""

MOST_PARTITIONS = 1024
_OFFSET_BITS = 44
_PLACE = 1 << _OFFSET_BITS
_CHUNK = 128
_COLUMNS = "position, compacted, key, written, headers, value"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = tuple[int, int | None, str, int, bytes, bytes | None]


@dataclass(frozen=True)
class Topic:
    """A topic and its number in the file."""

    name: str
    number: int

    @property
    def compaction_number(self) -> int | None:
        return self.number if self.name in COMPACTED else None

    def first(self, partition: int) -> int:
        """The rowid of the partition's offset 0; the next partition's is where this one ends."""
        return (self.number * MOST_PARTITIONS + partition) * _PLACE


@dataclass(frozen=True)
class Identity:
    """Facts that are decided when a log is made; the epoch alone changes, and only grows."""

    id: str
    epoch: int
    partitions: int


def begin(connection: sqlite3.Connection, new: Identity) -> Identity:
    """The log's identity: `new` in an empty file. A log of a version without ids gets the id of `new`."""
    row = connection.execute("SELECT id, epoch, partitions FROM log").fetchone()
    if row is None:
        values = (new.epoch, new.partitions, new.id)
        connection.execute("INSERT INTO log (epoch, partitions, next, id) VALUES (?, ?, 0, ?)", values)
        return new
    if not row[0]:
        connection.execute("UPDATE log SET id = ?", (new.id,))
    return Identity(row[0] or new.id, int(row[1]), int(row[2]))


def begin_epoch(connection: sqlite3.Connection, epoch: int) -> None:
    """Raise the epoch. Raises LogError unless it grows."""
    (current,) = connection.execute("SELECT epoch FROM log").fetchone()
    if epoch <= current:
        raise LogError(f"the log has epoch {current}; {epoch} is not a later one")
    connection.execute("UPDATE log SET epoch = ?", (epoch,))


def topics(connection: sqlite3.Connection, names: Iterable[str] = ()) -> dict[str, Topic]:
    """All topics; those of `names` are made where they are new."""
    connection.executemany("INSERT OR IGNORE INTO topics (name) VALUES (?)", [(name,) for name in names])
    rows = connection.execute("SELECT name, number FROM topics").fetchall()
    return {name: Topic(name, number) for name, number in rows}


def place(message: Message, partitions: int) -> int:
    """The partition of a message. Raises BadMessage for one that is not there."""
    if message.partition is None:
        return find_partition(message.key, partitions)
    if not 0 <= message.partition < partitions:
        raise BadMessage(
            f"{message.topic}: partition {message.partition} is not one of 0 to {partitions - 1}"
        )
    return message.partition


def append(
    connection: sqlite3.Connection, messages: Sequence[tuple[Message, int]], known: Mapping[str, Topic]
) -> list[Record]:
    """Messages with their partitions; a newer one in a compacted topic replaces an older one."""
    if not messages:
        return []
    now = time.time_ns() // 1000
    when = _time(now)
    query = "UPDATE log SET next = next + ? RETURNING next"
    # One counter for all partitions, taken in the same transaction as the records: an aborted one leaves no gap, and
    # two processes never get the same offset.
    (end,) = connection.execute(query, (len(messages),)).fetchall()[0]
    rows: list[Row] = []
    records = []
    for offset, (message, partition) in enumerate(messages, end - len(messages)):
        topic = known[message.topic]
        headers = dict(message.headers)
        position = topic.first(partition) + offset
        rows.append(
            (position, topic.compaction_number, message.key, now, orjson.dumps(headers), message.value)
        )
        records.append(Record(message.topic, partition, offset, message.key, message.value, headers, when))
    _insert(connection, rows)
    return records


def _insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Insert by few statements, of sizes that are powers of two, so that few different ones are compiled."""
    start = 0
    while left := len(rows) - start:
        size = min(_CHUNK, 1 << (left.bit_length() - 1))
        values = ", ".join(["(?, ?, ?, ?, ?, ?)"] * size)
        chunk = rows[start : start + size]
        connection.execute(
            f"INSERT OR REPLACE INTO records ({_COLUMNS}) VALUES {values}",
            [value for row in chunk for value in row],
        )
        start += size


def read(
    connection: sqlite3.Connection, topic: Topic, partition: int, start: int, limit: int
) -> list[Record]:
    first = topic.first(partition)
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM records WHERE position >= ? AND position < ? ORDER BY position LIMIT ?",
        (first + max(0, min(start, _PLACE)), first + _PLACE, limit),
    )
    read: list[Record] = []
    size = 0
    for row in rows:
        size += len(row[5] or b"")
        if read and size > READ_BYTES:
            break
        read.append(_record(topic.name, row))
    return read


def with_records(connection: sqlite3.Connection, topic: Topic, starts: Mapping[int, int]) -> list[int]:
    """Return the partitions, in the order of `starts`, that have records from these offsets on.

    One statement for all of them: most queries find nothing, and a statement takes much longer than a search in the
    tree.
    """
    if not starts:
        return []
    columns = ", ".join(["EXISTS (SELECT 1 FROM records WHERE position >= ? AND position < ?)"] * len(starts))
    bounds = [
        bound
        for partition, start in starts.items()
        for bound in (topic.first(partition) + max(0, min(start, _PLACE)), topic.first(partition) + _PLACE)
    ]
    row = connection.execute(f"SELECT {columns}", bounds).fetchone()
    return [partition for partition, exists in zip(starts, row, strict=True) if exists]


def latest(connection: sqlite3.Connection, topic: Topic, key: str) -> Record | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM records WHERE compacted = ? AND key = ?", (topic.number, key)
    ).fetchone()
    return _record(topic.name, row) if row else None


def group_positions(connection: sqlite3.Connection, group: str, topic: str) -> dict[int, int]:
    query = "SELECT partition, next FROM positions WHERE member_group = ? AND topic = ? ORDER BY partition"
    return dict(connection.execute(query, (group, topic)).fetchall())


def unread(connection: sqlite3.Connection, topic: Topic, positions: Mapping[int, int]) -> dict[int, int]:
    """Count the records from these positions on; offsets do not give the number, since all partitions share one
    counter."""
    query = "SELECT count(*) FROM (SELECT 1 FROM records WHERE position >= ? AND position < ? LIMIT ?)"
    counts = {}
    for partition, start in positions.items():
        first = topic.first(partition)
        row = connection.execute(query, (first + min(start, _PLACE), first + _PLACE, UNREAD)).fetchone()
        counts[partition] = int(row[0])
    return counts


def end(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT next FROM log").fetchone()[0])


def expire_tombstones(connection: sqlite3.Connection, topic: Topic, before: datetime, limit: int) -> int:
    rows = connection.execute(
        """SELECT position FROM records WHERE compacted = ? AND compacted IS NOT NULL AND value IS NULL
           AND written < ? LIMIT ?""",
        (topic.number, _microseconds(before), limit),
    ).fetchall()
    kept = {
        partition: _unread(connection, topic, partition) for partition in {_place(row[0]) for row in rows}
    }
    # A tombstone that a group has yet to read orders it to delete: if it is removed before, the group's copy keeps the
    # entity for ever.
    gone = [row for row in rows if row[0] - topic.first(_place(row[0])) < kept[_place(row[0])]]
    connection.executemany("DELETE FROM records WHERE position = ?", gone)
    return len(gone)


def expire(connection: sqlite3.Connection, topic: Topic, partition: int, before: datetime, limit: int) -> int:
    """The oldest records of a partition, up to the first that is to stay."""
    first, bound = topic.first(partition), _microseconds(before)
    rows = connection.execute(
        "SELECT position, written FROM records WHERE position >= ? AND position < ? ORDER BY position LIMIT ?",
        (first, first + _unread(connection, topic, partition), limit),
    ).fetchall()
    # Stops at the first record that stays, also where a clock that went back made a later one seem older: a hole in
    # the middle of a partition would be taken for compaction.
    gone = next((index for index, (_, written) in enumerate(rows) if written >= bound), len(rows))
    if gone:
        connection.execute(
            "DELETE FROM records WHERE position BETWEEN ? AND ?", (rows[0][0], rows[gone - 1][0])
        )
    return gone


def _unread(connection: sqlite3.Connection, topic: Topic, partition: int) -> int:
    """The first offset that some group has yet to read."""
    query = "SELECT min(next) FROM positions WHERE topic = ? AND partition = ?"
    (offset,) = connection.execute(query, (topic.name, partition)).fetchone()
    return _PLACE if offset is None else int(offset)


def _place(position: int) -> int:
    return position // _PLACE % MOST_PARTITIONS


def _record(topic: str, row: Any) -> Record:
    position, _, key, written, headers, value = row
    return Record(
        topic, _place(position), position % _PLACE, key, value, orjson.loads(headers), _time(written)
    )


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)
