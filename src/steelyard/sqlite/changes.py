"""Waiting until a database changes: own commits wake at once, those of other processes by inotify.

The writer touches the lock's file after each commit, and Linux tells whoever watches it, so that an idle process does
not poll. Where inotify is not to be had, and once a second anyway (a process may be killed between its commit and its
touch), the version is looked at.
"""

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable
from pathlib import Path

SURE_SECONDS = 1.0
POLL_SECONDS = 0.02
_IN_ATTRIB = 0x4
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # inotify's own flags have these values


class Changes:
    """Changes of one database. All methods are called on the event loop's thread."""

    def __init__(self, touched: Path | None, version: Callable[[], int]) -> None:
        self._touched, self._version = touched, version
        self._waiters: set[asyncio.Future[None]] = set()
        self._watch: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def wait(self, since: int, timeout: float) -> int:
        """The version, once it is another than `since` or the time has passed."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            if self._touched is not None:
                self._watch = _watch(self._touched)
            if self._watch is not None:
                # One watch for all who wait; inotify's descriptors are few.
                loop.add_reader(self._watch, self._rung, self._watch)
        until = loop.time() + timeout
        patience = POLL_SECONDS if self._watch is None and self._touched is not None else SURE_SECONDS
        # Looked at again after each wake: a touch may concern a commit that was seen already.
        while (version := self._version()) == since and (left := until - loop.time()) > 0:
            waiter = loop.create_future()
            alarm = loop.call_later(min(left, patience), _wake, waiter)
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                alarm.cancel()
                self._waiters.discard(waiter)
        return version

    def wake(self) -> None:
        """Wake those who wait, so that they look again."""
        for waiter in self._waiters:
            _wake(waiter)

    def close(self) -> None:
        if self._watch is not None and self._loop is not None:
            self._loop.remove_reader(self._watch)
            os.close(self._watch)
            self._watch = None
        self.wake()

    def _rung(self, watch: int) -> None:
        with contextlib.suppress(BlockingIOError):
            # Emptied, or the descriptor would stay readable and the loop would never rest.
            os.read(watch, 4096)
        self.wake()


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


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
