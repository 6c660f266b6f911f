"""The contents of an accounts database in SQLite, read and written as plain values."""

import base64
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.sqlite.outbox import DELIVERIES
from steelyard.accounts.transfer import ADDED, COLUMNS, Contents, Kind
from steelyard.sqlite import Database
from steelyard_common.types import Json

_NAMES = {"position": "offset", "delivery": "answered"}
"""Columns that have another name here."""
_TEXT_TIMES = frozenset({"made"})
"""Times that are texts here, and not seconds."""


class SqliteTransfer:
    """The Transfer protocol."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def dump(self) -> Contents:
        return await self._database.read(
            lambda connection: {table: _rows(connection, table) for table in COLUMNS}
        )

    async def load(self, contents: Contents) -> None:
        def write(connection: sqlite3.Connection) -> None:
            if connection.execute("SELECT 1 FROM accounts").fetchone():
                raise AccountsDatabaseError("the accounts database is not empty; nothing was changed")
            connection.execute("DELETE FROM signing_keys")
            for table, columns in COLUMNS.items():
                names = ", ".join(_NAMES.get(name, name) for name in columns)
                places = ", ".join("?" * len(columns))
                rows = [
                    tuple(_from_json(name, kind, {**ADDED, **row}[name]) for name, kind in columns.items())
                    for row in contents.get(table, ())
                ]
                connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({places})", rows)
            connection.execute("UPDATE version SET number = number + 1")

        await self._database.write(write)


def _rows(connection: sqlite3.Connection, table: str) -> list[Json]:
    columns: Mapping[str, Kind] = COLUMNS[table]
    names = ", ".join(_NAMES.get(name, name) for name in columns)
    order = "number" if table in ("signing_keys", "outbox") else "1, 2"
    rows = connection.execute(f"SELECT {names} FROM {table} ORDER BY {order}")
    return [
        {name: _to_json(name, kind, value) for (name, kind), value in zip(columns.items(), row, strict=True)}
        for row in rows
    ]


def _to_json(name: str, kind: Kind, value: Any) -> Any:
    if value is None:
        return None
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind == "time":
        time = datetime.fromisoformat(value) if name in _TEXT_TIMES else datetime.fromtimestamp(value, UTC)
        return time.astimezone(UTC).isoformat()
    if name == "delivery":
        return DELIVERIES[value]
    if name == "visible":
        return bool(value)
    return value.decode() if name == "json" and isinstance(value, bytes) else value


def _from_json(name: str, kind: Kind, value: Any) -> Any:
    if value is None:
        return None
    if kind == "bytes":
        return base64.b64decode(value)
    if kind == "time":
        return value if name in _TEXT_TIMES else datetime.fromisoformat(value).timestamp()
    if name == "delivery":
        return DELIVERIES.index(value)
    return value
