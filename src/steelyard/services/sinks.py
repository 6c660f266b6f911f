"""The sinks: `workflows.state` into the view that queries read, and into the backup.

Both can be built anew from the log. Started by the platform's process, or each by `steelyard service NAME`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import orjson

from steelyard.broker.follow import follow
from steelyard.broker.log import STATE, Log, Record
from steelyard.schema.entities import PLURALS
from steelyard.services.horizon import left_behind
from steelyard.services.judge import state_of
from steelyard.storage.store import ObjectMissing, Store
from steelyard.views.view import Change, Position, View

POSITIONS = "positions.json"
ENTITIES = "entities/"
_log = logging.getLogger(__name__)


async def run_view_sink(log: Log, view: View, *, stop: asyncio.Event) -> None:
    """Until `stop`. A log of another epoch is read from its beginning, and what it does not name is swept out.

    So is the same log, by a view that was away for longer than tombstones are kept.
    """
    ends = await log.ends(STATE)
    positions = await view.positions(log.epoch)
    if positions and await left_behind(log, positions):
        _log.warning("the view was away for too long: everything is read anew")
        await view.restart(log.epoch)

    async def sweep() -> None:
        # Compaction may leave no record at the end of a partition: by now all there was before it has been read.
        await view.apply([], log.epoch, ends)
        if gone := await view.sweep(log.epoch, ends):
            _log.info("%d entities that the log does not know have left the view", gone)

    await _following(log, ViewOutlet(view), "view-sink", sweep, stop)


async def run_backup_sink(log: Log, store: Store, *, stop: asyncio.Event) -> None:
    """Until `stop`: the newest JSON of each entity as `entities/<plural>/<id>.json`."""
    outlet = BackupOutlet(store)
    if await left_behind(log, await outlet.positions(log.epoch)):
        await outlet.restart(log.epoch)
    await _following(log, outlet, "backup-sink", lambda: outlet.sweep(log), stop)


async def _following(
    log: Log,
    outlet: "ViewOutlet | BackupOutlet",
    consumer: str,
    caught_up: Callable[[], Awaitable[None]],
    stop: asyncio.Event,
) -> None:
    ready = asyncio.Event()

    async def then() -> None:
        await ready.wait()
        await caught_up()

    async with asyncio.TaskGroup() as group:
        after = group.create_task(then())
        await follow(log, STATE, outlet, consumer=consumer, stop=stop, caught_up=ready.set)
        if not ready.is_set():
            after.cancel()


class ViewOutlet:
    """Changes and positions go into the view in one transaction."""

    def __init__(self, view: View) -> None:
        self._view = view

    async def positions(self, epoch: int) -> Mapping[int, int]:
        return await self._view.positions(epoch)

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        changes = [change for record in records if (change := change_of(record)) is not None]
        await self._view.apply(changes, epoch, positions)


def change_of(record: Record) -> Change | None:
    """What a state record means for a view. A tombstone forgets too: the marker before it may have been missed."""
    state = state_of(record)
    if state is None:
        return None
    at = state.position
    return Change(record.key, None if state.content is None else record.value, Position(at.epoch, at.offset))


class BackupOutlet:
    """Objects first, positions last: a crash between writes the same objects once more.

    `swept`: what the log does not know has been removed since its epoch began, or since the last restart.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._at: dict[str, int] = {}
        self._swept = False

    async def positions(self, epoch: int) -> Mapping[int, int]:
        try:
            content = orjson.loads(await self._store.get(POSITIONS))
        except ObjectMissing:
            return {}
        if content["epoch"] == epoch:
            self._at, self._swept = content["positions"], content.get("swept", False)
        return {int(partition): offset for partition, offset in self._at.items()}

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        for record in {each.key: each for each in records}.values():
            await self._write(record)
        self._at |= {str(partition): offset for partition, offset in positions.items()}
        await self._keep(epoch)

    async def restart(self, epoch: int) -> None:
        """After a long absence: read everything anew, then sweep."""
        self._at, self._swept = {}, False
        await self._keep(epoch)

    async def sweep(self, log: Log) -> None:
        """Once per epoch and restart: objects of entities that the log does not have go."""
        if self._swept:
            return
        async for found in self._store.list(ENTITIES):
            state = state_of(await log.latest(STATE, found.key.rpartition("/")[2].removesuffix(".json")))
            if state is None or state.content is None:
                await self._store.delete(found.key)
        self._swept = True
        await self._keep(log.epoch)

    async def _keep(self, epoch: int) -> None:
        content = {"epoch": epoch, "positions": self._at, "swept": self._swept}
        await self._store.put(POSITIONS, orjson.dumps(content))

    async def _write(self, record: Record) -> None:
        state = state_of(record)
        if state is None:
            return
        if state.content is None or record.value is None:
            await self._store.delete(_place(state.headers["kind"], record.key))
        else:
            await self._store.put(_place(state.content["kind"], record.key), record.value)


def _place(kind: str, id: str) -> str:
    return f"{ENTITIES}{PLURALS[kind]}/{id}.json"
