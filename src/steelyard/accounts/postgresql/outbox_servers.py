"""The API servers that share an outbox in PostgreSQL, and their leases. `outbox.py` calls this, each in a transaction.

Leases count by the server's own clock: those of the machines on which API servers run are never compared.
"""

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from steelyard.accounts.database import LeaseEnded
from steelyard.engines.processes import may_live

_END = "clock_timestamp() + make_interval(secs => :seconds)"


async def begin(connection: AsyncConnection, server: str, seconds: float, process: str) -> None:
    query = (
        f"INSERT INTO outbox_servers VALUES (:server, :process, {_END}, 0)"
        f" ON CONFLICT (id) DO UPDATE SET process = :process, expires = {_END}, renewals = 0"
    )
    await connection.execute(text(query), {"server": server, "seconds": seconds, "process": process})


async def renew(connection: AsyncConnection, server: str, seconds: float) -> None:
    query = f"UPDATE outbox_servers SET expires = {_END}, renewals = renewals + 1 WHERE id = :server"
    values = {"server": server, "seconds": seconds}
    if not (await connection.execute(text(query), values)).rowcount:
        raise LeaseEnded(f"server {server}: its lease has ended")


CHECK = "SELECT id FROM outbox_servers WHERE id = %(server)s FOR KEY SHARE"
"""Query, in the driver's form, that finds nothing where a server is not registered, or was taken over; until the commit
no other server takes over."""


async def check(connection: AsyncConnection, server: str) -> None:
    """Raises LeaseEnded where the server is not registered, or was taken over; until the commit no other takes over."""
    if not server:
        return
    query = text("SELECT 1 FROM outbox_servers WHERE id = :server FOR KEY SHARE")
    if (await connection.execute(query, {"server": server})).first() is None:
        raise LeaseEnded(f"server {server}: its lease has ended")


async def remove_ended(connection: AsyncConnection, *, besides: str) -> Sequence[str]:
    """Remove the servers whose leases or processes have ended, and return them."""
    rows = (await connection.execute(text("SELECT id, process FROM outbox_servers"))).all()
    gone = [id for id, process in rows if id != besides and not may_live(process)]
    # The lease is looked at by the statement that removes it: a server may be renewing it at this moment.
    query = (
        "DELETE FROM outbox_servers WHERE id <> :besides AND (expires <= clock_timestamp() OR id = ANY(:gone))"
        " RETURNING id"
    )
    return (await connection.execute(text(query), {"besides": besides, "gone": gone})).scalars().all()
