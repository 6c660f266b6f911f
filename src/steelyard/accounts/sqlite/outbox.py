"""The outbox in SQLite: what the API has accepted, until the view shows it."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import orjson

from steelyard.accounts.outbox import Backlog, Delivery, OutboxRow
from steelyard.accounts.sqlite import outbox_servers as servers
from steelyard.sqlite import Database

MIGRATION = """
CREATE TABLE outbox (
    number INTEGER PRIMARY KEY, command TEXT NOT NULL UNIQUE, account TEXT NOT NULL, kind TEXT NOT NULL,
    entity TEXT NOT NULL, created REAL NOT NULL, topic_key TEXT NOT NULL, value BLOB NOT NULL,
    headers BLOB NOT NULL, request TEXT NOT NULL, idempotency_key TEXT, ends INTEGER NOT NULL,
    partition INTEGER, offset INTEGER, answered INTEGER NOT NULL DEFAULT 0, visible INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX outbox_by_idempotency ON outbox (account, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX outbox_by_request ON outbox (account, request, created);
CREATE INDEX outbox_pending ON outbox (kind, entity) WHERE visible = 0;
CREATE INDEX outbox_pending_entity ON outbox (entity) WHERE visible = 0;
CREATE INDEX outbox_unsent ON outbox (number) WHERE partition IS NULL AND visible = 0;
CREATE INDEX outbox_settled ON outbox (created) WHERE visible = 1;
"""
SECOND_MIGRATION = """
CREATE TABLE outbox_keys (
    account TEXT NOT NULL, idempotency_key TEXT NOT NULL, request TEXT NOT NULL,
    PRIMARY KEY (account, idempotency_key)
) WITHOUT ROWID;
"""
THIRD_MIGRATION = f"""
{servers.MIGRATION}
ALTER TABLE outbox ADD COLUMN server TEXT NOT NULL DEFAULT '';
CREATE INDEX outbox_by_server ON outbox (server) WHERE visible = 0 OR answered = 0;
"""
DELIVERIES: tuple[Delivery, ...] = ("open", "answered", "lost")
"""Deliveries by their numbers in the column `answered`."""
_COLUMNS = (
    "command, account, kind, entity, created, topic_key, value, headers, request, idempotency_key, ends, "
    "partition, offset, answered, server"
)
_Row = tuple[
    str, str, str, str, float, str, bytes, bytes, str, str | None, int, int | None, int | None, int, str
]


class SqliteOutbox:
    """The Outbox protocol."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, server: str, seconds: float, process: str = "") -> None:
        await self._database.write(lambda connection: servers.begin(connection, server, seconds, process))

    async def renew(self, server: str, seconds: float) -> None:
        await self._database.write(lambda connection: servers.renew(connection, server, seconds))

    async def end(self, server: str) -> None:
        # Its row stays: who takes the server over removes it, and finds by it which rows to take.
        query = "UPDATE outbox_servers SET seconds = 0 WHERE id = ?"
        await self._database.write(lambda connection: connection.execute(query, (server,)).rowcount)

    async def take_over(self, server: str) -> Sequence[OutboxRow]:
        def take(connection: sqlite3.Connection) -> list[OutboxRow]:
            servers.check(connection, server)
            ended = ["", *servers.list_ended(connection, besides=server)]
            servers.remove(connection, ended)
            places = ", ".join("?" * len(ended))
            # Their clients saw their connections break.
            lost = f"UPDATE outbox SET answered = 2 WHERE answered = 0 AND server IN ({places})"
            connection.execute(lost, ended)
            where = f"visible = 0 AND server IN ({places})"
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM outbox WHERE {where} ORDER BY number", ended
            ).fetchall()
            if rows:  # a server asks every few seconds: where nothing is left, nothing is written
                connection.execute(f"UPDATE outbox SET server = ? WHERE {where}", (server, *ended))
            return [replace(_row(values), server=server) for values in rows]

        return await self._database.write(take)

    async def in_doubt(self, row: OutboxRow, *, window_seconds: float = 60) -> Mapping[str, int]:
        query = (
            "SELECT DISTINCT server, coalesce(renewals, 0) FROM outbox LEFT JOIN outbox_servers ON id = server"
            " WHERE account = ? AND request = ? AND created > ? AND answered = 0 AND idempotency_key IS NULL"
            " AND server <> ?"
        )
        values = (row.account, row.request, row.created.timestamp() - window_seconds, row.server)
        return self._database.read_now(lambda connection: dict(connection.execute(query, values).fetchall()))

    async def add(
        self, row: OutboxRow, others: Sequence[OutboxRow] = (), *, window_seconds: float = 60
    ) -> OutboxRow:
        def insert(connection: sqlite3.Connection) -> OutboxRow:
            servers.check(connection, row.server)
            earlier = _earlier(connection, row, window_seconds)
            if earlier is not None:
                return earlier
            connection.executemany(
                f"INSERT INTO outbox ({_COLUMNS}) VALUES ({', '.join('?' * 15)})",
                [_values(item) for item in (row, *others)],
            )
            return row

        return await self._database.write(insert)

    async def find_repeat(self, row: OutboxRow, *, window_seconds: float = 60) -> OutboxRow | None:
        def find(connection: sqlite3.Connection) -> OutboxRow | None:
            servers.check(connection, row.server)
            return _earlier(connection, row, window_seconds)

        return await self._database.write(find)

    async def note_sent(self, command: str, position: tuple[int, int]) -> None:
        query = "UPDATE outbox SET partition = ?, offset = ? WHERE command = ?"
        # A cursor must not leave the writer's thread: freed elsewhere, it resets a statement that runs there.
        await self._database.write(
            lambda connection: connection.execute(query, (*position, command)).rowcount
        )

    async def note_answered(self, commands: Sequence[str]) -> None:
        await self._mark("answered", commands)

    async def note_lost(self, commands: Sequence[str]) -> None:
        rows = [(command,) for command in commands]
        query = "UPDATE outbox SET answered = 2 WHERE command = ? AND answered = 0"
        await self._database.write(lambda connection: connection.executemany(query, rows).rowcount)

    async def visible(self, commands: Sequence[str]) -> None:
        await self._mark("visible", commands)

    async def _mark(self, column: str, commands: Sequence[str]) -> None:
        rows = [(command,) for command in commands]
        await self._database.write(
            lambda connection: (
                connection.executemany(f"UPDATE outbox SET {column} = 1 WHERE command = ?", rows).rowcount
            )
        )

    async def unsent(self, server: str | None = None) -> Sequence[OutboxRow]:
        where, values = "partition IS NULL AND visible = 0", () if server is None else (server,)
        return self._select(where if server is None else f"{where} AND server = ?", *values)

    async def backlog(self) -> Backlog:
        query = "SELECT count(*), min(created) FROM outbox WHERE partition IS NULL AND visible = 0"
        rows, oldest = self._database.read_now(lambda connection: connection.execute(query).fetchone())
        return Backlog(rows, None if oldest is None else datetime.fromtimestamp(oldest, UTC))

    async def pending(self, kind: str | None = None, entity: str | None = None) -> Sequence[OutboxRow]:
        conditions = {"kind": kind, "entity": entity}
        given = {name: value for name, value in conditions.items() if value is not None}
        return self._select(
            " AND ".join(["visible = 0", *(f"{name} = ?" for name in given)]), *given.values()
        )

    async def list_sent(self) -> Sequence[OutboxRow]:
        return self._select("partition IS NOT NULL")

    async def unsend(self, commands: Mapping[str, int]) -> None:
        # The log was restored from a backup and has lost these: they count as unsent, and as not visible.
        # They have no server: the one that sent them may have ended long ago.
        reset = "partition = NULL, offset = NULL, visible = 0, server = ''"
        query = f"UPDATE outbox SET {reset}, ends = ? WHERE command = ?"
        rows = [(end, command) for command, end in commands.items()]
        await self._database.write(lambda connection: connection.executemany(query, rows).rowcount)

    def _select(self, where: str, *values: str) -> list[OutboxRow]:
        query = f"SELECT {_COLUMNS} FROM outbox WHERE {where} ORDER BY number"
        return self._database.read_now(
            lambda connection: [_row(values_) for values_ in connection.execute(query, values)]
        )

    async def expire(self, before: datetime) -> int:
        old, values = "visible = 1 AND created < ?", (before.timestamp(),)
        keep = (
            "INSERT OR IGNORE INTO outbox_keys SELECT account, idempotency_key, request FROM outbox"
            f" WHERE {old} AND idempotency_key IS NOT NULL ORDER BY number"
        )

        def remove(connection: sqlite3.Connection) -> int:
            connection.execute(keep, values)
            return connection.execute(f"DELETE FROM outbox WHERE {old}", values).rowcount

        return await self._database.write(remove)

    async def find_accepted(self, account: str, idempotency_key: str) -> OutboxRow | None:
        return self._database.read_now(lambda connection: _first_of_key(connection, account, idempotency_key))

    async def find_expired(self, account: str, idempotency_key: str) -> str | None:
        query = "SELECT request FROM outbox_keys WHERE account = ? AND idempotency_key = ?"
        row = self._database.read_now(
            lambda connection: connection.execute(query, (account, idempotency_key)).fetchone()
        )
        return row[0] if row else None


def _earlier(connection: sqlite3.Connection, row: OutboxRow, window: float) -> OutboxRow | None:
    """Return the row that a new one repeats. A lost row is open again: one repeat finds it, and a second repeat is an
    entity of its own.
    """
    earlier = _find_repeat(connection, row, window)
    if earlier is None or earlier.delivery != "lost":
        return earlier
    query = "UPDATE outbox SET answered = 0, server = ? WHERE command = ?"
    connection.execute(query, (row.server, earlier.command))
    return replace(earlier, delivery="open", server=row.server)


def _find_repeat(connection: sqlite3.Connection, row: OutboxRow, window: float) -> OutboxRow | None:
    if row.idempotency_key is not None:
        return _first_of_key(connection, row.account, row.idempotency_key)
    where = "account = ? AND request = ? AND created > ? AND answered = 2 AND idempotency_key IS NULL"
    return _first(connection, where, (row.account, row.request, row.created.timestamp() - window))


def _first_of_key(connection: sqlite3.Connection, account: str, key: str) -> OutboxRow | None:
    return _first(connection, "account = ? AND idempotency_key = ?", (account, key))


def _first(connection: sqlite3.Connection, where: str, values: tuple[str | float, ...]) -> OutboxRow | None:
    query = f"SELECT {_COLUMNS} FROM outbox WHERE {where} ORDER BY number LIMIT 1"
    first = connection.execute(query, values).fetchone()
    return _row(first) if first else None


def _values(row: OutboxRow) -> tuple[object, ...]:
    partition, offset = row.position or (None, None)
    return (
        row.command, row.account, row.kind, row.entity, row.created.timestamp(), row.topic_key, row.value,
        orjson.dumps(dict(row.headers)), row.request, row.idempotency_key, row.ends, partition, offset,
        DELIVERIES.index(row.delivery), row.server,
    )  # fmt: skip


def _row(values: _Row) -> OutboxRow:
    command, account, kind, entity, created, topic_key, value, headers, request, key = values[:10]
    ends, partition, offset, answered, server = values[10:]
    return OutboxRow(
        command=command, account=account, kind=kind, entity=entity, created=datetime.fromtimestamp(created, UTC),
        topic_key=topic_key, value=value, headers=orjson.loads(headers), request=request, idempotency_key=key,
        ends=ends, position=None if partition is None or offset is None else (partition, offset),
        delivery=DELIVERIES[answered], server=server,
    )  # fmt: skip
