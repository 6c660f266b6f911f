"""The log to which the accounts database belongs: its claims and its outbox hold positions of that log."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from steelyard.accounts.positions import EVENTS, STATE
from steelyard.accounts.postgresql.database import PostgresDatabase
from steelyard.engines.origin import Origin


class PostgresOrigin:
    """The outlet's side of `services/identity.py`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def origin(self) -> Origin | None:
        return await self._database.read(_origin)

    async def set_origin(self, log: str, epoch: int) -> None:
        async def write(connection: AsyncConnection) -> None:
            query = text("SELECT log, epoch FROM origin FOR UPDATE")
            known = (await connection.execute(query)).first()
            query = text(
                "INSERT INTO origin VALUES (1, :log, :epoch)"
                " ON CONFLICT (only_row) DO UPDATE SET log = excluded.log, epoch = excluded.epoch"
            )
            await connection.execute(query, {"log": log, "epoch": epoch})
            if known is not None and tuple(known) != (log, epoch):
                # An offset of another epoch means nothing here. What the log says of an entity replaces its claim's
                # state.
                for statement in (
                    "DELETE FROM claim_positions",
                    "UPDATE claims SET epoch = -1, position = -1",
                    "UPDATE outbox SET ends = 0",
                    "UPDATE outbox SET position = -1 WHERE partition IS NOT NULL",
                ):
                    await connection.execute(text(statement))

        await self._database.write(write)


async def _origin(connection: AsyncConnection) -> Origin | None:
    row = (await connection.execute(text("SELECT log, epoch FROM origin"))).first()
    if row is None:
        return None
    query = text("SELECT partition, max(next) FROM claim_positions GROUP BY partition")
    claims = dict([tuple(row) for row in await connection.execute(query)])
    query = text(
        "SELECT partition, max(position) + 1 FROM outbox WHERE partition IS NOT NULL GROUP BY partition"
    )
    outbox = dict([tuple(row) for row in await connection.execute(query)])
    return Origin(row.log, row.epoch, {STATE: claims, EVENTS: outbox})
