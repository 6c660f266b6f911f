"""Waiting until a database changes: own commits wake at once, those of other processes by inotify.

The writer touches the lock's file after each commit, and Linux notifies those who watch it, so that an idle process
does not poll. Where inotify is not to be had, and once a second anyway (a process may be killed between its commit and
its touch), the version is read.
"""

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from steelyard_common.errors import EngineError

SURE_SECONDS = 1.0
POLL_SECONDS = 0.02
_IN_ATTRIB = 0x4
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # inotify's own flags have these values


class Changes:
    """Changes of one database. All methods are called on the event loop's thread."""

    def __init__(self, touched: Path | None, version: Callable[[], int]) -> None:
        self._touched, self._version = touched, version
        self._waiters: dict[asyncio.Future[int | None], int] = {}
        """The version that each waiting task knows."""
        self._current: int | None = None
        """The version that was read last; None since a commit was reported after it."""
        self._watch: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def wait(self, since: int, timeout: float) -> int:
        """Return the version, once it is another than `since` or the time has passed."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            if self._touched is not None:
                self._watch = _watch(self._touched)
            if self._watch is not None:
                # One watch for all waiting tasks; inotify's descriptors are few.
                loop.add_reader(self._watch, self._rung, self._watch)
            self._current = None  # of a commit before the watch nothing is reported
        until = loop.time() + timeout
        patience = POLL_SECONDS if self._watch is None and self._touched is not None else SURE_SECONDS
        # Every commit is reported. Where none was since the version was read, it is not read again, which takes longer
        # than most lookups: the report of a commit that came meanwhile wakes the task.
        version = since if self._watch is not None and since == self._current else self._version()
        while version == since and (left := until - loop.time()) > 0:
            waiter: asyncio.Future[int | None] = loop.create_future()
            alarm = loop.call_later(min(left, patience), _wake, waiter, None)
            self._waiters[waiter] = since
            try:
                newest = await waiter
            finally:
                alarm.cancel()
                del self._waiters[waiter]
            version = self._version() if newest is None else newest
        return version

    def note(self, version: int) -> None:
        """Remember a version that was read just now."""
        self._current = version

    def wake(self) -> None:
        """Wake the tasks that do not know the newest version.

        It is read once for all of them. A touch may concern a commit that all of them know: then none is woken.
        """
        self._current = None
        if not self._waiters:
            return
        try:
            version = self._version()
        except EngineError:
            self._wake_all()  # each task reads the version itself, and fails as this did
            return
        for waiter, since in self._waiters.items():
            if since != version:
                _wake(waiter, version)

    def close(self) -> None:
        if self._watch is not None and self._loop is not None:
            self._loop.remove_reader(self._watch)
            os.close(self._watch)
            self._watch = None
        self._wake_all()

    def _wake_all(self) -> None:
        for waiter in self._waiters:
            _wake(waiter, None)

    def _rung(self, watch: int) -> None:
        with contextlib.suppress(BlockingIOError):
            # Emptied, or the descriptor would stay readable and the loop would never rest.
            os.read(watch, 4096)
        self.wake()


def _wake(waiter: "asyncio.Future[int | None]", version: int | None) -> None:
    """End a wait, with the newest version where it is known."""
    if not waiter.done():
        waiter.set_result(version)


def _watch(path: Path) -> int | None:
    """An inotify descriptor that can be read when the file is touched; None where there is none to be had."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "inotify_init1"):
        return None
    watch = int(libc.inotify_init1(_FLAGS))
    if watch < 0:
        return None  # the user's limit is reached
    if libc.inotify_add_watch(watch, os.fsencode(path), _IN_ATTRIB) < 0:
        os.close(watch)
        return None
    return watch
