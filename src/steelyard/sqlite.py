"""One SQLite file, shared by the threads and processes of one machine: the log, the view and the accounts use it.

Writes of a process go through one thread, which commits all that wait at once (group commit), so that a hundred
writers share one fsync. WAL with synchronous=FULL: what `write` has returned survives a power loss. Reads see the last
commit of any process.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

BUSY_SECONDS = 30.0
GROUP = 1000
"""Works of one commit."""
POLL_SECONDS = 0.04
"""How soon a commit of another process is noticed."""
READERS = 2


class DatabaseError(Exception):
    """The database refused or failed; the message names its file."""


@dataclass
class _Item:
    work: Work[Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    result: Any = None
    error: BaseException | None = None


class Database:
    """Opened by `open`; to be closed. `path` of None is a database in memory, for tests."""

    def __init__(self, path: Path | None, writer: sqlite3.Connection) -> None:
        self.path = path
        self._writer = writer
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name=f"sqlite {self._name}", daemon=True)
        self._readers: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix=f"sqlite {self._name}") if path else None
        self._lock = threading.RLock()  # a database in memory has one connection
        self._own = writer if path is None else _connect(path)
        self._commits = 0
        self._waiting: set[asyncio.Future[None]] = set()
        self._poller: asyncio.Task[None] | None = None
        self._closed = False
        for _ in range(READERS if path else 0):
            self._readers.put(_connect(path))

    @property
    def _name(self) -> str:
        return str(self.path or ":memory:")

    @classmethod
    async def open(cls, path: Path | str, migrations: Sequence[str]) -> "Database":
        """Open the file, made and brought to the newest schema where needed; `:memory:` is a database of its own.

        `migrations` are scripts, each applied once, in order. Raises DatabaseError.
        """
        place = None if str(path) == ":memory:" else Path(path)
        database = cls(place, await asyncio.to_thread(_opened, place, migrations))
        database._thread.start()
        return database

    async def write(self, work: Work[T]) -> T:
        """What `work` returns, once its changes are durable. What it raises is raised here, and changes nothing."""
        if self._closed:
            raise DatabaseError(f"{self._name}: is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put(_Item(work, future, loop))
        return await future

    async def read(self, work: Work[T]) -> T:
        """What `work` returns on one snapshot, beside the event loop."""
        if self._pool is None:
            return self.read_now(work)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, work)

    def read_now(self, work: Work[T]) -> T:
        """What `work` returns, at once: for lookups that take microseconds. Of the event loop's thread alone."""
        with self._lock, _named(self._name):
            return work(self._own)

    def version(self) -> int:
        """A number that changes with every commit of any process."""
        if self.path is None:
            return self._commits
        return int(self._own.execute("PRAGMA data_version").fetchone()[0])

    async def changed(self, since: int, timeout: float) -> int:
        """The version, once it is another than `since` or `timeout` seconds have passed."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while (version := self.version()) == since and (left := until - loop.time()) > 0:
            waiter = loop.create_future()
            self._waiting.add(waiter)
            self._poll(loop)
            try:
                async with asyncio.timeout(left):
                    await waiter
            except TimeoutError:
                pass
            finally:
                self._waiting.discard(waiter)
        return version

    async def close(self) -> None:
        """After the writes that were asked for."""
        if self._closed:
            return
        self._closed = True
        if self._poller is not None:
            self._poller.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._poller
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._own.close()
        while not self._readers.empty():
            self._readers.get().close()
        self._writer.close()

    # ---- the writing thread

    def _write_all(self) -> None:
        ended = False
        while not ended:
            items = self._taken()
            ended = items[-1] is None
            group = [item for item in items if item is not None]
            if group:
                with self._lock if self.path is None else contextlib.nullcontext():
                    self._commit(group)
                self._answer(group)

    def _taken(self) -> list[_Item | None]:
        """All that wait, at least one; None is the end."""
        items = [self._queue.get()]
        while items[-1] is not None and len(items) < GROUP:
            try:
                items.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return items

    def _commit(self, group: list[_Item]) -> None:
        """All works in one transaction, each in a savepoint of its own."""
        connection = self._writer
        try:
            connection.execute("BEGIN IMMEDIATE")
            for item in group:
                self._try(connection, item)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.rollback()
            for item in group:
                item.error = item.error or _ours(self._name, error)
        self._commits += 1

    def _try(self, connection: sqlite3.Connection, item: _Item) -> None:
        connection.execute("SAVEPOINT work")
        try:
            item.result = item.work(connection)
        except Exception as error:  # whatever it is, the one who asked gets it
            if not connection.in_transaction:
                raise  # the disk is full or broken: the whole transaction is gone
            connection.execute("ROLLBACK TO work")
            item.error = _ours(self._name, error) if isinstance(error, sqlite3.Error) else error
        connection.execute("RELEASE work")

    def _answer(self, group: list[_Item]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_Item]] = {}
        for item in group:
            by_loop.setdefault(item.loop, []).append(item)
        for loop, items in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._resolve, items)

    def _resolve(self, items: list[_Item]) -> None:
        for item in items:
            if item.future.done():
                continue
            if item.error is not None:
                item.future.set_exception(item.error)
            else:
                item.future.set_result(item.result)
        self._wake()

    # ---- waiting for changes

    def _wake(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look for commits of other processes, as long as somebody waits."""
        if self.path is not None and (self._poller is None or self._poller.done()):
            self._poller = loop.create_task(self._look())

    async def _look(self) -> None:
        version = self.version()
        idle = time.monotonic()
        while self._waiting or time.monotonic() - idle < 1:
            await asyncio.sleep(POLL_SECONDS)
            if self._waiting:
                idle = time.monotonic()
            if (now := self.version()) != version:
                version = now
                self._wake()

    def _read(self, work: Work[T]) -> T:
        connection = self._readers.get()
        try:
            with _named(self._name):
                connection.execute("BEGIN")
                try:
                    return work(connection)
                finally:
                    connection.execute("COMMIT")
        finally:
            self._readers.put(connection)


def _connect(path: Path | None) -> sqlite3.Connection:
    with _named(str(path or ":memory:")):
        connection = sqlite3.connect(
            path or ":memory:",
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        connection.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY;"
        )
        return connection


def _opened(path: Path | None, migrations: Sequence[str]) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    connection = _connect(path)
    try:
        _migrate(connection, migrations, str(path or ":memory:"))
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, migrations: Sequence[str], name: str) -> None:
    """Under the file's write lock, so that of several processes one does it."""
    with _named(name):
        connection.execute("BEGIN IMMEDIATE")
        done = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if done > len(migrations):
            connection.rollback()
            raise DatabaseError(f"{name}: was written by a newer version of Steelyard; use that one")
        for script in migrations[done:]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    """A script's statements; `executescript` would commit before each."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _ours(name, error) from error


def _ours(name: str, error: BaseException) -> DatabaseError:
    return DatabaseError(f"{name}: {error}")
