"""Recent changes of one kind, bounded by count and by bytes; every watch reads them at its own pace.

The store appends committed changes; watches keep a cursor, which is a position, so that a slow one costs nothing.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

from steelyard_local_kubernetes.apiserver.item import Item

MAX_EVENTS = 10_000
MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Change:
    """One write: the state before and the state after it; a removal has the last state as `new`."""

    kind: str
    version: int
    old: Item | None
    new: Item
    removed: bool = False


class VersionForgotten(Exception):
    """Error for a version that is forgotten."""


class Ring:
    """The changes of one kind, oldest first."""

    def __init__(self, floor: int, *, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self.floor = floor  # the version up to which changes are forgotten
        self.closed = False
        self._max_events, self._max_bytes = max_events, max_bytes
        self._changes: list[Change] = []
        self._first = 0  # position of the first change kept
        self._bytes = 0
        self._ends: deque[int] = deque()  # positions at the last turns of `age`
        self._wake: asyncio.Future[None] | None = None

    def append(self, change: Change) -> None:
        self._changes.append(change)
        self._bytes += len(change.new.raw)
        if len(self._changes) > self._max_events or self._bytes > self._max_bytes:
            self._forget()
        self.wake()

    def _forget(self) -> None:
        """A quarter of what is allowed, so that the list is not cut at every write."""
        count, size = 0, self._bytes
        keep = self._max_events * 3 // 4
        # The newest change is kept however large it is: a watch that reads in time must not get the error that it is
        # too old.
        while len(self._changes) - count > max(keep, 1) or (
            size > self._max_bytes * 3 // 4 and count < len(self._changes) - 1
        ):
            size -= len(self._changes[count].new.raw)
            count += 1
        self._drop(count)

    def _drop(self, count: int) -> None:
        if count > 0:
            self.floor = self._changes[count - 1].version
            self._bytes -= sum(len(change.new.raw) for change in self._changes[:count])
            del self._changes[:count]
            self._first += count

    def age(self, turns: int) -> int:
        """Forget the changes of so many turns ago, however few, so that a busy hour does not keep its memory.

        Return how many were forgotten.
        """
        self._ends.append(self._first + len(self._changes))
        if len(self._ends) <= turns:
            return 0
        count = max(0, self._ends.popleft() - self._first)
        self._drop(count)
        return count

    def compact(self) -> None:
        """Forget everything."""
        if self._changes:
            self.floor = self._changes[-1].version
            self._first += len(self._changes)
            self._changes.clear()
            self._bytes = 0

    def cursor(self, version: int) -> int:
        """The position after `version`; Compacted where changes since then are forgotten."""
        # A watch that began here would miss changes without knowing it; after this error, its client lists again.
        if version < self.floor:
            raise VersionForgotten
        return self._first + bisect_right(self._changes, version, key=lambda change: change.version)

    def read(self, cursor: int) -> tuple[list[Change], int]:
        """The changes from `cursor` on, and the cursor after them."""
        if cursor < self._first:
            raise VersionForgotten
        return self._changes[cursor - self._first :], self._first + len(self._changes)

    def goes_on(self, cursor: int) -> bool:
        """Return whether there are changes from `cursor` on."""
        return cursor < self._first + len(self._changes)

    def since(self, version: int) -> list[Change]:
        """All changes after `version`; Compacted where some are forgotten."""
        return self.read(self.cursor(version))[0]

    def wake(self) -> None:
        if self._wake and not self._wake.done():
            self._wake.set_result(None)
        # A caller that waits from now on waits for the next change: a future is done only once.
        self._wake = None

    def close(self) -> None:
        self.closed = True
        self.wake()

    async def wait_for_change(self, seconds: float) -> None:
        """Wait for the next change, or so long; not at all once no more will come."""
        if self.closed:
            return
        if self._wake is None:
            self._wake = asyncio.get_running_loop().create_future()
        # Not `wait_for`, which would cancel the one future that all watches of this kind share.
        await asyncio.wait([self._wake], timeout=seconds)
