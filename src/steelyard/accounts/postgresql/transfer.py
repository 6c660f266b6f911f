"""The contents of an accounts database in PostgreSQL, read and written as plain values."""

import base64
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.postgresql.database import PostgresDatabase
from steelyard.accounts.transfer import ADDED, COLUMNS, Contents, Kind
from steelyard_common.types import Json


class PostgresTransfer:
    """The Transfer protocol."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def dump(self) -> Contents:
        async def read(connection: AsyncConnection) -> Contents:
            # Every table as of one moment, whatever others write meanwhile.
            await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            return {table: await _rows(connection, table) for table in COLUMNS}

        return await self._database.write(read)

    async def load(self, contents: Contents) -> None:
        async def write(connection: AsyncConnection) -> None:
            if (await connection.execute(text("SELECT 1 FROM accounts LIMIT 1"))).first() is not None:
                raise AccountsDatabaseError("the accounts database is not empty; nothing was changed")
            await connection.execute(text("DELETE FROM signing_keys"))
            for table, columns in COLUMNS.items():
                values = [
                    {name: _from_json(kind, {**ADDED, **row}[name]) for name, kind in columns.items()}
                    for row in contents.get(table, ())
                ]
                if values:
                    places = ", ".join(f":{name}" for name in columns)
                    query = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"
                    await connection.execute(text(query), values)
            await connection.execute(text("UPDATE version SET number = number + 1"))

        await self._database.write(write)


async def _rows(connection: AsyncConnection, table: str) -> list[Json]:
    columns = COLUMNS[table]
    order = "number" if table in ("signing_keys", "outbox") else "1, 2"
    rows = await connection.execute(text(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}"))
    return [
        {name: _to_json(kind, value) for (name, kind), value in zip(columns.items(), row, strict=True)}
        for row in rows
    ]


def _to_json(kind: Kind, value: Any) -> Any:
    if value is None or kind == "plain":
        return value
    if kind == "bytes":
        return base64.b64encode(value).decode()
    return value.astimezone(UTC).isoformat()


def _from_json(kind: Kind, value: Any) -> Any:
    if value is None or kind == "plain":
        return value
    return base64.b64decode(value) if kind == "bytes" else datetime.fromisoformat(value)
