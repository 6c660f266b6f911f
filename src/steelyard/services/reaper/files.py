"""Files of forgotten entities: they leave the store a week after the entity was forgotten. The reaper calls it.

The marker of a forgotten entity says since when, and stays until its files are gone: so a process that dies anywhere
leaves the rest to the next pass, and nothing else is written down. Only the entity's own folders are emptied. They stay
as long as another entity that can still be read, or restored from being Deleted, names the id: a report keeps the
evaluation that its evidence is of.

Until then an entity may be restored from the backup, with its files. The aggregator rejects later restores by the time
of the command, so that none is under way once `GRACE` has passed, too.
"""

import logging
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry, Counter

from steelyard.broker.log import AGGREGATOR, EVENTS, STATE, Log, Record
from steelyard.broker.quarantine.dead_letters import describe_error
from steelyard.broker.quarantine.marks import Aside
from steelyard.broker.scan import topic_pieces
from steelyard.services.aggregator.messages import FORGOTTEN
from steelyard_common.errors import is_engine_failure
from steelyard_evaluation.storage.store import Store
from steelyard_schema.names import place
from steelyard_schema.retention import files_until

GRACE = timedelta(hours=1)
"""Time after which a restore that was accepted in time has been applied, or the pass is left out."""
MOST_ENTITIES, MOST_OBJECTS = 500, 10_000
"""Bounds of one pass; what is left is the next one's."""
_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_log = logging.getLogger(__name__)


class FileMetrics:
    """Counts removed objects."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.objects = Counter(
            "steelyard_forgotten_objects_removed",
            "Objects of forgotten entities that were removed from the storage.",
            registry=registry,
        )
        self.entities = Counter(
            "steelyard_forgotten_entities_emptied",
            "Forgotten entities whose files were found to be gone.",
            registry=registry,
        )


@dataclass(frozen=True)
class Marker:
    """A forgotten entity."""

    id: str
    kind: str
    forgotten: datetime

    def is_due(self, now: datetime) -> bool:
        """Return whether the files go now, if no other entity names this one."""
        return now >= files_until(self.forgotten) + GRACE


def read_marker(record: Record) -> Marker | None:
    """Return the marker that a state record is; None for an entity that lives, and for a tombstone."""
    if record.value is None or (since := record.headers.get(FORGOTTEN)) is None:
        return None
    return Marker(record.key, record.headers.get("kind", ""), datetime.fromisoformat(since))


def list_folders(marker: Marker) -> list[str]:
    """Return the prefixes below which there are files of this entity alone; none for an id without an entity."""
    if not re.fullmatch("[0-9a-f]{32}", marker.id) or not marker.kind.isalpha():
        return []
    # What a model was uploaded as is kept beside what its workflow made of it.
    uploads = [f"uploads/{marker.id}/"] if marker.kind == "Model" else []
    return [f"{place(marker.kind, marker.id)}/", *uploads]


@dataclass
class ForgottenFiles:
    """The files of forgotten entities, in one process of the reaper."""

    log: Log
    store: Store
    metrics: FileMetrics = field(default_factory=lambda: FileMetrics(CollectorRegistry()))
    gone: set[str] = field(default_factory=set)
    """Forgotten entities that this process has found to have no files."""
    _due: dict[str, Marker] = field(default_factory=dict)
    _left: set[str] = field(default_factory=set)
    """Entities that were examined and left, until the others have had their turn."""

    def note(self, records: Iterable[Record], now: datetime) -> None:
        """Note due removals among state records that the reaper reads in any case."""
        for record in records:
            marker = read_marker(record)
            if marker is None or record.key in self.gone or record.key in self._left:
                continue
            if marker.is_due(now) and len(self._due) < MOST_ENTITIES:
                self._due[record.key] = marker

    async def remove(self, now: datetime, aside: Aside) -> int:
        """Remove the files of noted entities; return the number of objects. Raises StorageError.

        An entity whose files cannot be removed is put aside, and the others go on.
        """
        due, self._due = self._due, {}
        if not due or await self._is_behind(now):
            return 0
        kept, count = await find_namers(self.log, due.keys()), 0
        for marker in due.values():
            if marker.id in kept:
                self._left.add(marker.id)
                continue
            if count >= MOST_OBJECTS:
                break
            try:
                count += await self._empty(marker, MOST_OBJECTS - count)
            except Exception as error:
                if is_engine_failure(error):
                    raise
                await aside.put(marker.id, describe_error(error))
                self._left.add(marker.id)
            else:
                await aside.clear(marker.id)
        if len(due) < MOST_ENTITIES:
            self._left.clear()
        return count

    async def _empty(self, marker: Marker, most: int) -> int:
        """Remove at most so many files of one entity, unless it was restored or buried meanwhile."""
        latest = await self.log.latest(STATE, marker.id)
        if latest is None or read_marker(latest) != marker:
            return 0
        count = 0
        for folder in list_folders(marker):
            async for info in self.store.list(folder):
                if count >= most:
                    return count
                await self.store.delete(info.key)
                self.metrics.objects.inc()
                count += 1
        self.gone.add(marker.id)
        self.metrics.entities.inc()
        if count:
            _log.info(
                "%s %s was forgotten %s: its files are removed", marker.kind, marker.id, marker.forgotten
            )
        return count

    async def _is_behind(self, now: datetime) -> bool:
        """Return whether a command of before the grace waits, which may restore a due entity."""
        done = await self.log.positions(AGGREGATOR, EVENTS)
        starts = {partition: done.get(partition, 0) for partition in await self.log.ends(EVENTS)}
        waiting = await self.log.read_each(EVENTS, starts, 1)
        return any(now - record.written >= GRACE for records in waiting.values() for record in records)


async def find_namers(log: Log, due: Collection[str]) -> dict[str, str]:
    """Return those of the ids that an entity names which is not forgotten itself, with one such entity."""
    users: dict[str, str] = {}
    async for records in topic_pieces(log, STATE):
        for record in records:
            if record.value is None or FORGOTTEN in record.headers:
                continue
            for match in set(_ID.findall(record.value)):
                id = match.decode()
                if id in due and id != record.key:
                    users[id] = record.key
    return users
