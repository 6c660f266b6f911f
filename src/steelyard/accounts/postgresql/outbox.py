"""The outbox in PostgreSQL: what the API has accepted, until the view shows it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from steelyard.accounts.database import OutboxRow
from steelyard.accounts.postgresql.database import PostgresDatabase

_COLUMNS = (
    "command, account, kind, entity, created, topic_key, value, headers, request, idempotency_key, ends, "
    "partition, position, delivery"
)
_INSERT = text(
    f"INSERT INTO outbox ({_COLUMNS}) VALUES ({', '.join(f':{name}' for name in _COLUMNS.split(', '))})"
)
_REQUESTS = 0x57EE3
"""First key of the advisory locks under which an account's requests are compared with earlier ones."""


class PostgresOutbox:
    """The Outbox protocol."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def add(
        self, row: OutboxRow, others: Sequence[OutboxRow] = (), *, window_seconds: float = 60
    ) -> OutboxRow:
        async def insert(connection: AsyncConnection) -> OutboxRow:
            # Two API servers may get a request and its repeat at once: of an account's requests one is judged at a
            # time.
            query = text("SELECT pg_advisory_xact_lock(:key, hashtext(:account))")
            await connection.execute(query, {"key": _REQUESTS, "account": row.account})
            earlier = await _earlier(connection, row, window_seconds)
            if earlier is not None:
                if earlier.delivery != "lost":
                    return earlier
                # A lost row is open again: one repeat finds it, and a second repeat is an entity of its own.
                query = text("UPDATE outbox SET delivery = 'open' WHERE command = :command")
                await connection.execute(query, {"command": earlier.command})
                return replace(earlier, delivery="open")
            await connection.execute(_INSERT, [_values(item) for item in (row, *others)])
            return row

        return await self._database.write(insert)

    async def sent(self, command: str, position: tuple[int, int]) -> None:
        query = "UPDATE outbox SET partition = :partition, position = :position WHERE command = :command"
        values = {"partition": position[0], "position": position[1], "command": command}
        await self._execute(query, values)

    async def answered(self, commands: Sequence[str]) -> None:
        query = "UPDATE outbox SET delivery = 'answered' WHERE command = ANY(:commands)"
        await self._execute(query, {"commands": list(commands)})

    async def lost(self, commands: Sequence[str] | None = None) -> None:
        query = "UPDATE outbox SET delivery = 'lost' WHERE delivery = 'open'"
        if commands is None:
            # At a start every open row is an earlier process's, whose clients saw their connections break.
            await self._execute(query, {})
        else:
            await self._execute(f"{query} AND command = ANY(:commands)", {"commands": list(commands)})

    async def visible(self, commands: Sequence[str]) -> None:
        query = "UPDATE outbox SET visible = true WHERE command = ANY(:commands)"
        await self._execute(query, {"commands": list(commands)})

    async def unsent(self) -> Sequence[OutboxRow]:
        return await self._select("partition IS NULL AND NOT visible", {})

    async def pending(self, kind: str | None = None, entity: str | None = None) -> Sequence[OutboxRow]:
        given = {name: value for name, value in (("kind", kind), ("entity", entity)) if value is not None}
        # No text of PostgreSQL has a NUL, and the driver refuses to ask for one.
        if any("\0" in value for value in given.values()):
            return []
        return await self._select(
            " AND ".join(["NOT visible", *(f"{name} = :{name}" for name in given)]), given
        )

    async def sent_rows(self) -> Sequence[OutboxRow]:
        return await self._select("partition IS NOT NULL", {})

    async def unsend(self, commands: Mapping[str, int]) -> None:
        # The log was restored from a backup and has lost these: they count as unsent, and as not visible.
        query = (
            "UPDATE outbox SET partition = NULL, position = NULL, visible = false, ends = :ends"
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

    async def expired_request(self, account: str, idempotency_key: str) -> str | None:
        query = "SELECT request FROM outbox_keys WHERE account = :account AND idempotency_key = :key"

        async def read(connection: AsyncConnection) -> str | None:
            values = {"account": account, "key": idempotency_key}
            return (await connection.execute(text(query), values)).scalar_one_or_none()

        return await self._database.read(read)

    async def _execute(self, query: str, values: Mapping[str, object]) -> None:
        async def change(connection: AsyncConnection) -> None:
            await connection.execute(text(query), dict(values))

        await self._database.write(change)

    async def _select(self, where: str, values: Mapping[str, str]) -> list[OutboxRow]:
        query = text(f"SELECT {_COLUMNS} FROM outbox WHERE {where} ORDER BY number")

        async def read(connection: AsyncConnection) -> list[OutboxRow]:
            return [_row(row) for row in await connection.execute(query, dict(values))]

        return await self._database.read(read)


async def _earlier(connection: AsyncConnection, row: OutboxRow, window: float) -> OutboxRow | None:
    values: dict[str, object] = {"account": row.account}
    if row.idempotency_key is None:
        where = "request = :request AND created > :since AND delivery = 'lost' AND idempotency_key IS NULL"
        values |= {"request": row.request, "since": row.created - timedelta(seconds=window)}
    else:
        where, values = "idempotency_key = :key", values | {"key": row.idempotency_key}
    query = f"SELECT {_COLUMNS} FROM outbox WHERE account = :account AND {where} ORDER BY number LIMIT 1"
    earlier = (await connection.execute(text(query), values)).first()
    return None if earlier is None else _row(earlier)


def _values(row: OutboxRow) -> dict[str, object]:
    partition, position = row.position or (None, None)
    return {
        "command": row.command, "account": row.account, "kind": row.kind, "entity": row.entity,
        "created": row.created, "topic_key": row.topic_key, "value": row.value,
        "headers": orjson.dumps(dict(row.headers)), "request": row.request,
        "idempotency_key": row.idempotency_key, "ends": row.ends, "partition": partition, "position": position,
        "delivery": row.delivery,
    }  # fmt: skip


def _row(row: Row[Any]) -> OutboxRow:
    return OutboxRow(
        command=row.command, account=row.account, kind=row.kind, entity=row.entity,
        created=row.created.astimezone(UTC), topic_key=row.topic_key, value=bytes(row.value),
        headers=orjson.loads(row.headers), request=row.request, idempotency_key=row.idempotency_key, ends=row.ends,
        position=None if row.partition is None else (row.partition, row.position), delivery=row.delivery,
    )  # fmt: skip
