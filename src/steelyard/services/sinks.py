"""The sinks: `workflows.state` into the view that queries read, and into the backup.

Both can be built anew from the log. Started by the platform's process, or each by `steelyard service NAME`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import orjson

from steelyard.broker.consume import follow
from steelyard.broker.log import STATE, Log, Record
from steelyard.services.judge import state_of
from steelyard.storage.store import ObjectMissing, Store
from steelyard.views.view import Change, Position, View

POSITIONS = "positions.json"


async def run_view_sink(log: Log, view: View, *, stop: asyncio.Event) -> None:
    """Until `stop`. A log of another epoch is read from its beginning, and what it does not name is swept out."""
    ends = await log.ends(STATE)
    anew = not await view.positions(log.epoch)

    async def sweep() -> None:
        if anew:
            await view.sweep(log.epoch, ends)

    await _following(log, ViewOutlet(view), sweep, stop)


async def run_backup_sink(log: Log, store: Store, *, stop: asyncio.Event) -> None:
    """Until `stop`: the newest JSON of each entity as `entities/<plural>/<id>.json`."""

    async def nothing() -> None:
        return None

    await _following(log, BackupOutlet(store), nothing, stop)


async def _following(
    log: Log,
    outlet: "ViewOutlet | BackupOutlet",
    caught_up: Callable[[], Awaitable[None]],
    stop: asyncio.Event,
) -> None:
    ready = asyncio.Event()

    async def then() -> None:
        await ready.wait()
        await caught_up()

    async with asyncio.TaskGroup() as group:
        after = group.create_task(then())
        await follow(log, STATE, outlet, stop=stop, caught_up=ready.set)
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
    """What a state record means for a view; a tombstone, whose marker came before it, means nothing."""
    state = state_of(record)
    if state is None:
        return None
    at = state.position
    return Change(record.key, None if state.content is None else record.value, Position(at.epoch, at.offset))


class BackupOutlet:
    """Objects first, positions last: a crash between writes the same objects once more."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._at: dict[str, int] = {}

    async def positions(self, epoch: int) -> Mapping[int, int]:
        try:
            content = orjson.loads(await self._store.get(POSITIONS))
        except ObjectMissing:
            return {}
        self._at = content["positions"] if content["epoch"] == epoch else {}
        return {int(partition): offset for partition, offset in self._at.items()}

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        for record in {each.key: each for each in records}.values():
            await self._write(record)
        self._at |= {str(partition): offset for partition, offset in positions.items()}
        await self._store.put(POSITIONS, orjson.dumps({"epoch": epoch, "positions": self._at}))

    async def _write(self, record: Record) -> None:
        state = state_of(record)
        if state is not None and state.content is not None and record.value is not None:
            await self._store.put(
                f"entities/{state.content['kind'].lower()}s/{record.key}.json", record.value
            )
            return
        async for found in self._store.list("entities/"):
            if found.key.endswith(f"/{record.key}.json"):
                await self._store.delete(found.key)
