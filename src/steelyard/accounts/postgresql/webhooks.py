"""Webhooks in PostgreSQL: how their scripts run. Their tables are made by a migration."""

from collections.abc import Callable

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from steelyard.accounts.postgresql.database import PostgresDatabase
from steelyard.accounts.webhooks.scripts import Script
from steelyard.accounts.webhooks.webhooks import T


class PostgresWebhooksEngine:
    """Runs the scripts of webhooks on a server."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def write(self, make: Callable[[], Script[T]]) -> T:
        return await self._database.write(lambda connection: _run(connection, make()))

    async def read(self, make: Callable[[], Script[T]]) -> T:
        return await self._database.read(lambda connection: _run(connection, make()))

    async def look_up(self, make: Callable[[], Script[T]]) -> T:
        return await self.read(make)


async def _run(connection: AsyncConnection, script: Script[T]) -> T:
    try:
        statement, values = next(script)
        while True:
            # The driver refuses values that the statement does not name.
            named = {name: value for name, value in values.items() if f":{name}" in statement}
            result = await connection.execute(text(statement), named)
            statement, values = script.send(result.fetchall() if result.returns_rows else [])
    except StopIteration as end:
        outcome: T = end.value
        return outcome
