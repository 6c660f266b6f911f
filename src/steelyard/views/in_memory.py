"""A view in memory, as simple as it can be: what every other form is held to. Tests use it."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from steelyard.engines.origin import Origin
from steelyard.views.fields import Entity, read
from steelyard.views.matching import check, matches, page, row
from steelyard.views.view import STATE, Change, Position, Query, StoredEntity, ViewError


@dataclass
class Entry:
    """The newest known state of an id; an entity without `stored` was forgotten. `resync` named it last."""

    position: Position
    resync: int
    stored: StoredEntity | None
    entity: Entity


class MemoryView:
    """Entities in a dictionary."""

    def __init__(self) -> None:
        self._known: dict[str, Entry] = {}
        self._log = ""
        self._epoch = -1
        self._positions: dict[int, int] = {}
        self._resync = 0
        self._swept = 0
        self._version = 0
        self._news = asyncio.Event()

    async def get(self, kind: str, id: str) -> StoredEntity | None:
        stored = await self.find(id)
        return stored if stored is not None and stored.kind == kind else None

    async def find(self, id: str) -> StoredEntity | None:
        return self._known[id].stored if id in self._known else None

    async def kinds(self, ids: Collection[str]) -> Mapping[str, str]:
        known = [self._known[id].stored for id in ids if id in self._known]
        return {stored.id: stored.kind for stored in known if stored is not None}

    async def query(self, query: Query) -> Sequence[StoredEntity]:
        check(query)
        known = [
            known_entity
            for known_entity in self._known.values()
            if known_entity.stored and matches(known_entity.entity, query)
        ]
        return page(
            [
                row(known_entity.entity, known_entity.stored, query)
                for known_entity in known
                if known_entity.stored
            ],
            query,
        )

    async def positions(self, epoch: int) -> Mapping[int, int]:
        return dict(self._positions) if epoch == self._epoch else {}

    async def apply(self, changes: Sequence[Change], epoch: int, positions: Mapping[int, int]) -> None:
        entities = [read(change) for change in changes]
        self._enter(epoch)
        for change, entity in zip(changes, entities, strict=True):
            self._put(change, entity)
        for partition, position in positions.items():
            self._positions[partition] = max(position, self._positions.get(partition, 0))
        self._notify()

    async def restart(self, epoch: int) -> None:
        self._enter(epoch)
        self._begin(epoch)

    def _enter(self, epoch: int) -> None:
        if epoch < self._epoch:
            raise ViewError(f"epoch {epoch} is over: the view has seen epoch {self._epoch}")
        if epoch > self._epoch:
            self._begin(epoch)

    def _begin(self, epoch: int) -> None:
        self._epoch, self._positions, self._resync = epoch, {}, self._resync + 1

    def _put(self, change: Change, read: tuple[str, Entity] | None) -> None:
        old = self._known.get(change.id)
        # In a resync the log begins again: its first record of an entity counts, however low its position is.
        if old is not None and (old.resync, old.position) >= (self._resync, change.position):
            return
        kind, entity = read or ("", {})
        stored = (
            StoredEntity(kind, change.id, change.json, change.position) if change.json is not None else None
        )
        self._known[change.id] = Entry(change.position, self._resync, stored, entity)

    async def sweep(self, epoch: int, before: Mapping[int, int]) -> int:
        self._enter(epoch)
        if self._swept == self._resync:
            return 0
        reached = await self.positions(epoch)
        # Swept earlier, entities that the resync has not named yet would be taken for gone.
        if behind := [partition for partition, end in before.items() if reached.get(partition, 0) < end]:
            raise ViewError(f"the resync has not come to the end of partitions {behind}")
        gone = [id for id, known in self._known.items() if known.resync < self._resync]
        count = sum(self._known.pop(id).stored is not None for id in gone)
        self._swept = self._resync
        self._notify()
        return count

    async def origin(self) -> Origin | None:
        return Origin(self._log, self._epoch, {STATE: dict(self._positions)}) if self._epoch >= 0 else None

    async def set_origin(self, log: str, epoch: int) -> None:
        if self._epoch >= 0 and (self._log not in ("", log) or epoch != self._epoch):
            self._begin(epoch)
        self._log, self._epoch = log, epoch

    def version(self) -> int:
        return self._version

    async def wait_for_change(self, since: int, timeout: float) -> int:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._version == since:
                    await self._news.wait()
        return self._version

    def _notify(self) -> None:
        self._version += 1
        self._news.set()
        # A new event for each change: one that was set and cleared would be missed by a task that had not run in
        # between.
        self._news = asyncio.Event()

    async def facts(self) -> Sequence[str]:
        return ("in memory",)

    async def close(self) -> None:
        self._known.clear()
