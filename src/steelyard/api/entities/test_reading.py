"""Accepted entities can be read at every moment: in the outbox, in the view, and on the way between the two."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import orjson
import pytest

from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.accounts.outbox import Outbox, OutboxRow
from steelyard.api.entities.reading import EntityReader
from steelyard.views.in_memory import MemoryView
from steelyard.views.view import Change, Position, Query, StoredEntity, View

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
async def accounts_database() -> AsyncIterator[AccountsDatabase]:
    opened = await open_accounts_database("memory:")
    await opened.outbox.add(ROW)
    yield opened
    await opened.close()


def nobody(kind: str) -> None:
    raise AssertionError(f"a {kind} was left out")


class Moving:
    """An outbox whose row moves to the view at the moment at which it is read."""

    def __init__(self, outbox: Outbox, view: MemoryView) -> None:
        self._outbox, self._view = outbox, view

    async def pending(self, kind: str | None = None, entity: str | None = None) -> Sequence[OutboxRow]:
        await self._view.apply([Change("d1", orjson.dumps(ENTITY), Position(1, 1))], 1, {0: 2})
        await self._outbox.visible(["c1"])
        return await self._outbox.pending(kind, entity)


async def test_what_the_view_does_not_show_yet_is_read_from_the_outbox(
    accounts_database: AccountsDatabase,
) -> None:
    entities = EntityReader(MemoryView(), accounts_database.outbox, nobody)
    json = await entities.get("Dataset", "d1")
    assert json
    assert orjson.loads(json) == {**ENTITY, "metadata": {"revision": "c1"}}
    assert await entities.find("d1") == ("Dataset", json)
    assert await entities.query(Query("Dataset")) == [json]
    assert await entities.get("Model", "d1") is None
    assert await entities.get("Dataset", "d2") is None
    assert await entities.find("d2") is None


@pytest.mark.parametrize("look", ["get", "find", "query"])
async def test_what_moves_between_the_two_reads_is_found(
    accounts_database: AccountsDatabase, look: str
) -> None:
    view = MemoryView()
    entities = EntityReader(view, cast(Outbox, Moving(accounts_database.outbox, view)), nobody)
    match look:
        case "get":
            assert await entities.get("Dataset", "d1")
        case "find":
            assert await entities.find("d1")
        case _:
            assert await entities.query(Query("Dataset"))


class Reads(MemoryView):
    """A view that counts its reads by what they ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    async def get(self, kind: str, id: str) -> StoredEntity | None:
        self.reads.append("get")
        return await super().get(kind, id)

    async def kinds(self, ids: Collection[str]) -> Mapping[str, str]:
        self.reads.append("kinds")
        return await super().kinds(ids)

    async def query(self, query: Query) -> Sequence[StoredEntity]:
        self.reads.append("query")
        return await super().query(query)


async def test_however_many_are_not_noted_yet_the_view_is_asked_for_them_once(
    accounts_database: AccountsDatabase,
) -> None:
    view = Reads()
    shown = orjson.dumps({**ENTITY, "name": "as the view has it"})
    await view.apply([Change("d1", shown, Position(1, 1))], 1, {0: 2})
    for number in range(2, 6):
        data = {**ENTITY, "id": f"d{number}"}
        value = orjson.dumps({"schemaVersion": "0.1", "command": "CreateEntity", "data": data})
        row = replace(ROW, command=f"c{number}", entity=f"d{number}", request=str(number), value=value)
        await accounts_database.outbox.add(row)
    entities = EntityReader(view, accounts_database.outbox, nobody)
    datasets = [orjson.loads(json) for json in await entities.query(Query("Dataset"))]
    assert sorted(dataset["id"] for dataset in datasets) == ["d1", "d2", "d3", "d4", "d5"]
    assert [dataset.get("name") for dataset in datasets if dataset["id"] == "d1"] == ["as the view has it"]
    assert view.reads == ["kinds", "query"]


UNREADABLE = {
    "what no parser reads": b"{",
    "what is no command": b'{"command":"CreateEntity"}',
    "what cannot be written again": orjson.dumps({"data": ENTITY})[:-2]
    + b',"x":'
    + b"[" * 300
    + b"]" * 300
    + b"}}",
    "a list": b"[]",
}


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
async def test_an_entity_that_cannot_be_read_hides_no_other(
    accounts_database: AccountsDatabase, value: bytes
) -> None:
    await accounts_database.outbox.add(replace(ROW, command="c2", entity="d2", request="other", value=value))
    left: list[str] = []
    entities = EntityReader(MemoryView(), accounts_database.outbox, left.append)
    assert [orjson.loads(json)["id"] for json in await entities.query(Query("Dataset"))] == ["d1"]
    assert left == ["Dataset"]
    assert await entities.get("Dataset", "d2") is None
    assert await entities.find("d2") is None


async def test_a_view_of_which_one_row_is_damaged_shows_the_others(
    accounts_database: AccountsDatabase,
) -> None:
    view, left = MemoryView(), list[str]()
    changes = [
        Change(id, orjson.dumps({**ENTITY, "id": id}), Position(1, n)) for n, id in enumerate(["d3", "d4"], 1)
    ]
    await view.apply(changes, 1, {0: 3})
    entities = EntityReader(cast(View, DamagedView(view, "d3")), accounts_database.outbox, left.append)
    datasets = await entities.query(Query("Dataset", limit=10))
    assert sorted(orjson.loads(json)["id"] for json in datasets) == ["d1", "d4"]
    assert left == ["Dataset"]


class DamagedView:
    """A view whose file is damaged where one entity lies."""

    def __init__(self, view: MemoryView, id: str) -> None:
        self._view, self._id = view, id

    async def query(self, query: Query) -> Sequence[StoredEntity]:
        entities = await self._view.query(query)
        return [
            replace(stored, json=stored.json[:-9]) if stored.id == self._id else stored for stored in entities
        ]

    async def kinds(self, ids: Collection[str]) -> Mapping[str, str]:
        return await self._view.kinds(ids)
