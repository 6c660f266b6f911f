"""The sinks: `workflows.state` into the view that queries read, and into the backup.

The view is a consequence of the log. The backup is not: it only ever grows, but for what ForgetEntity removes, and a
log that was lost is rebuilt from it (`restore.py`). Started by the platform's process, or each by `steelyard service
NAME`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import orjson

from steelyard.broker.follow import follow
from steelyard.broker.log import STATE, Log, Record
from steelyard.engines.origin import Origin, OriginUnreadable
from steelyard.services.aggregator.messages import read_state
from steelyard.services.horizon import left_behind
from steelyard.views.view import Change, Position, View
from steelyard_evaluation.storage.store import ObjectMissing, Store
from steelyard_schema.entities import PLURALS

POSITIONS = "positions.json"
ENTITIES = "entities/"
PAUSE_SECONDS = 1.0
"""Time between two looks of the sink of the backup.

Each object is two writes to a disk or requests to a server, and a workflow passes through several states in a second.
"""
_log = logging.getLogger(__name__)


async def run_view_sink(log: Log, view: View, *, stop: asyncio.Event) -> None:
    """Write states to the view until `stop`. A log of another epoch is read from its beginning, then the rest is swept.

    So is the same log, by a view that was away for longer than tombstones are kept.
    """
    ends = await log.ends(STATE)
    positions = await view.positions(log.epoch)
    if positions and await left_behind(log, positions):
        _log.warning("the view was not updated for too long: everything is read again")
        # Tombstones that it missed are gone: only a whole reading, and a sweep, show what was forgotten (rule 8).
        await view.restart(log.epoch)

    async def sweep() -> None:
        # Compaction may leave no record at the end of a partition: by now all there was before it has been read.
        await view.apply([], log.epoch, ends)
        if gone := await view.sweep(log.epoch, ends):
            _log.info("%d entities that the log does not know have left the view", gone)

    await _following(log, ViewOutlet(view), "view-sink", sweep, stop)


async def run_backup_sink(
    log: Log, store: Store, *, stop: asyncio.Event, pause_seconds: float = PAUSE_SECONDS
) -> None:
    """Write the newest JSON of each entity to `entities/<plural>/<id>.json`, until `stop`."""
    outlet = BackupOutlet(store)
    await follow(log, STATE, outlet, consumer="backup-sink", stop=stop, pause_seconds=pause_seconds)


async def _following(
    log: Log,
    outlet: "ViewOutlet",
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
        # Stopped before it had caught up: nothing may be swept that was only not read yet.
        if not ready.is_set():
            after.cancel()


class ViewOutlet:
    """Changes and positions go into the view in one transaction."""

    def __init__(self, view: View) -> None:
        self._view = view

    async def positions(self, epoch: int) -> Mapping[int, int]:
        return await self._view.positions(epoch)

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        changes = [change for record in records if (change := read_change(record)) is not None]
        await self._view.apply(changes, epoch, positions)


def read_change(record: Record) -> Change | None:
    """Return the change of the view that a state record means.

    A tombstone forgets too: the marker before it may have been missed.
    """
    state = read_state(record)
    if state is None:
        return None
    at = state.position
    return Change(record.key, None if state.content is None else record.value, Position(at.epoch, at.offset))


class BackupOutlet:
    """Objects first, positions last: a crash between writes the same objects once more.

    It removes an entity's object where a record says that the entity was forgotten, and for no other reason: an entity
    that the log does not name stays.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._origin: Origin | None = None

    async def origin(self) -> Origin | None:
        """Raises OriginUnreadable where objects are there and nothing names their log."""
        try:
            content = orjson.loads(await self._store.get(POSITIONS))
            positions = {int(partition): int(offset) for partition, offset in content["positions"].items()}
            return Origin(str(content.get("log", "")), int(content["epoch"]), {STATE: positions})
        except ObjectMissing:
            if not await self._holds_entities():
                return None
            fault = "is not there, though entities are"
        except (ValueError, KeyError, TypeError, AttributeError):
            fault = "cannot be read"
        raise OriginUnreadable(f"{POSITIONS}, which says of which log this is the backup, {fault}")

    async def set_origin(self, log: str, epoch: int) -> None:
        known = None
        with contextlib.suppress(
            OriginUnreadable
        ):  # an operator accepts the log: what cannot be read is replaced
            known = await self.origin()
        # Positions of another log, or of an earlier epoch of this one, would skip records that were never read.
        same = known is not None and known.log in ("", log) and known.epoch == epoch
        await self._keep(Origin(log, epoch, known.positions if same and known else {}))

    async def positions(self, epoch: int) -> Mapping[int, int]:
        origin = self._origin = await self.origin()
        return origin.positions[STATE] if origin is not None and origin.epoch == epoch else {}

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        known = self._origin or await self.origin() or Origin("", epoch)
        for record in {record.key: record for record in records}.values():
            await self._write(record)
        before = known.positions.get(STATE, {}) if known.epoch == epoch else {}
        await self._keep(Origin(known.log, epoch, {STATE: {**before, **positions}}))

    async def _holds_entities(self) -> bool:
        async for _ in self._store.list(ENTITIES):
            return True
        return False

    async def _keep(self, origin: Origin) -> None:
        positions = {str(partition): offset for partition, offset in origin.positions.get(STATE, {}).items()}
        content = {"log": origin.log, "epoch": origin.epoch, "positions": positions}
        await self._store.put(POSITIONS, orjson.dumps(content))
        self._origin = origin

    async def _write(self, record: Record) -> None:
        state = read_state(record)
        if state is None:
            return
        if state.content is None or record.value is None:
            await self._store.delete(_place(state.headers["kind"], record.key))
        else:
            await self._store.put(_place(state.content["kind"], record.key), record.value)


def _place(kind: str, id: str) -> str:
    return f"{ENTITIES}{PLURALS[kind]}/{id}.json"
