"""The rows that are still to be called: fresh ones from the dataset, and ones that wait for another try.

Workers take from it; a row that waits holds no worker, so a fault of one row delays no other.
"""

import asyncio
import heapq
from collections import deque
from dataclasses import dataclass
from itertools import count

from steelyard_evaluation.engine.caps import ReachedCap

FRESH_ROWS = 512
"""The feeder pauses while this many rows are ready to be taken."""

OPEN_ROWS = 8192
"""The feeder pauses while this many rows are open: when all of them wait, more would only cost memory."""

EARLY = 0.002
"""Seconds by which an alarm may ring early: uvloop rounds delays to whole milliseconds. A row whose alarm rang
before it was due would be woken for never again.
"""


@dataclass(frozen=True, slots=True)
class Try:
    """A call that brought no answer."""

    time: str
    replica: str
    status: int | None
    message: str


@dataclass(eq=False, slots=True)
class Work:
    """One call to make. `tries` counts transient failures, `malformed` answers that could not be read."""

    position: int
    index: int
    replication: int
    body: bytes
    unsendable: str | None = None
    """Why the row cannot be asked at all."""
    tries: int = 0
    malformed: int = 0
    attempts: int = 0
    """Number of times that the row was sent."""
    failed: "list[Try] | None" = None
    """Failed tries of the row."""
    first_failures: "dict[str, float] | None" = None
    """Times of the event loop at which the row first failed, by the replica's address."""


class Backlog:
    """An unordered queue with delays; `take` answers None once everything is settled."""

    def __init__(self) -> None:
        self._fresh: deque[Work] = deque()
        self._delayed: list[tuple[float, int, Work]] = []
        self._number = count()
        self._open = 0
        self._fed = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self.finished = asyncio.Event()
        self.stopped: ReachedCap | None = None
        """The reason why no more rows are given out, although there are some."""

    @property
    def delays(self) -> int:
        return len(self._delayed)

    async def put(self, batch: list[Work]) -> None:
        """Add fresh rows, when there is room for more."""
        await self._room.wait()
        self._fresh.extend(batch)
        self._open += len(batch)
        self._update_room()
        self._wake(len(batch))

    def close(self) -> None:
        """Note that no more fresh rows will come."""
        self._fed = True
        self._finish_if_empty()

    def stop(self, reason: ReachedCap) -> None:
        """Give out no more rows; those that have been taken may end."""
        if not self.finished.is_set():
            self.stopped = reason
            self.finished.set()
            self._wake(len(self._waiting))

    async def take(self) -> Work | None:
        loop = asyncio.get_running_loop()
        while not self.finished.is_set():
            if self._delayed and self._delayed[0][0] <= loop.time() + EARLY:
                # Rows to be tried again come before fresh ones: else the last rows of a run would be those
                # with all their pauses ahead.
                return heapq.heappop(self._delayed)[2]
            if self._fresh:
                work = self._fresh.popleft()
                self._update_room()
                return work
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiting.append(waiter)
            await waiter
        return None

    def put_back(self, work: Work, delay: float) -> None:
        """Try `work` again in `delay` seconds."""
        loop = asyncio.get_running_loop()
        # The number breaks ties: two rows that are due at the same time would be compared, and `Work` has no
        # order.
        heapq.heappush(self._delayed, (loop.time() + delay, next(self._number), work))
        # A wake-up that finds no worker waiting is not lost: a worker checks the waiting rows before it sleeps.
        loop.call_later(delay, self._wake, 1)

    def note_settled(self) -> None:
        """A row that was taken needs no further call."""
        self._open -= 1
        self._update_room()
        self._finish_if_empty()

    def _update_room(self) -> None:
        if len(self._fresh) < FRESH_ROWS and self._open < OPEN_ROWS:
            self._room.set()
        else:
            self._room.clear()

    def _finish_if_empty(self) -> None:
        if self._fed and self._open == 0:
            self.finished.set()
            self._wake(len(self._waiting))

    def _wake(self, number: int) -> None:
        while number and self._waiting:
            waiter = self._waiting.popleft()
            # A worker that was cancelled left its waiter behind; woken in its place, another one takes the row.
            if not waiter.done():
                waiter.set_result(None)
                number -= 1
