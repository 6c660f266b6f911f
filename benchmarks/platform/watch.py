"""Times at which each entity's statuses came into the view, by watching the view's file from another process."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from steelyard.views.sqlite.view import SqliteView
from steelyard.views.view import Position
from steelyard_schema.status import FAILURE, TERMINAL


@dataclass
class Life:
    """One entity: times of `time.perf_counter`, in seconds."""

    kind: str
    begun: float
    answered: float
    visible: float | None = None
    admitted: float | None = None
    ended: float | None = None
    status: str = ""
    _at: Position | None = None
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    def see(self, json: bytes, at: Position, now: float) -> None:
        """A status that was passed over between two looks came at the later one's time."""
        if at == self._at:
            return
        self._at, self.status = at, str(orjson.loads(json)["status"])
        self.visible = self.visible or now
        if self.status not in ("Created", "WaitingForUpload"):
            self.admitted = self.admitted or now
        if self.status in TERMINAL:
            self.ended = now
            self._over.set()

    async def over(self, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            await self._over.wait()
        if self.status in FAILURE:
            raise SystemExit(f"{self.kind} is {self.status}")


class Watch:
    """Looks at all that is not over, at each change of the view."""

    def __init__(self, view: SqliteView) -> None:
        self._view = view
        self._living: dict[str, Life] = {}
        self._some = asyncio.Event()

    def follow(self, id: str, life: Life) -> None:
        self._living[id] = life
        self._some.set()

    async def run(self) -> None:
        while True:
            await self._some.wait()
            version = self._view.version()
            for id, life in list(self._living.items()):
                stored = await self._view.get(life.kind, id)
                if stored is not None:
                    life.see(stored.json, stored.position, time.perf_counter())
                    if life.ended is not None:
                        del self._living[id]
            if not self._living:
                self._some.clear()
                continue
            waiting = asyncio.ensure_future(self._view.wait_for_change(version, 0.5))
            self._some.clear()
            more = asyncio.ensure_future(self._some.wait())
            await asyncio.wait((waiting, more), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            more.cancel()
            self._some.set()


@contextlib.asynccontextmanager
async def watching(database: Path) -> AsyncIterator[Watch]:
    view = await SqliteView.open(database)
    watch = Watch(view)
    running = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await view.close()
