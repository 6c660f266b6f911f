"""Checks that a database's files are still those that were opened. Writers ask before each commit.

SQLite goes on writing to a file that was deleted or replaced under it: all of that would be gone at the next start.
Linux alone is meant: a file is known by its device and inode.
"""

import asyncio
import contextlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from steelyard_common.errors import SteelyardError

POLL_SECONDS = 1.0
_SUFFIXES = ("", "-wal", "-shm")
_HEADER = 100  # bytes


class Presence:
    """The files of one database, as they were when it was opened. The last connection's end removes two of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = self._identities()
        self._size = path.stat().st_size

    def fault(self) -> str | None:
        """Fault of a file that was taken away or replaced while in use; None while all are there."""
        identities = self._identities()
        for place, known in self._known.items():
            if place not in identities:
                return f"{place} was taken away while it was in use"
            if identities[place] != known:
                return f"{place} was replaced by another file while it was in use"
        size = self._path.stat().st_size
        # SQLite itself makes it smaller only once its first page says so.
        if size < self._size and size < self._read_size():
            return f"{self._path} was cut from {self._size} to {size} bytes while it was in use"
        self._size = size
        return None

    def _read_size(self) -> int:
        """Bytes that the first page says there are; more than any file has where there is no such page."""
        with self._path.open("rb") as file:
            header = file.read(_HEADER)
        if len(header) < _HEADER:
            return sys.maxsize
        page, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
        return pages * (65536 if page == 1 else page)

    def _identities(self) -> Mapping[Path, tuple[int, int]]:
        identities = {}
        for suffix in _SUFFIXES:
            place = Path(f"{self._path}{suffix}")
            try:
                facts = place.stat()
            except FileNotFoundError:
                continue
            identities[place] = facts.st_dev, facts.st_ino
        return identities


async def watch(databases: Iterable[Path], stop: asyncio.Event, pause: float = POLL_SECONDS) -> None:
    """Watch the databases until `stop`. Raises SteelyardError once one that is in use was taken away,
    replaced or cut off.
    """
    known = [Presence(path) for path in databases]
    while not stop.is_set():
        for presence in known:
            if (fault := presence.fault()) is not None:
                raise SteelyardError(f"{fault}: the process ends, so that nothing is written to what is gone")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stop.wait()
