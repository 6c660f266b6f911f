"""A PostgreSQL database, shared by the processes of a cluster: transactions that are tried again, and its version.

A write is durable once `write` returns: the server is asked at the start whether it confirms only writes that are on
its disk.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import psycopg
from alembic.util import CommandError
from psycopg.rows import namedtuple_row
from sqlalchemy import URL, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.postgresql import schema
from steelyard.engines.addresses import without_password

T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]

OLDEST = 13
"""Oldest version of the server that is supported."""
TRIES = 5
"""Number of times that a transaction is tried which met a deadlock, or a connection that had ended."""
VERSION_SECONDS = 1.0
"""Time between two polls of the number that every change of accounts and keys raises."""
BLIND_SECONDS = 5.0
"""Time without a poll of that number after which nothing is answered any more: a revoked key would stay good."""
ANSWER_SECONDS = 15.0
"""Time in which a transaction has to be through; the server ends one that has been silent for as long.

A server that is cut off, or suspended, does not say so: without the limit everything that asks it would wait until the
network is whole again, and the row that its last transaction has locked would stay locked.
"""
CONNECT_SECONDS = 5
_TCP = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Settings by which the kernel ends a connection whose other end does not acknowledge the data, within 11 s."""
_MISSING_RIGHTS = text("""
    SELECT kind || ' on the table ' || relname FROM pg_class, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) kind
    WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND NOT has_table_privilege(oid, kind)
    UNION ALL
    SELECT 'USAGE on the sequence ' || relname FROM pg_class
    -- has_sequence_privilege fails for a relation that is not a sequence; CASE keeps the planner from calling it first.
    WHERE CASE WHEN relkind = 'S' AND relnamespace = current_schema()::regnamespace
        THEN NOT has_sequence_privilege(oid, 'USAGE') ELSE false END
    ORDER BY 1
""")
"""Rights on tables and sequences that the platform needs and the user lacks."""
_AGAIN = {"40001", "40P01"}
"""SQLSTATEs of transactions that the server ended for the sake of others: serialization failure and deadlock."""


def parse(url: str) -> URL:
    """Return the address for the driver. Raises AccountsDatabaseError."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise AccountsDatabaseError(
            f"accounts {without_password(url)!r}: should be postgresql://USER@HOST:PORT/DATABASE;"
            " PORT is a number, or left out with its colon"
        ) from error
    if not parsed.database:
        raise AccountsDatabaseError(f"accounts {hide_password(parsed)!r}: should end with /DATABASE")
    return parsed.set(drivername="postgresql+psycopg")


def hide_password(url: URL) -> str:
    """Return the address without its password, for messages."""
    return without_password(url.set(drivername="postgresql").render_as_string(hide_password=True))


class PostgresDatabase:
    """Made by `open`; to be closed. Belongs to one event loop."""

    def __init__(self, engine: AsyncEngine, url: URL, version: int) -> None:
        self.name = hide_password(url)
        self._engine = engine
        # What only reads needs neither a transaction's beginning nor its end: two round trips less.
        self._reading = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._version = version
        self._seen = asyncio.get_running_loop().time()
        self._failure = ""
        self._closing = asyncio.Event()
        self._watch = asyncio.create_task(self._follow_version())

    @classmethod
    async def open(cls, url: URL) -> "PostgresDatabase":
        """Connect. Raises AccountsDatabaseError for a server that cannot be used, or a schema of another version."""
        engine = create_async_engine(
            url,
            pool_size=10,
            max_overflow=0,
            connect_args={
                "connect_timeout": CONNECT_SECONDS,
                "application_name": "steelyard",
                "options": f"-c timezone=UTC -c idle_in_transaction_session_timeout={ANSWER_SECONDS:.0f}s",
                **_TCP,
            },
            pool_timeout=ANSWER_SECONDS,
        )
        try:
            async with engine.connect() as connection:
                await _check_server(connection)
                revision = await connection.run_sync(schema.present)
                if revision != schema.newest():
                    raise AccountsDatabaseError(_schema_fault(revision))
                version = await _version(connection)
        except AccountsDatabaseError as error:
            await engine.dispose()
            raise AccountsDatabaseError(f"accounts {hide_password(url)}: {error}") from None
        except SQLAlchemyError as error:
            await engine.dispose()
            raise AccountsDatabaseError(f"accounts {hide_password(url)}: {reason(error)}") from error
        return cls(engine, url, version)

    async def write(self, work: Work[T], seconds: float = ANSWER_SECONDS) -> T:
        """Run `work` in a transaction; return its result once its changes are durable.

        What it raises is raised here, and changes nothing. It may run several times, so it must do nothing else; each
        time it has `seconds` until the server must have confirmed it.
        Raises AccountsDatabaseError; whether the transaction was committed is then unknown.
        """
        return await self._run(self._engine, work, seconds)

    async def read(self, work: Work[T], seconds: float = ANSWER_SECONDS) -> T:
        """Run `work`, which only reads; each of its statements sees the commits from before it.

        Raises AccountsDatabaseError.
        """
        return await self._run(self._reading, work, seconds)

    async def _run(self, engine: AsyncEngine, work: Work[T], seconds: float) -> T:
        for left in reversed(range(TRIES)):
            try:
                async with (
                    engine.connect() as connection,
                    _hung_up_after(seconds, connection) as silence,
                ):
                    try:
                        result = await work(connection)
                    except DBAPIError as error:
                        # Nothing of it was committed: the transaction ended with the error, or with its connection.
                        repeatable = (
                            error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _AGAIN
                        )
                        if left and repeatable and not silence.is_set():
                            continue
                        raise
                    await connection.commit()
                    return result
            except SQLAlchemyError as error:
                raise self._name_error(error) from error
        raise AssertionError("the last try returns or raises")

    def version(self) -> int:
        """A number that grows with every change of accounts or keys. Raises AccountsDatabaseError.

        A change of this process is seen at once, one of another process within a second or two.
        """
        blind = asyncio.get_running_loop().time() - self._seen
        if blind > BLIND_SECONDS:
            raise AccountsDatabaseError(f"accounts {self.name}: no answer for {blind:.0f} s: {self._failure}")
        return self._version

    def note_version(self, version: int) -> None:
        """Note the version that a change of this process has made."""
        self._version = max(self._version, version)

    async def facts(self) -> tuple[str, ...]:
        """Return the server's version, the schema's revision, and how far the server's clock is ahead of ours.

        Raises AccountsDatabaseError where the user lacks a right.
        """
        query = text("SELECT current_setting('server_version'), clock_timestamp()")
        before = datetime.now(UTC)
        try:
            async with self._engine.connect() as connection:
                version, there = (await connection.execute(query)).one()
                missing = list(await connection.scalars(_MISSING_RIGHTS))
        except SQLAlchemyError as error:
            raise self._name_error(error) from error
        if missing:
            raise AccountsDatabaseError(
                f"accounts {self.name}: the user lacks the rights {', '.join(missing)}"
            )
        ahead = (there - before).total_seconds()
        return (
            f"PostgreSQL {version.split()[0]}",
            f"schema {schema.newest()}",
            "confirms what is on its disk",
            "reads and writes all tables",
            f"clock {ahead:+.1f} s",
        )

    async def close(self) -> None:
        """Close the connections, the one of a poll that is under way too, which ends within BLIND_SECONDS."""
        # A poll that is cancelled may leave its connection outside the pool, where nothing closes it.
        self._closing.set()
        try:
            await self._watch
        finally:
            await self._engine.dispose()

    async def _follow_version(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._closing.is_set():
            asked = loop.time()
            try:
                self.note_version(await self.read(_version, BLIND_SECONDS))
                self._seen = asked
            except AccountsDatabaseError as error:
                self._failure = str(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(VERSION_SECONDS):
                    await self._closing.wait()

    def _name_error(self, error: SQLAlchemyError) -> AccountsDatabaseError:
        return AccountsDatabaseError(f"accounts {self.name}: {reason(error)}")


@contextlib.asynccontextmanager
async def _hung_up_after(seconds: float, connection: AsyncConnection) -> AsyncIterator[asyncio.Event]:
    """End the connection's socket where the block takes longer; the event is set then.

    The driver sees the end of the connection and raises. It must not be cancelled instead: a cancelled query waits for
    the server's answer to the cancellation, which never comes.
    """
    silence = asyncio.Event()
    raw = await connection.get_raw_connection()
    driver = raw.driver_connection
    assert driver is not None

    def hang_up() -> None:
        silence.set()
        # It may have ended by itself.
        with (
            contextlib.suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(driver.fileno())) as end,
        ):
            end.shutdown(socket.SHUT_RDWR)

    timer = asyncio.get_running_loop().call_later(seconds, hang_up)
    try:
        yield silence
    finally:
        timer.cancel()


async def pipeline(
    connection: AsyncConnection, statements: Sequence[tuple[str, Mapping[str, object]]]
) -> Sequence[Sequence[Any]]:
    """Send statements in the driver's form at once, and return the rows of each: one round trip for all of them.

    Each sees the commits from before it began, as if they were sent one by one. Raises DBAPIError.
    """
    await connection.begin()  # says to SQLAlchemy that there is something to commit; sends nothing
    driver = cast("psycopg.AsyncConnection[Any]", (await connection.get_raw_connection()).driver_connection)
    try:
        async with driver.pipeline():
            cursors = [driver.cursor(row_factory=namedtuple_row) for _ in statements]
            for cursor, (query, values) in zip(cursors, statements, strict=True):
                await cursor.execute(query, values)
        return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]
    except psycopg.Error as error:
        if driver.closed:
            await connection.invalidate()
        raise DBAPIError(None, None, error, connection_invalidated=driver.closed) from error


def prepare(url: URL) -> tuple[str | None, str]:
    """Make the tables or migrate them. Return the revisions before and after. Raises AccountsDatabaseError."""
    try:
        return schema.migrate(url)
    except SQLAlchemyError as error:
        raise AccountsDatabaseError(f"accounts {hide_password(url)}: {reason(error)}") from error
    except CommandError as error:
        # Alembic does not know the revision: a newer version of Steelyard has migrated the tables.
        raise AccountsDatabaseError(
            f"accounts {hide_password(url)}: the tables are of a newer version: {error}"
        ) from error


def reason(error: SQLAlchemyError) -> str:
    """Return one line that says why: the driver's, without the statement and its values."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return " ".join(str(cause).split()) or type(cause).__name__


async def _version(connection: AsyncConnection) -> int:
    return int((await connection.execute(text("SELECT number FROM version"))).scalar_one())


async def _check_server(connection: AsyncConnection) -> None:
    query = (
        "SELECT current_setting('server_version_num')::int / 10000, current_setting('server_encoding'),"
        " current_setting('fsync'), current_setting('synchronous_commit')"
    )
    version, encoding, fsync, commit = (await connection.execute(text(query))).one()
    if version < OLDEST:
        raise AccountsDatabaseError(f"PostgreSQL {version} is too old: {OLDEST} or newer is needed")
    if encoding != "UTF8":
        raise AccountsDatabaseError(f"the database's encoding is {encoding}, and should be UTF8")
    # What is confirmed must survive a power loss: an accepted command is answered on the strength of its row here.
    if fsync != "on" or commit == "off":
        raise AccountsDatabaseError(
            f"fsync is {fsync} and synchronous_commit is {commit}: confirmed writes could be lost; set both to on"
        )


def _schema_fault(revision: str | None) -> str:
    if revision is None:
        return "has no tables of Steelyard yet; `steelyard config init` makes them"
    return (
        f"has revision {revision} of the schema, and this version of Steelyard needs {schema.newest()};"
        " `steelyard config init` migrates an older one"
    )
