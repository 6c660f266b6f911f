"""`progress.json`: how far an evaluation is. Read by the API and the command line; lost without harm."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from steelyard.evaluation import layout
from steelyard.evaluation.pool import Pool
from steelyard.storage.store import Store

LOCAL_SECONDS = 1.0
REMOTE_SECONDS = 5.0
_RATE_SECONDS = 10.0


@dataclass
class Progress:
    """Counters of one attempt; the engine counts, `keep` writes them down."""

    store: Store
    total: int
    now: Callable[[], datetime]
    done: int = 0
    row_errors: int = 0
    retries: int = 0
    pool: Pool | None = None
    _started: datetime = field(init=False)
    _marks: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._started = self.now()

    async def write(self) -> None:
        await self.store.put(layout.PROGRESS, orjson.dumps(self.snapshot()))

    async def keep(self) -> None:
        """Write it now and then, until cancelled: often on a local disk, at most every 5 s elsewhere."""
        period = LOCAL_SECONDS if self.store.url.startswith(("file:", "memory:")) else REMOTE_SECONDS
        while True:
            await self.write()
            await asyncio.sleep(period)

    def snapshot(self) -> dict[str, Any]:
        now = self.now()
        replicas = list(self.pool.replicas) if self.pool else []
        return {
            "schemaVersion": "0.1",
            "total": self.total,
            "done": self.done,
            "rowErrors": self.row_errors,
            "retries": self.retries,
            "inFlight": sum(replica.in_flight for replica in replicas),
            "ratePerSecond": round(self._rate(now.timestamp()), 1),
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
            self._marks.pop(0)
        (then, before), (_, after) = self._marks[0], self._marks[-1]
        return (after - before) / (now - then) if now > then else 0.0
