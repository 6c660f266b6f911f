"""Reading entities: the view's, and those that were accepted and that the view does not show yet.

Every answer, and every reference in a request, is read through this, so that who has created something finds it.
"""

from collections.abc import Mapping, Sequence

import orjson

from steelyard.accounts.ledger import Outbox, OutboxRow
from steelyard.views.matching import merge, widened
from steelyard.views.view import Position, Query, Stored, View

_BEFORE = Position(0, 0)


class Entities:
    """The view under the rows of the outbox that it lacks.

    A row goes once the view shows its entity. Whoever finds neither looks at the view again: the entity may have moved
    from one to the other between the two looks.
    """

    def __init__(self, view: View, outbox: Outbox) -> None:
        self._view = view
        self._outbox = outbox

    async def get(self, kind: str, id: str) -> bytes | None:
        """The entity's JSON."""
        for _ in range(2):
            if stored := await self._view.get(kind, id):
                return stored.json
            if json := (await self._accepted(kind, id)).get(id):
                return json
        return None

    async def query(self, query: Query) -> Sequence[bytes]:
        """Raises BadQuery."""
        lacking = [
            Stored(query.kind, id, json, _BEFORE)
            for id, json in (await self._accepted(query.kind)).items()
            if await self._view.get(query.kind, id) is None
        ]
        found = await self._view.query(widened(query, lacking))
        return [each.json for each in merge(query, found, lacking)]

    async def find(self, id: str) -> tuple[str, bytes] | None:
        """Kind and JSON of an entity of whatever kind."""
        for _ in range(2):
            if stored := await self._view.find(id):
                return stored.kind, stored.json
            if rows := await self._outbox.pending(entity=id):
                return rows[0].kind, created(rows[0])
        return None

    async def _accepted(self, kind: str, id: str | None = None) -> Mapping[str, bytes]:
        return {row.entity: created(row) for row in await self._outbox.pending(kind, id)}


def created(row: OutboxRow) -> bytes:
    """The entity that the row's command creates, with the revision that it will have."""
    entity = orjson.loads(row.value)["data"]
    entity["metadata"] = {**entity.get("metadata", {}), "revision": row.command}
    return orjson.dumps(entity)
