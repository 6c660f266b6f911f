"""Writes of one process to PostgreSQL that share transactions: all that wait go with the next one.

A commit waits for the server's disk, and an account's requests are compared one after the other. With a transaction of
its own, each of many requests would wait for the commits of all before it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from steelyard.accounts.database import AccountsDatabaseError, LeaseEnded
from steelyard.accounts.postgresql.database import PostgresDatabase, pipeline

T = TypeVar("T")
Rows = Sequence[Any]
Statement = tuple[str, Mapping[str, object]]

GROUP = 100
"""Writes of one transaction."""
_LOCKS = (
    "SELECT pg_advisory_xact_lock(%(space)s, name) FROM"
    " (SELECT DISTINCT hashtext(name) AS name FROM unnest(%(names)s::text[]) AS name ORDER BY 1) AS names"
)
"""Takes locks in one order everywhere, so that two transactions never wait for each other."""


@dataclass(frozen=True)
class _Write:
    statement: Statement
    read: Callable[[Rows], Any]
    lock: str | None
    future: "asyncio.Future[Any]"


class GroupedWrites:
    """Sends statements in the order in which they come, in one transaction after the other.

    `space` is the first key of the advisory locks that writes may name.
    """

    def __init__(self, database: PostgresDatabase, space: int) -> None:
        self._database = database
        self._space = space
        self._waiting: list[_Write] = []
        self._sender: asyncio.Task[None] | None = None

    async def write(self, statement: Statement, read: Callable[[Rows], T], *, lock: str | None = None) -> T:
        """Send a statement in the driver's form, and return what `read` makes of its rows once they are durable.

        What `read` raises is raised here, and the statement then changes nothing. `read` may be called several times.
        The statement begins once the lock of that name is held, and sees all commits until then. It is sent also if
        the caller is cancelled meanwhile. Raises AccountsDatabaseError.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Write(statement, read, lock, future))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        return await future

    async def _send(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:GROUP], self._waiting[GROUP:]
                await self._send_group(group)
        finally:
            self._sender = None

    async def _send_group(self, group: Sequence[_Write]) -> None:
        try:
            results = await self._database.write(lambda connection: self._write(connection, group))
        except Exception as error:  # noqa: BLE001 - each of the callers raises it
            if len(group) > 1 and _concerns_one_write(error):
                # Nothing was committed. With a transaction for each write, only the one at fault fails.
                for write in group:
                    await self._send_group([write])
                return
            for write in group:
                if not write.future.done():
                    write.future.set_exception(error)
        except BaseException:
            for write in group:
                write.future.cancel()
            raise
        else:
            for write, result in zip(group, results, strict=True):
                if not write.future.done():  # its caller may have been cancelled
                    write.future.set_result(result)

    async def _write(self, connection: AsyncConnection, group: Sequence[_Write]) -> list[Any]:
        names = sorted({write.lock for write in group if write.lock is not None})
        locks: list[Statement] = [(_LOCKS, {"space": self._space, "names": names})] if names else []
        rows = await pipeline(connection, [*locks, *(write.statement for write in group)])
        return [write.read(given) for write, given in zip(group, rows[len(locks) :], strict=True)]


def _concerns_one_write(error: Exception) -> bool:
    """Return whether one write of a group is at fault, and the others are not. Nothing was committed then."""
    cause = error.__cause__
    original = cause.orig if isinstance(cause, DBAPIError) else None
    return (
        not isinstance(error, AccountsDatabaseError)
        or isinstance(error, LeaseEnded)
        or isinstance(original, psycopg.DataError | psycopg.IntegrityError)
    )
