"""`progress.json`: how far an evaluation is. Read by the API and the command line; lost without harm."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

import orjson

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.backlog import Work
from steelyard_evaluation.engine.caps import Caps, ReachedCap, Usage
from steelyard_evaluation.engine.pool import Pool
from steelyard_evaluation.storage.store import StorageError, Store

LOCAL_SECONDS = 1.0
REMOTE_SECONDS = 5.0
SLOW_SECONDS = 5.0
SLOW_TIMES = 3
"""A call in flight is slow, and named, when it takes longer than both: seconds, and times the median of others."""
MOST_CAUSES = 1000
"""Different causes of row errors that are kept apart; where there are more, the rows differ and not the endpoint."""
_RATE_SECONDS = 10.0
_DURATIONS = 501


class Refusal(NamedTuple):
    """The cause of a row error, as the server stated it."""

    status: int | None
    message: str
    body: str


@dataclass
class Progress:
    """Counters of one attempt; the engine counts, `keep` writes them down."""

    store: Store
    total: int
    now: Callable[[], datetime]
    done: int = 0
    row_errors: int = 0
    refusals: Counter[Refusal] = field(default_factory=Counter)
    """The row errors of this attempt by their cause, as long as there are few causes."""
    unread: Counter[Refusal] = field(default_factory=Counter)
    """Rows of this attempt whose first answer has status 200 and no content: by cause, as long as there are few causes.

    It could not be read, or has null for its text and nothing beside it.
    """
    retries: int = 0
    refused: int = 0
    """Calls that a replica did not admit (429)."""
    tokens: Usage = field(default_factory=Usage)
    """Tokens of all attempts so far."""
    lost: int = 0
    """Calls whose answer did not arrive, in all attempts: a cap counts them as the others."""
    caps: Caps = field(default_factory=Caps)
    stopped: ReachedCap | None = None
    """The cap at which this attempt ended before all rows were done."""
    pool: Pool | None = None
    clock: Callable[[], float] = time.monotonic
    """The event loop's."""
    calls: dict[Work, float] = field(default_factory=dict)
    """Calls in flight and since when, the oldest first."""
    durations: deque[float] = field(default_factory=lambda: deque(maxlen=_DURATIONS))
    """Durations of the latest calls, in seconds."""
    _started: datetime = field(init=False)
    _marks: deque[tuple[float, int]] = field(default_factory=deque)
    _writing: "asyncio.Task[None] | None" = None

    def __post_init__(self) -> None:
        self._started = self.now()

    @property
    def in_flight(self) -> int:
        return self.pool.in_flight if self.pool else 0

    def add_error(self, status: int | None, message: str, body: str | None) -> None:
        """Count a row that has no answer."""
        self.row_errors += 1
        _count(self.refusals, Refusal(status, message, body or ""))

    def add_unread(self, message: str, body: str) -> None:
        """Count a row whose first answer has no content."""
        _count(self.unread, Refusal(200, message, body))

    async def write(self) -> None:
        """Write it once an earlier write has ended.

        A write that is cancelled goes on in its thread: coming late, it would replace the last word of the attempt.
        """
        if self._writing is not None:
            await asyncio.wait([self._writing])
        self._writing = asyncio.create_task(self._put(orjson.dumps(self.snapshot())))
        await asyncio.shield(self._writing)

    async def _put(self, content: bytes) -> None:
        # Progress is for people: a full disk ends the attempt where rows are written, not here.
        with suppress(StorageError):
            await self.store.put(layout.PROGRESS, content)

    async def keep(self) -> None:
        """Write it now and then, until cancelled: often on a local disk, at most every 5 s elsewhere."""
        # Object stores bill each write, and some limit writes of one key to one a second.
        period = LOCAL_SECONDS if self.store.url.startswith(("file:", "memory:")) else REMOTE_SECONDS
        while True:
            await self.write()
            await asyncio.sleep(period)

    def snapshot(self) -> dict[str, Any]:
        now = self.now()
        replicas = list(self.pool.replicas) if self.pool else []
        rate = self._rate(now.timestamp())
        left = self.total - self.done
        return {
            "schemaVersion": "0.1",
            "total": self.total,
            "done": self.done,
            "rowErrors": self.row_errors,
            "retries": self.retries,
            "refused": self.refused,
            "inFlight": self.in_flight,
            "admitted": self.pool.call_limit if self.pool else 0,
            "ratePerSecond": round(rate, 1),
            "secondsLeft": round(left / rate, 1) if rate else 0.0 if left == 0 else None,
            "tokens": {"prompt": self.tokens.prompt, "completion": self.tokens.completion},
            "spend": self.caps.spend(self.tokens),
            "slowest": self._slowest(),
            "stopped": None if self.stopped is None else asdict(self.stopped),
            "replicas": {
                replica.address: {"inFlight": replica.in_flight, "done": replica.done} for replica in replicas
            },
            "started": self._started.isoformat(),
            "updated": now.isoformat(),
        }

    def _rate(self, now: float) -> float:
        """Rows a second over the last ten seconds."""
        self._marks.append((now, self.done))
        while len(self._marks) > 2 and self._marks[1][0] < now - _RATE_SECONDS:
            self._marks.popleft()
        (then, before), (_, after) = self._marks[0], self._marks[-1]
        return (after - before) / (now - then) if now > then else 0.0

    def _slowest(self) -> dict[str, Any] | None:
        """The oldest call in flight, when it takes much longer than others did."""
        oldest = next(iter(self.calls.items()), None)
        if oldest is None:
            return None
        work, sent_at = oldest
        seconds = self.clock() - sent_at
        usual = median(self.durations) if self.durations else 0.0
        if seconds <= max(SLOW_SECONDS, SLOW_TIMES * usual):
            return None
        return {"index": work.index, "seconds": round(seconds, 1)}


def _count(causes: Counter[Refusal], cause: Refusal) -> None:
    if cause in causes or len(causes) < MOST_CAUSES:
        causes[cause] += 1
