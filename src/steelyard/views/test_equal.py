"""The SQLite form answers as the form in memory does, whatever the entities and whatever the query."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.testing.engines.view import ids, pages
from steelyard.views.in_memory import MemoryView
from steelyard.views.matching import merge, widen
from steelyard.views.sqlite.plan import Bounds
from steelyard.views.sqlite.view import SqliteView
from steelyard.views.view import Change, Position, Query, StoredEntity, View
from steelyard_schema.account import Scope

IDS = [f"{n:032x}" for n in range(12)]
WORDS = st.sampled_from(["a", "b", "", "é", "a,b", "0", "\u0000", "\U0001f600"])
TIMES = st.sampled_from([f"2026-01-01T00:00:0{second}Z" for second in ("0", "0.5", "0.500001", "1")])
LABELS = st.dictionaries(st.sampled_from(["x", "a.b/c"]), WORDS, max_size=2)

ENTITIES = st.fixed_dictionaries(
    {"kind": st.just("InferenceService"), "account": WORDS, "status": WORDS, "creationTime": TIMES, "labels": LABELS},
    optional={
        "reason": WORDS,
        "lastTransitionTime": TIMES,
        "name": WORDS,
        "model": st.fixed_dictionaries({}, optional={"id": WORDS, "name": WORDS}),
    },
)  # fmt: skip

CHANGES = st.lists(
    st.tuples(st.sampled_from(IDS), st.none() | ENTITIES, st.integers(1, 3), st.integers(0, 30)), max_size=30
)

FIELDS = ("account", "status", "reason", "name", "model", "modelName", "labels.x", "labels.a.b/c")
CONDITIONS = st.dictionaries(st.sampled_from(FIELDS), st.lists(WORDS, max_size=4), max_size=3) | (
    st.fixed_dictionaries({"id": st.lists(st.sampled_from(IDS), max_size=4)})
)
SCOPES = st.builds(
    Scope, st.frozensets(WORDS.filter(bool), max_size=3), st.frozensets(st.sampled_from(IDS), max_size=3)
)
ORDERS = ("id", "account", "status", "reason", "name", "modelName", "creationTime", "lastTransitionTime")

QUERIES = st.builds(
    Query,
    kind=st.just("InferenceService"),
    filters=CONDITIONS,
    any_of=st.lists(CONDITIONS, max_size=3),
    labels=st.just({}) | LABELS,
    scope=st.just(Scope(frozenset("*"), frozenset())) | SCOPES,
    order_by=st.none() | st.sampled_from(ORDERS),
    order=st.sampled_from(["ascending", "descending"]),
    limit=st.integers(1, 5),
)


async def fill(view: View, changes: list[tuple[str, dict[str, object] | None, int, int]]) -> None:
    """Epochs and offsets come in any order, as from several sinks."""
    newest = 0
    for id, entity, epoch, offset in changes:
        newest = max(newest, epoch)
        json = None if entity is None else orjson.dumps({**entity, "id": id})
        await view.apply([Change(id, json, Position(epoch, offset))], newest, {0: offset})


def on_both(case: Callable[[MemoryView, SqliteView], Awaitable[None]], bounds: Bounds) -> None:
    async def run() -> None:
        sqlite = await SqliteView.open(":memory:", bounds)
        try:
            await case(MemoryView(), sqlite)
        finally:
            await sqlite.close()

    asyncio.run(run())


@settings(deadline=None)
@given(
    CHANGES,
    st.lists(QUERIES, min_size=1, max_size=8),
    st.builds(Bounds, st.integers(0, 4), st.integers(0, 9)),
)
def test_both_forms_answer_equally(
    changes: list[tuple[str, dict[str, object] | None, int, int]], queries: list[Query], bounds: Bounds
) -> None:
    async def case(memory: MemoryView, sqlite: SqliteView) -> None:
        await fill(memory, changes)
        await fill(sqlite, changes)
        for query in queries:
            assert await sqlite.query(query) == await memory.query(query)
            everything = await ids(memory, replace(query, limit=None))
            assert await ids(sqlite, replace(query, limit=None)) == everything
            assert await pages(sqlite, query) == everything
            assert await pages(memory, query) == everything
        assert await sqlite.sweep(3, {}) == await memory.sweep(3, {})
        assert await sqlite.query(Query("InferenceService")) == await memory.query(Query("InferenceService"))

    on_both(case, bounds)


@settings(deadline=None)
@given(CHANGES, CHANGES, st.lists(QUERIES, min_size=1, max_size=8))
def test_an_overlay_is_as_if_it_were_applied(
    there: list[tuple[str, dict[str, object] | None, int, int]],
    more: list[tuple[str, dict[str, object] | None, int, int]],
    queries: list[Query],
) -> None:
    async def case() -> None:
        view, later = MemoryView(), MemoryView()
        await fill(view, there)
        await fill(later, there)
        overlay = [
            StoredEntity(
                "InferenceService", id, orjson.dumps({**entity, "id": id}), Position(epoch + 3, number)
            )
            for number, (id, entity, epoch, _) in enumerate(more)
            if entity is not None
        ]
        await later.apply([Change(stored.id, stored.json, stored.position) for stored in overlay], 3, {})
        for query in queries:
            results = await view.query(widen(query, overlay))
            assert merge(query, results, overlay) == await later.query(query)

    asyncio.run(case())
