"""A drill: the backup is restored into a scratch folder, and compared with the view that users read.

`steelyard backup drill` calls it, also while the platform runs: it writes to nothing of the platform's.
"""

import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

import orjson

from steelyard.broker.log import STATE, Log
from steelyard.broker.open import open_log
from steelyard.broker.scan import topic_pieces
from steelyard.engines.addresses import without_password
from steelyard.local.config import not_made_yet
from steelyard.local.restoring import fill_view, read_contents
from steelyard.services.aggregator.messages import FORGOTTEN
from steelyard.services.backup.archive import Archive
from steelyard.services.backup.rebuild import RESTORED_FROM, Rebuilt, rebuild
from steelyard.services.backup.states import Progress, Reading
from steelyard.settings import Settings
from steelyard.views.fields import FILTERS
from steelyard.views.open import open_view
from steelyard.views.view import Position, Query, StoredEntity, View
from steelyard_common.errors import SteelyardError
from steelyard_evaluation.storage.store import open_store

PAGE = 500
SHOWN = 10
"""Faults that are printed one by one."""


@dataclass
class Drill:
    """Result of a drill. `newer`: entities that changed after the backup's last record of their partition."""

    backup: str
    view: str
    seconds: float = 0.0
    rebuilt: Rebuilt = field(default_factory=Rebuilt)
    newest: datetime | None = None
    compared: dict[str, int] = field(default_factory=dict)
    newer: int = 0
    behind: int = 0
    """Entities whose state in the backup is later than in the view, whose sink is on its way."""
    faults: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The result for a person."""
        newest = self.newest.isoformat(timespec="seconds") if self.newest else "no time"
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.compared.items() if count)
        lines = [
            f"restored {self.rebuilt.entities} entities from {self.backup} in {self.seconds:.1f} s; "
            f"the newest change is of {newest}",
            f"compared with {self.view}, byte for byte after sorting their fields: {kinds or 'no entities'}",
            f"{self.newer} changed since, and are not in the backup yet",
            *([f"{self.behind} changed, and are not in the view yet"] if self.behind else []),
            *self.faults[:SHOWN],
        ]
        if len(self.faults) > SHOWN:
            lines.append(f"and {len(self.faults) - SHOWN} more")
        equal = sum(self.compared.values()) - len(self.faults)
        lines.append(f"{'FAILED' if self.faults else 'passed'}: {equal} equal, {len(self.faults)} not")
        return lines


async def run_drill(settings: Settings, progress: Progress = lambda done, all: None) -> Drill:
    """Restore and compare. Raises Damaged, and SteelyardError where there is no archive or no view."""
    drill, reading = Drill(settings.backup, without_password(settings.view)), Reading(progress=progress)
    archive, begun = Archive(open_store(settings.backup)), time.monotonic()
    if not_made_yet(settings.view):
        raise SteelyardError(f"view {settings.view}: is not there: there is nothing to compare with")
    contents = await read_contents(archive, reading)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="steelyard-drill-"))
        log = await open_log(f"sqlite:{folder}/log.db")
        stack.push_async_callback(log.close)
        scratch = await open_view(f"sqlite:{folder}/view.db")
        stack.push_async_callback(scratch.close)
        live = await open_view(settings.view)
        stack.push_async_callback(live.close)
        now = datetime.now(UTC)
        drill.rebuilt = await rebuild(log, archive, contents, reading, contents.epoch + 1, now)
        await log.begin_epoch(contents.epoch + 1)
        await fill_view(log, scratch)
        drill.seconds, drill.newest = time.monotonic() - begun, reading.newest
        await _compare_live(drill, live, scratch, await _places(log))
        await _compare_scratch(drill, live, scratch, settings)
    return drill


async def _places(log: Log) -> dict[str, Position]:
    """The command that each entity had seen last when it was backed up."""
    places = {}
    async for records in topic_pieces(log, STATE):
        for record in records:
            if place := record.headers.get(RESTORED_FROM):
                epoch, _, offset = place.partition(":")
                places[record.key] = Position(int(epoch), int(offset))
    return places


async def _compare_live(drill: Drill, live: View, scratch: View, places: dict[str, Position]) -> None:
    async for stored in _all(live):
        restored = await scratch.find(stored.id)
        if restored is not None and _normal(restored) == _normal(stored):
            drill.compared[stored.kind] = drill.compared.get(stored.kind, 0) + 1
        elif (place := places.get(stored.id)) is None or stored.position > place:
            drill.newer += 1
        elif place > stored.position:
            drill.behind += 1
        else:
            difference = "differs from" if restored is not None else "is missing in"
            drill.faults.append(
                f"{stored.kind} {stored.id}: {difference} the backup, which had read its last change"
            )


async def _compare_scratch(drill: Drill, live: View, scratch: View, settings: Settings) -> None:
    extra = [stored async for stored in _all(scratch) if await live.find(stored.id) is None]
    if not extra:
        return
    log = await open_log(settings.log)
    try:
        for stored in extra:
            latest = await log.latest(STATE, stored.id)
            if latest is not None and (latest.value is None or FORGOTTEN in latest.headers):
                drill.newer += 1
            else:
                drill.faults.append(f"{stored.kind} {stored.id}: is in the backup, and not in the view")
    finally:
        await log.close()


async def _all(view: View) -> AsyncIterator[StoredEntity]:
    """Every entity of a view, in pages."""
    for kind in FILTERS:
        after: tuple[str | None, str] | None = None
        while page := await view.query(Query(kind, order_by="creationTime", limit=PAGE, after=after)):
            for stored in page:
                yield stored
            after = (orjson.loads(page[-1].json)["creationTime"], page[-1].id)


def _normal(stored: StoredEntity) -> bytes:
    return orjson.dumps(orjson.loads(stored.json), option=orjson.OPT_SORT_KEYS)
