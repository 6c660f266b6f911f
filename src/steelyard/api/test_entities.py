"""What was accepted is found at every moment: in the outbox, in the view, and on the way from one to the other."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import cast

import orjson
import pytest

from steelyard.accounts.ledger import Outbox, OutboxRow
from steelyard.accounts.open import Ledger, open_ledger
from steelyard.api.entities import Entities
from steelyard.views.memory import MemoryView
from steelyard.views.view import Change, Position, Query

ENTITY = {
    "kind": "Dataset",
    "id": "d1",
    "account": "a",
    "creationTime": "2030-01-01T00:00:00Z",
    "status": "Ready",
}
COMMAND = orjson.dumps({"schemaVersion": "0.1", "command": "CreateEntity", "data": ENTITY})
ROW = OutboxRow(
    "c1",
    "a",
    "Dataset",
    "d1",
    datetime(2030, 1, 1, tzinfo=UTC),
    "d1",
    COMMAND,
    {},
    "request",
    position=(0, 1),
)


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    opened = await open_ledger("memory:")
    await opened.outbox.add(ROW)
    yield opened
    await opened.close()


class Moving:
    """An outbox out of which the row goes to the view at the moment at which it is asked for."""

    def __init__(self, outbox: Outbox, view: MemoryView) -> None:
        self._outbox, self._view = outbox, view

    async def pending(self, kind: str | None = None, entity: str | None = None) -> Sequence[OutboxRow]:
        await self._view.apply([Change("d1", orjson.dumps(ENTITY), Position(1, 1))], 1, {0: 2})
        await self._outbox.visible(["c1"])
        return await self._outbox.pending(kind, entity)


async def test_what_the_view_does_not_show_yet_is_read_from_the_outbox(ledger: Ledger) -> None:
    entities = Entities(MemoryView(), ledger.outbox)
    json = await entities.get("Dataset", "d1")
    assert json
    assert orjson.loads(json) == {**ENTITY, "metadata": {"revision": "c1"}}
    assert await entities.find("d1") == ("Dataset", json)
    assert await entities.query(Query("Dataset")) == [json]
    assert await entities.get("Model", "d1") is None
    assert await entities.get("Dataset", "d2") is None
    assert await entities.find("d2") is None


@pytest.mark.parametrize("look", ["get", "find", "query"])
async def test_what_moves_between_the_two_looks_is_found(ledger: Ledger, look: str) -> None:
    view = MemoryView()
    entities = Entities(view, cast(Outbox, Moving(ledger.outbox, view)))
    match look:
        case "get":
            assert await entities.get("Dataset", "d1")
        case "find":
            assert await entities.find("d1")
        case _:
            assert await entities.query(Query("Dataset"))
