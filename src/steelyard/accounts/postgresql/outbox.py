"""The outbox in PostgreSQL: what the API has accepted, until the view shows it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from steelyard.accounts.database import LeaseEnded
from steelyard.accounts.outbox import Backlog, OutboxRow
from steelyard.accounts.postgresql import outbox_servers as servers
from steelyard.accounts.postgresql.database import PostgresDatabase
from steelyard.accounts.postgresql.grouped import GroupedWrites

_TYPES = {
    "command": "text", "account": "text", "kind": "text", "entity": "text", "created": "timestamptz",
    "topic_key": "text", "value": "bytea", "headers": "bytea", "request": "text", "idempotency_key": "text",
    "ends": "bigint", "partition": "int", "position": "bigint", "delivery": "text", "server": "text",
}  # fmt: skip
_COLUMNS = ", ".join(_TYPES)
_REQUESTS = 0x57EE3
"""First key of the advisory locks under which an account's requests are compared with earlier ones."""


class PostgresOutbox:
    """The Outbox protocol."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._writes = GroupedWrites(database, _REQUESTS)

    async def begin(self, server: str, seconds: float, process: str = "") -> None:
        await self._database.write(lambda connection: servers.begin(connection, server, seconds, process))

    async def renew(self, server: str, seconds: float) -> None:
        await self._database.write(lambda connection: servers.renew(connection, server, seconds))

    async def end(self, server: str) -> None:
        # Its row stays: who takes the server over removes it, and finds by it which rows to take.
        query = "UPDATE outbox_servers SET expires = clock_timestamp() WHERE id = %(server)s"
        await self._note(query, {"server": server})

    async def take_over(self, server: str) -> Sequence[OutboxRow]:
        async def take(connection: AsyncConnection) -> list[OutboxRow]:
            await servers.check(connection, server)
            # First the servers: a transaction that adds rows for one of them holds its row until the commit.
            values = {
                "ended": ["", *await servers.remove_ended(connection, besides=server)],
                "server": server,
            }
            lost = "UPDATE outbox SET delivery = 'lost' WHERE delivery = 'open' AND server = ANY(:ended)"
            await connection.execute(text(lost), values)
            # Of two that take the rows without a server, the second finds them taken once it has waited for the first.
            query = (
                "UPDATE outbox SET server = :server WHERE NOT visible AND server = ANY(:ended)"
                f" RETURNING number, {_COLUMNS}"
            )
            rows = (await connection.execute(text(query), values)).all()
            return [_row(row) for row in sorted(rows, key=lambda row: int(row.number))]

        return await self._database.write(take)

    async def in_doubt(self, row: OutboxRow, *, window_seconds: float = 60) -> Mapping[str, int]:
        query = text(
            "SELECT DISTINCT server, coalesce(renewals, 0) AS renewals"
            " FROM outbox LEFT JOIN outbox_servers ON id = server WHERE account = :account AND request = :request"
            " AND created > :since AND delivery = 'open' AND idempotency_key IS NULL AND server <> :server"
        )
        since = row.created - timedelta(seconds=window_seconds)
        values = {"account": row.account, "request": row.request, "since": since, "server": row.server}

        async def read(connection: AsyncConnection) -> Mapping[str, int]:
            rows = await connection.execute(query, values)
            return {str(row.server): int(row.renewals) for row in rows}

        return await self._database.read(read)

    async def add(
        self, row: OutboxRow, others: Sequence[OutboxRow] = (), *, window_seconds: float = 60
    ) -> OutboxRow:
        return await self._earlier(row, [row, *others], window_seconds) or row

    async def find_repeat(self, row: OutboxRow, *, window_seconds: float = 60) -> OutboxRow | None:
        return await self._earlier(row, [], window_seconds)

    async def _earlier(
        self, row: OutboxRow, new: Sequence[OutboxRow], window_seconds: float
    ) -> OutboxRow | None:
        """Return the row that a row repeats; without one, add the new rows."""

        def read(rows: Sequence[Any]) -> OutboxRow | None:
            (first,) = rows
            if row.server and not first.registered:
                raise LeaseEnded(f"server {row.server}: its lease has ended")  # nothing is committed
            if first.command is None:
                return None
            same = _row(first)
            return replace(same, delivery="open", server=row.server) if same.delivery == "lost" else same

        # Two API servers may get a request and its repeat at once: an account's requests are compared one at a time.
        return await self._writes.write(_add_unless_there(row, new, window_seconds), read, lock=row.account)

    async def note_sent(self, command: str, position: tuple[int, int]) -> None:
        query = (
            "UPDATE outbox SET partition = %(partition)s, position = %(position)s WHERE command = %(command)s"
        )
        values = {"partition": position[0], "position": position[1], "command": command}
        await self._note(query, values)

    async def note_answered(self, commands: Sequence[str]) -> None:
        query = "UPDATE outbox SET delivery = 'answered' WHERE command = ANY(%(commands)s)"
        await self._note(query, {"commands": list(commands)})

    async def note_lost(self, commands: Sequence[str]) -> None:
        query = "UPDATE outbox SET delivery = 'lost' WHERE delivery = 'open' AND command = ANY(%(commands)s)"
        await self._note(query, {"commands": list(commands)})

    async def visible(self, commands: Sequence[str]) -> None:
        query = "UPDATE outbox SET visible = true WHERE command = ANY(%(commands)s)"
        await self._note(query, {"commands": list(commands)})

    async def unsent(self, server: str | None = None) -> Sequence[OutboxRow]:
        where = "partition IS NULL AND NOT visible"
        if server is None:
            return await self._select(where, {})
        return await self._select(f"{where} AND server = :server", {"server": server})

    async def backlog(self) -> Backlog:
        query = text("SELECT count(*), min(created) FROM outbox WHERE partition IS NULL AND NOT visible")

        async def read(connection: AsyncConnection) -> Backlog:
            rows, oldest = (await connection.execute(query)).one()
            return Backlog(rows, oldest and oldest.astimezone(UTC))

        return await self._database.read(read)

    async def pending(self, kind: str | None = None, entity: str | None = None) -> Sequence[OutboxRow]:
        given = {name: value for name, value in (("kind", kind), ("entity", entity)) if value is not None}
        # No text of PostgreSQL has a NUL, and the driver refuses to ask for one.
        if any("\0" in value for value in given.values()):
            return []
        return await self._select(
            " AND ".join(["NOT visible", *(f"{name} = :{name}" for name in given)]), given
        )

    async def list_sent(self) -> Sequence[OutboxRow]:
        return await self._select("partition IS NOT NULL", {})

    async def unsend(self, commands: Mapping[str, int]) -> None:
        # The log was restored from a backup and has lost these: they count as unsent, and as not visible. They have no
        # server, as the one that sent them may have ended long ago.
        query = (
            "UPDATE outbox SET partition = NULL, position = NULL, visible = false, server = '', ends = :ends"
            " WHERE command = :command"
        )
        rows = [{"command": command, "ends": end} for command, end in commands.items()]

        async def change(connection: AsyncConnection) -> None:
            if rows:
                await connection.execute(text(query), rows)

        await self._database.write(change)

    async def expire(self, before: datetime) -> int:
        keep = (
            "INSERT INTO outbox_keys SELECT account, idempotency_key, request FROM outbox"
            " WHERE visible AND created < :before AND idempotency_key IS NOT NULL ORDER BY number"
            " ON CONFLICT DO NOTHING"
        )

        async def remove(connection: AsyncConnection) -> int:
            await connection.execute(text(keep), {"before": before})
            query = text("DELETE FROM outbox WHERE visible AND created < :before")
            return (await connection.execute(query, {"before": before})).rowcount

        return await self._database.write(remove)

    async def find_accepted(self, account: str, idempotency_key: str) -> OutboxRow | None:
        where = "account = :account AND idempotency_key = :key"
        return next(iter(await self._select(where, {"account": account, "key": idempotency_key})), None)

    async def find_expired(self, account: str, idempotency_key: str) -> str | None:
        query = "SELECT request FROM outbox_keys WHERE account = :account AND idempotency_key = :key"

        async def read(connection: AsyncConnection) -> str | None:
            values = {"account": account, "key": idempotency_key}
            return (await connection.execute(text(query), values)).scalar_one_or_none()

        return await self._database.read(read)

    async def _note(self, query: str, values: Mapping[str, object]) -> None:
        await self._writes.write((query, values), lambda _: None)

    async def _select(self, where: str, values: Mapping[str, str]) -> list[OutboxRow]:
        query = text(f"SELECT {_COLUMNS} FROM outbox WHERE {where} ORDER BY number")

        async def read(connection: AsyncConnection) -> list[OutboxRow]:
            return [_row(row) for row in await connection.execute(query, dict(values))]

        return await self._database.read(read)


def _add_unless_there(
    row: OutboxRow, rows: Sequence[OutboxRow], window_seconds: float
) -> tuple[str, Mapping[str, object]]:
    """Return the statement that adds rows unless there is an earlier one of the same request as `row`.

    It gives one row: whether the server is registered, and the earlier row, if any.
    A lost row is opened again: one repeat finds it, and a second repeat is an entity of its own.
    """
    values: dict[str, object] = {"account": row.account, "server": row.server}
    if row.idempotency_key is None:
        where = (
            "request = %(request)s AND created > %(since)s AND delivery = 'lost' AND idempotency_key IS NULL"
        )
        values |= {"request": row.request, "since": row.created - timedelta(seconds=window_seconds)}
    else:
        where, values = "idempotency_key = %(key)s", values | {"key": row.idempotency_key}
    new = []
    for number, item in enumerate(rows):
        values |= {f"{name}_{number}": value for name, value in _values(item).items()}
        new.append("(" + ", ".join(f"%({name}_{number})s::{kind}" for name, kind in _TYPES.items()) + ")")
    added = (
        f", added AS (INSERT INTO outbox ({_COLUMNS}) SELECT * FROM (VALUES {', '.join(new)}) AS new"
        " WHERE NOT EXISTS (SELECT FROM earlier))"
    )
    return (
        f"WITH registered AS ({servers.CHECK}),"
        f" earlier AS (SELECT {_COLUMNS} FROM outbox WHERE account = %(account)s AND {where} ORDER BY number LIMIT 1),"
        " opened AS (UPDATE outbox SET delivery = 'open', server = %(server)s"
        " WHERE command = (SELECT command FROM earlier WHERE delivery = 'lost'))"
        f"{added if new else ''}"
        f" SELECT EXISTS (SELECT FROM registered) AS registered, {_COLUMNS}"
        " FROM (VALUES (1)) AS one LEFT JOIN earlier ON true"
    ), values


def _values(row: OutboxRow) -> dict[str, object]:
    partition, position = row.position or (None, None)
    return {
        "command": row.command, "account": row.account, "kind": row.kind, "entity": row.entity,
        "created": row.created, "topic_key": row.topic_key, "value": row.value,
        "headers": orjson.dumps(dict(row.headers)), "request": row.request,
        "idempotency_key": row.idempotency_key, "ends": row.ends, "partition": partition, "position": position,
        "delivery": row.delivery, "server": row.server,
    }  # fmt: skip


def _row(row: Any) -> OutboxRow:
    return OutboxRow(
        command=row.command, account=row.account, kind=row.kind, entity=row.entity,
        created=row.created.astimezone(UTC), topic_key=row.topic_key, value=bytes(row.value),
        headers=orjson.loads(row.headers), request=row.request, idempotency_key=row.idempotency_key, ends=row.ends,
        position=None if row.partition is None else (row.partition, row.position), delivery=row.delivery,
        server=row.server,
    )  # fmt: skip
