"""Locks that the kernel gives back when their holder dies, so that no stale one can stand."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from steelyard_common.disk_space import no_room
from steelyard_common.errors import UsageError


class LockHeld(Exception):
    """Another process holds the lock."""


class FileLock:
    """An exclusive flock on a file. The descriptor is not inherited by children, so it dies with its process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def acquire(self) -> None:
        """Take the lock now, or raise LockHeld; UsageError where the folder cannot be written."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if no_room(error):
                raise
            raise UsageError(f"{self.path}: cannot be used as a lock: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise LockHeld(str(self.path)) from error
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self) -> str:
        return os.pread(self._descriptor, 65536, 0).decode(errors="replace")

    def write(self, text: str) -> None:
        """Replace the file's content; only its holder reads it, so this need not be atomic."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.release()


def is_held(path: Path) -> bool:
    """Return whether some process holds the lock at this moment."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # also in a folder that cannot be written
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def hold_lock(path: Path, seconds: float = 5.0) -> Iterator[None]:
    """Hold a lock that others hold for a moment only. Raises UsageError where one holds it for long."""
    until, lock = time.monotonic() + seconds, FileLock(path)
    while True:
        try:
            lock.acquire()
            break
        except LockHeld:
            if time.monotonic() > until:
                raise UsageError(f"{path}: is held by another command; try again") from None
            time.sleep(0.02)
    try:
        yield
    finally:
        lock.release()
