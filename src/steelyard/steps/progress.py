"""Progress of a step: `.steelyard/progress.json` of its output, written at most every 5 s and at the end.

Read by the API and the command line. It is lost without harm, so storage that refuses it fails nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import orjson

from steelyard_common.awake import pause_lasts
from steelyard_evaluation.storage.store import StorageError, Store
from steelyard_schema.names import PROGRESS

PROGRESS_SECONDS = 5.0


def _now() -> datetime:
    return datetime.now(UTC)


class Progress:
    """Amount done of a total, which may become known later."""

    def __init__(self, store: Store, unit: str, total: int = 0, now: Callable[[], datetime] = _now) -> None:
        self._store, self._unit, self._now = store, unit, now
        self.total = total
        self._written: datetime | None = None

    async def report(self, done: int, message: str, *, last: bool = False) -> None:
        """Record the progress, unless that was done less than 5 s ago and `last` is not set."""
        now = self._now()
        recent = self._written is not None and pause_lasts(self._written, PROGRESS_SECONDS, now)
        if recent and not last:
            return
        self._written = now
        facts = {"total": self.total, "done": done, "unit": self._unit, "message": message}
        content = {"schemaVersion": "0.1", **facts, "updated": now.isoformat()}
        with suppress(StorageError):
            await self._store.put(PROGRESS, orjson.dumps(content))

    @asynccontextmanager
    async def report_regularly(self, measure: Callable[[], tuple[int, str]]) -> AsyncIterator[None]:
        """Report what `measure` returns every 5 s, for as long as the block runs."""
        ended = asyncio.Event()
        keeping = asyncio.create_task(self._keep(measure, ended))
        try:
            yield
        finally:
            ended.set()
            await keeping  # not cut off: a write that comes late would replace the last word

    async def _keep(self, measure: Callable[[], tuple[int, str]], ended: asyncio.Event) -> None:
        while not ended.is_set():
            await self.report(*measure())
            with suppress(TimeoutError):
                async with asyncio.timeout(PROGRESS_SECONDS):  # wait_for may swallow a cancellation
                    await ended.wait()
