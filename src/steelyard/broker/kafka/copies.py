"""The newest record of each key of a compacted topic, in a temporary file of this process.

Kafka finds records by offset alone. Each process that asks for the newest record of a key reads the whole topic once,
keeps the newest of each key, and follows. The file has no name: it goes with the process, however that ends. A fixed
number of its pages is in memory.
"""

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import orjson

from steelyard.broker.kafka.progress import Progress
from steelyard.broker.log import READ_BYTES, Record

CACHE_KIB = 16 << 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA = """
CREATE TABLE records (
    key TEXT PRIMARY KEY, partition INTEGER NOT NULL, position INTEGER NOT NULL,
    written INTEGER NOT NULL, headers BLOB NOT NULL, value BLOB
);
CREATE UNIQUE INDEX places ON records (partition, position);
CREATE INDEX tombstones ON records (written) WHERE value IS NULL;
"""
_COLUMNS = "partition, position, key, value, headers, written"
_Row = tuple[int, int, str, bytes | None, bytes, int]


class Copy:
    """The newest records of one topic. The thread of the tail writes it, the event loop reads it."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._topic = topic
        self.progress = [Progress(f"{topic}/{partition}") for partition in range(partitions)]
        # An empty name is a private file that SQLite has already unlinked.
        self._connection = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._lock = threading.Lock()
        self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute("PRAGMA journal_mode = OFF")
        self._connection.executescript(_SCHEMA)

    def store(self, records: Sequence[Record]) -> None:
        """Keep the newest of each key; an older one of the same partition never replaces it."""
        newest = {record.key: record for record in records}
        rows = [
            (
                record.partition,
                record.offset,
                record.key,
                record.value,
                orjson.dumps(dict(record.headers)),
                (record.written - _EPOCH) // timedelta(milliseconds=1),
            )
            for record in newest.values()
        ]
        with self._lock:
            self._connection.execute("BEGIN")
            self._connection.executemany(
                f"INSERT INTO records ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
                "partition = excluded.partition, position = excluded.position, value = excluded.value, "
                "headers = excluded.headers, written = excluded.written "
                "WHERE excluded.partition <> partition OR excluded.position >= position",
                rows,
            )
            self._connection.execute("COMMIT")

    def latest(self, key: str) -> Record | None:
        rows = self._rows("WHERE key = ?", key)
        return self._record(rows[0]) if rows else None

    def read(self, partition: int, start: int, limit: int) -> list[Record]:
        """Return the records of a partition from an offset on: at most `limit`, and READ_BYTES of values."""
        taken: list[Record] = []
        size = 0
        with self._lock:
            rows = self._connection.execute(
                f"SELECT {_COLUMNS} FROM records WHERE partition = ? AND position >= ? ORDER BY position LIMIT ?",
                (partition, start, limit),
            )
            for row in rows:
                size += len(row[3] or b"")
                if taken and size > READ_BYTES:
                    break
                taken.append(self._record(row))
        return taken

    def expire(self, before: datetime, unread: Mapping[int, int]) -> int:
        """Forget tombstones that are older than `before` and that every group has read."""
        time = (before - _EPOCH) // timedelta(milliseconds=1)
        gone = 0
        with self._lock:
            for partition in range(len(self.progress)):
                gone += self._connection.execute(
                    "DELETE FROM records WHERE value IS NULL AND written < ? AND partition = ? AND position < ?",
                    (time, partition, unread.get(partition, 1 << 62)),
                ).rowcount
        return gone

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _rows(self, where: str, *arguments: object) -> list[_Row]:
        with self._lock:
            return self._connection.execute(f"SELECT {_COLUMNS} FROM records {where}", arguments).fetchall()

    def _record(self, row: _Row) -> Record:
        partition, position, key, value, headers, written = row
        time = _EPOCH + timedelta(milliseconds=written)
        return Record(self._topic, partition, position, key, value, orjson.loads(headers), time)


class CopyReader:
    """One partition of a copy, as the tail reads it."""

    def __init__(self, copy: Copy, partition: int) -> None:
        self._copy, self._partition = copy, partition

    def store(self, records: Sequence[Record], reached: int) -> Sequence[Record]:
        del reached
        if records:
            self._copy.store(records)
        return ()

    def advance(self, records: Sequence[Record], reached: int) -> None:
        del records
        self._copy.progress[self._partition].advance(reached)

    def fail(self, fault: str) -> None:
        self._copy.progress[self._partition].fault = fault

    def end(self, fault: str) -> None:
        self._copy.progress[self._partition].end(fault)
