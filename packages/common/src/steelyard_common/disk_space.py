"""Room on a disk: how its want is recognised, whatever the error was wrapped in, and how to wait for it to end.

A full disk is not a defect and passes: a process that meets it says so, keeps what it has, and goes on once there is
room.
"""

import asyncio
import errno
import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

NEEDED = 1 << 20
"""Bytes below which a disk counts as full: a commit of SQLite may take some hundred KiB."""
POLL_SECONDS = 1.0
_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})
_SQLITE_SHARED_MEMORY = 4874
"""SQLITE_IOERR_SHMSIZE: the index of a write-ahead log could not grow."""


def no_room(error: BaseException) -> bool:
    """Return whether this error, one that it was raised from, or one of its group, means that a disk is full."""
    return any(_is_full(cause) for cause in _with_causes(error))


def has_room(folder: Path, needed: int = NEEDED) -> bool:
    """Return whether the disk of a folder takes that many bytes more; one that cannot be asked is taken to."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return True
    inodes = disk.f_files == 0 or disk.f_favail > 0  # some file systems do not count them
    return disk.f_bavail * disk.f_frsize >= needed and inodes


async def once_room(
    work: Callable[[], Awaitable[None]], full: Callable[[BaseException], None], pause: float = POLL_SECONDS
) -> None:
    """Do the work, again and again while it fails for want of room; `full` is called with the first such error.

    Who is cancelled ends, also where the error takes the place of the cancellation: it may be raised on the way out.
    """
    said = False
    while True:
        try:
            return await run_apart(work)
        except Exception as error:
            if not no_room(error) or is_cancelled():
                raise
            if not said:
                full(error)
            said = True
        await asyncio.sleep(pause)


async def run_apart(work: Callable[[], Awaitable[None]]) -> None:
    """Do the work in a task of its own, which is cancelled with this one.

    Python 3.11 leaves a task in which a task group has failed marked as cancelled, so that `is_cancelled` could not
    distinguish it from one that was asked to end.
    """
    await asyncio.ensure_future(work())


def is_cancelled() -> bool:
    """Return whether the current task was asked to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_full(error: BaseException) -> bool:
    match error:
        case OSError():
            return error.errno in _ERRORS
        case sqlite3.Error():
            return getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, _SQLITE_SHARED_MEMORY)
        case _:
            return False


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes and the members of groups.

    One full disk in a group is enough: a service that fails cancels the others of its group, or makes them fail too.
    """
    current: BaseException | None = error
    while current is not None:
        yield current
        if isinstance(current, BaseExceptionGroup):
            for member in current.exceptions:
                yield from _with_causes(member)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
