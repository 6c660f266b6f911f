"""Reading entities: the view's, and those that were accepted and that the view does not show yet.

Every answer, and every reference in a request, is read through this, so that who has created something finds it. One
entity that cannot be read is left out of a listing, logged and counted: it must not hide all others.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice

import orjson

from steelyard.accounts.database import Outbox, OutboxRow
from steelyard.views.matching import merge, widened
from steelyard.views.view import Position, Query, Stored, View

_log = logging.getLogger(__name__)
_BEFORE = Position(0, 0)
_TURN = 500
"""So many entities are looked at before others have a turn."""


async def _complete() -> None:
    return None


class Entities:
    """The view under the rows of the outbox that it lacks.

    A row goes once the view shows its entity. Whoever finds neither looks at the view again: the entity may have moved
    from one to the other between the two looks.
    """

    def __init__(
        self,
        view: View,
        outbox: Outbox,
        left_out: Callable[[str], None],
        shown: Callable[[str, bytes], bytes] = lambda id, json: json,
        check: Callable[[], Awaitable[None]] = _complete,
    ) -> None:
        """`shown` is what goes out of an entity's id and JSON; its reason may be a quarantine.

        `check` raises Unavailable, before every read, while the view lacks what it has shown before.
        """
        self._check = check
        self._view = view
        self._outbox = outbox
        self._shown = shown
        self._left_out = left_out

    async def get(self, kind: str, id: str) -> bytes | None:
        """The entity's JSON."""
        await self._check()
        for _ in range(2):
            if stored := await self._view.get(kind, id):
                return self._shown(id, stored.json)
            if json := (await self._accepted(kind, id)).get(id):
                return self._shown(id, json)
        return None

    async def query(self, query: Query) -> Sequence[bytes]:
        """Raises BadQuery."""
        await self._check()
        lacking = [
            Stored(query.kind, id, json, _BEFORE)
            for id, json in (await self._accepted(query.kind)).items()
            if await self._view.get(query.kind, id) is None
        ]
        found = await self._readable(await self._view.query(widened(query, lacking)))
        return [self._shown(stored.id, stored.json) for stored in merge(query, found, lacking)]

    async def find(self, id: str) -> tuple[str, bytes] | None:
        """Kind and JSON of an entity of whatever kind."""
        await self._check()
        for _ in range(2):
            if stored := await self._view.find(id):
                return stored.kind, stored.json
            for row in await self._outbox.pending(entity=id):
                if json := self._created(row):
                    return row.kind, json
        return None

    async def _accepted(self, kind: str, id: str | None = None) -> Mapping[str, bytes]:
        rows = await self._outbox.pending(kind, id)
        return {row.entity: json for row in rows if (json := self._created(row)) is not None}

    def _created(self, row: OutboxRow) -> bytes | None:
        try:
            return created(row)
        except (LookupError, TypeError, ValueError) as error:
            self._leave_out(row.kind, row.entity, error)
            return None

    async def _readable(self, found: Sequence[Stored]) -> list[Stored]:
        readable: list[Stored] = []
        rows = iter(found)
        while batch := list(islice(rows, _TURN)):
            readable += filter(self._is_readable, batch)
            await asyncio.sleep(0)
        return readable

    def _is_readable(self, stored: Stored) -> bool:
        try:
            orjson.loads(stored.json)
        except orjson.JSONDecodeError as error:
            self._leave_out(stored.kind, stored.id, error)
            return False
        return True

    def _leave_out(self, kind: str, id: str, error: Exception) -> None:
        _log.error("%s %s cannot be read, and is left out: %s", kind, id, error)
        self._left_out(kind)


def created(row: OutboxRow) -> bytes:
    """The entity that the row's command creates, with the revision that it will have."""
    entity = orjson.loads(row.value)["data"]
    entity["metadata"] = {**entity.get("metadata", {}), "revision": row.command}
    return orjson.dumps(entity)
