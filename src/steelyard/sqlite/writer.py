"""The one thread of a process that writes a database. It commits all that waits at once: many share one fsync."""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from steelyard.sqlite.file import Turn, translate_error

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

GROUP = 1000
"""Works of one commit."""


@dataclass
class _Item:
    work: Work[Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    result: Any = None
    error: BaseException | None = None


class Writer:
    """Owns the connection. `wake` is called on the event loop after each commit."""

    def __init__(
        self, connection: sqlite3.Connection, turn: Turn | None, name: str, wake: Callable[[], None]
    ) -> None:
        self.commits = 0
        self.lock = threading.RLock()  # a database in memory has one connection for all
        self._connection, self._turn, self._name, self._wake = connection, turn, name, wake
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"sqlite {name}", daemon=True)
        self._thread.start()

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction; return its result once its changes are durable.

        What it raises is raised here, and changes nothing.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put(_Item(work, future, loop))
        return await future

    def close(self) -> None:
        """Close after the writes that were begun; blocks until then."""
        self._queue.put(None)
        self._thread.join()
        with self._turn.taking_turn() if self._turn else contextlib.nullcontext():
            self._connection.close()  # the last one of all processes brings the WAL into the file

    # ---- the thread

    def _run(self) -> None:
        ended = False
        while not ended:
            items = self._take_all()
            ended = items[-1] is None
            group = [item for item in items if item is not None]
            if group:
                self._commit(group)
                self._answer(group)

    def _take_all(self) -> list[_Item | None]:
        """All that wait, at least one; None is the end."""
        items = [self._queue.get()]
        while items[-1] is not None and len(items) < GROUP:
            try:
                items.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return items

    def _commit(self, group: list[_Item]) -> None:
        """All works in one transaction: all that succeed, or none."""
        try:
            with self.lock, self._turn.taking_turn() if self._turn else contextlib.nullcontext():
                self._transaction(group)
        except Exception as error:  # noqa: BLE001 - the thread must live on; everybody who waits gets the error
            for item in group:
                item.error = item.error or translate_error(self._name, error)

    def _transaction(self, group: list[_Item]) -> None:
        connection = self._connection
        if self._turn:
            self._turn.check()
        try:
            connection.execute("BEGIN IMMEDIATE")
            for item in group:
                self._try(item)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self.commits += 1
        if self._turn:
            self._turn.notify()

    def _try(self, item: _Item) -> None:
        """A work in a savepoint of its own, so that its failure is its own."""
        connection = self._connection
        connection.execute("SAVEPOINT work")
        try:
            item.result = item.work(connection)
        except Exception as error:  # whatever it is, the one who asked gets it
            if not connection.in_transaction:
                raise  # the disk is full or broken: the whole transaction is gone
            connection.execute("ROLLBACK TO work")
            item.error = translate_error(self._name, error)
        connection.execute("RELEASE work")

    def _answer(self, group: list[_Item]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_Item]] = {}
        for item in group:
            by_loop.setdefault(item.loop, []).append(item)
        for loop, items in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed: no task waits any more
                loop.call_soon_threadsafe(self._resolve, items)

    def _resolve(self, items: list[_Item]) -> None:
        for item in items:
            if item.future.done():
                continue  # who asked was cancelled
            if item.error is not None:
                item.future.set_exception(item.error)
            else:
                item.future.set_result(item.result)
        self._wake()
