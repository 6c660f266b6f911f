"""Reads entities: those in the view, and those that were accepted and are not in the view yet.

Every answer, and every reference in a request, is read here, so that clients find what they have created. An entity
that cannot be read is left out of a listing, logged and counted: it must not hide all others.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice

import orjson

from steelyard.accounts.outbox import Outbox, OutboxRow
from steelyard.views.matching import merge, widen
from steelyard.views.view import Position, Query, StoredEntity, View

_log = logging.getLogger(__name__)
_NOT_IN_LOG = Position(0, 0)
_BATCH = 500
"""Entities that are parsed before other tasks get a turn."""


async def _always_complete() -> None:
    return None


class EntityReader:
    """Reads the view, and above it the rows of the outbox whose entities the view lacks.

    A row is removed once the view shows its entity. Between reading the view and reading the outbox, an entity may move
    from the outbox to the view: where neither has it, both are read once more.
    """

    def __init__(
        self,
        view: View,
        outbox: Outbox,
        left_out: Callable[[str], None],
        published: Callable[[str, bytes], bytes] = lambda id, json: json,
        check: Callable[[], Awaitable[None]] = _always_complete,
    ) -> None:
        """Read from a view and an outbox.

        `left_out` is called with the kind of an entity that cannot be read. `published` returns the JSON that goes out
        for an entity's id and JSON. `check` is called before every read, and raises Unavailable while the view lacks
        entities that it showed before.
        """
        self._check = check
        self._view = view
        self._outbox = outbox
        self._published = published
        self._left_out = left_out

    async def get(self, kind: str, id: str) -> bytes | None:
        """Return the entity's JSON, or None."""
        await self._check()
        for _ in range(2):
            if stored := await self._view.get(kind, id):
                return self._published(id, stored.json)
            if json := (await self._read_accepted(kind, id)).get(id):
                return self._published(id, json)
        return None

    async def query(self, query: Query) -> Sequence[bytes]:
        """Return the JSON of the entities that match, in the query's order. Raises BadQuery."""
        await self._check()
        unnoted = await self._read_accepted(query.kind)
        shown = await self._view.kinds(unnoted) if unnoted else {}
        accepted = [
            StoredEntity(query.kind, id, json, _NOT_IN_LOG)
            for id, json in unnoted.items()
            if shown.get(id) != query.kind
        ]
        stored = await self._readable(await self._view.query(widen(query, accepted)))
        return [self._published(entity.id, entity.json) for entity in merge(query, stored, accepted)]

    async def find(self, id: str) -> tuple[str, bytes] | None:
        """Return kind and JSON of an entity of any kind, or None."""
        await self._check()
        for _ in range(2):
            if stored := await self._view.find(id):
                return stored.kind, stored.json
            for row in await self._outbox.pending(entity=id):
                if json := self._make_entity(row):
                    return row.kind, json
        return None

    async def _read_accepted(self, kind: str, id: str | None = None) -> Mapping[str, bytes]:
        rows = await self._outbox.pending(kind, id)
        return {row.entity: json for row in rows if (json := self._make_entity(row)) is not None}

    def _make_entity(self, row: OutboxRow) -> bytes | None:
        try:
            return make_entity(row)
        except (LookupError, TypeError, ValueError) as error:
            self._leave_out(row.kind, row.entity, error)
            return None

    async def _readable(self, entities: Sequence[StoredEntity]) -> list[StoredEntity]:
        readable: list[StoredEntity] = []
        remaining = iter(entities)
        while batch := list(islice(remaining, _BATCH)):
            readable += filter(self._is_readable, batch)
            await asyncio.sleep(0)
        return readable

    def _is_readable(self, stored: StoredEntity) -> bool:
        try:
            orjson.loads(stored.json)
        except orjson.JSONDecodeError as error:
            self._leave_out(stored.kind, stored.id, error)
            return False
        return True

    def _leave_out(self, kind: str, id: str, error: Exception) -> None:
        _log.error("%s %s cannot be read and is left out: %s", kind, id, error)
        self._left_out(kind)


def make_entity(row: OutboxRow) -> bytes:
    """Return the entity that a row's command creates, with the revision that it will have, as JSON."""
    entity = orjson.loads(row.value)["data"]
    entity["metadata"] = {**entity.get("metadata", {}), "revision": row.command}
    return orjson.dumps(entity)
