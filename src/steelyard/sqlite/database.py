"""One SQLite file, shared by the tasks and processes of one machine: the log, the view and the accounts use it.

WAL with synchronous=FULL: what `write` has returned survives a power loss. Reads see the last commit of any process.
"""

import asyncio
import contextlib
import queue
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from steelyard.sqlite.changes import Changes
from steelyard.sqlite.file import DatabaseError, Turn, connect, migrate, naming_file
from steelyard.sqlite.writer import T, Work, Writer

READERS = 2


@dataclass(frozen=True)
class _Connections:
    """Connections to a file; a database in memory has one for everything, and no turn."""

    writer: sqlite3.Connection
    own: sqlite3.Connection
    readers: Sequence[sqlite3.Connection]
    turn: Turn | None


class Database:
    """Made by `open`; to be closed. Belongs to one event loop."""

    def __init__(self, path: Path | None, opened: _Connections) -> None:
        self.path = path
        self._name = str(path or ":memory:")
        self._turn, self._own = opened.turn, opened.own
        self._changes = Changes(opened.turn.path if opened.turn else None, self.version)
        self._writer = Writer(opened.writer, opened.turn, self._name, self._changes.wake)
        self._readers: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        for reader in opened.readers:
            self._readers.put(reader)
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix=f"sqlite {self._name}")
        self._closed = False

    @classmethod
    async def open(cls, path: Path | str, migrations: Sequence[str]) -> "Database":
        """Open the file, made and brought to the newest schema where needed; `:memory:` is a database of its own.

        `migrations` are scripts, each applied once, in order. Raises DatabaseError.
        """
        place = None if str(path) == ":memory:" else Path(path)
        return cls(place, await asyncio.to_thread(_open, place, migrations))

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction; return its result once its changes are durable. What it raises is raised here,
        and changes nothing.

        Works run in one thread, one after the other, and many may share a commit: a work must not begin or end a
        transaction (nor use `with connection`).
        """
        self._check()
        return await self._writer.write(work)

    async def read(self, work: Work[T]) -> T:
        """Run `work` on one snapshot, on a thread outside the event loop."""
        if self.path is None:
            return self.read_now(work)
        self._check()
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, work)

    def read_now(self, work: Work[T]) -> T:
        """Run `work` at once, for lookups that take microseconds: on the event loop's thread.

        Each of its statements sees the last commit, not one snapshot together.
        """
        self._check()
        # In memory there is one connection for all, which the writer's thread may be using.
        with self._writer.lock if self.path is None else contextlib.nullcontext(), naming_file(self._name):
            return work(self._own)

    def version(self) -> int:
        """A number that changes with every commit of any process."""
        self._check()
        if self.path is None:
            return self._writer.commits
        with naming_file(self._name):
            version = int(self._own.execute("PRAGMA data_version").fetchone()[0])
        self._changes.note(version)
        return version

    async def wait_for_change(self, since: int, timeout: float) -> int:
        """The version, once it is another than `since` or `timeout` seconds have passed."""
        return await self._changes.wait(since, timeout)

    async def facts(self) -> tuple[str, ...]:
        """Return what an administrator may want to know of the file."""
        return (f"SQLite {sqlite3.sqlite_version}",)

    async def close(self) -> None:
        """Close the file after the reads and writes that were begun.

        Those who wait for a change get an error that it is closed.
        """
        if self._closed:
            return
        self._closed = True
        self._changes.close()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        # Readers first: a connection that is closed under a running statement crashes the process.
        self._pool.shutdown(wait=True)
        if self.path is not None:
            self._own.close()
        while not self._readers.empty():
            self._readers.get().close()
        self._writer.close()
        if self._turn is not None:
            self._turn.close()

    def _check(self) -> None:
        if self._closed:
            raise DatabaseError(f"{self._name}: is closed")

    def _read(self, work: Work[T]) -> T:
        connection = self._readers.get()
        try:
            with naming_file(self._name):
                # One snapshot for all statements of the work, whatever others commit meanwhile.
                connection.execute("BEGIN")
                try:
                    return work(connection)
                finally:
                    connection.execute("COMMIT")
        finally:
            self._readers.put(connection)


def _open(path: Path | None, migrations: Sequence[str]) -> _Connections:
    if path is None:
        only = connect(None, writes=True)
        migrate(only, migrations, ":memory:")
        return _Connections(only, only, (), None)
    with contextlib.ExitStack() as undo:
        with naming_file(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        turn = Turn(path)
        undo.callback(turn.close)
        connections = []
        with turn.taking_turn():  # also while the file becomes a WAL database, for which SQLite does not wait
            for number in range(2 + READERS):
                connections.append(connect(path, writes=number == 0))
                undo.callback(connections[-1].close)
            migrate(connections[0], migrations, str(path))
            turn.watch(path)
        undo.pop_all()
        return _Connections(connections[0], connections[1], connections[2:], turn)
