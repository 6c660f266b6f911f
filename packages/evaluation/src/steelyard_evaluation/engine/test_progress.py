"""The file of an evaluation's progress: a write that was cut off changes nothing."""

import asyncio
import contextlib
from datetime import UTC, datetime

import orjson

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.caps import ReachedCap
from steelyard_evaluation.engine.progress import Progress
from steelyard_evaluation.storage.objects import ObjectStore


class SlowStore(ObjectStore):
    """A store whose writes go on in a thread of their own when their caller is cancelled, and wait for `open`."""

    def __init__(self) -> None:
        super().__init__("memory://slow/progress")
        self.open = asyncio.Event()
        self.begun = asyncio.Event()
        self.writes: list[asyncio.Task[None]] = []

    async def put(self, key: str, data: bytes) -> None:
        self.writes.append(asyncio.create_task(self._put_when_open(key, data)))
        self.begun.set()
        await asyncio.shield(self.writes[-1])

    async def _put_when_open(self, key: str, data: bytes) -> None:
        await self.open.wait()
        await super().put(key, data)


async def test_a_write_that_was_cut_off_does_not_replace_the_last_word() -> None:
    store = SlowStore()
    progress = Progress(store, 10, lambda: datetime.now(UTC))
    keeping = asyncio.create_task(progress.keep())
    await store.begun.wait()
    keeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await keeping
    progress.stopped = ReachedCap("cost", "the cap of 1 is reached")
    last = asyncio.create_task(progress.write())
    for _ in range(10):  # every task that can go on does
        await asyncio.sleep(0)
    assert len(store.writes) == 1, "the last write waits for the one before"
    store.open.set()
    await last
    await asyncio.gather(*store.writes)
    content = orjson.loads(await store.get(layout.PROGRESS))
    assert content["stopped"]["message"] == "the cap of 1 is reached"
