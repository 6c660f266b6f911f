"""Queries that people ask every day are answered from an index, in its order."""

import sqlite3
from collections.abc import Iterator

import orjson
import pytest

from steelyard.views.fields import FILTERS, OWN, orders, read
from steelyard.views.sqlite import writing
from steelyard.views.sqlite.plan import BOUNDS, Bounds, Search, by_rarity, conjunctions
from steelyard.views.sqlite.reading import leads
from steelyard.views.sqlite.tables import MIGRATIONS, column
from steelyard.views.view import Change, Position, Query
from steelyard_schema.account import Scope

LARGE = Bounds(small=0, many=0)
"""Bounds as if every value were that of a great many entities."""


def evaluation(number: int) -> Change:
    service = {"id": "s", "name": "n", "model": {"id": "m", "name": "n"}}
    entity = {
        "id": f"{number:032x}", "kind": "Evaluation", "account": f"a{number % 3}", "status": "Ready", "dataset": "d",
        "creationTime": "2026-01-31T12:00:00Z", "labels": {"x": "1"}, "inferenceSession": {"inferenceService": service},
    }  # fmt: skip
    return Change(str(entity["id"]), orjson.dumps(entity), Position(1, number))


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:")
    opened.executescript("".join(MIGRATIONS))
    changes = [evaluation(number) for number in range(20)]
    writing.apply(opened, [(change, read(change)) for change in changes], 1, {})
    yield opened
    opened.close()


def plans(connection: sqlite3.Connection, query: Query, bounds: Bounds) -> list[str]:
    """Return SQLite's own description of its searches, one text for each."""
    searches = [
        search
        for conjunction in conjunctions(query)
        for search in leads(connection, query, conjunction, bounds)
    ]
    return ["; ".join(steps(connection, search)) for search in searches]


def steps(connection: sqlite3.Connection, search: Search) -> Iterator[str]:
    for statement in search.statements():
        rows = connection.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.parameters)
        yield from (row[3] for row in rows)


def evaluations(**fields: object) -> Query:
    return Query("Evaluation", limit=100, **fields)  # type: ignore[arg-type]


NEWEST = {"order_by": "creationTime", "order": "descending"}
REFERENCES = ("dataset", "inferenceService", "inferenceServiceName", "model", "modelName")
LED = {
    "all, newest first": (evaluations(**NEWEST), "Evaluation_by_creationTime"),
    "all, changed last first": (
        evaluations(order_by="lastTransitionTime", order="descending"),
        "Evaluation_by_lastTransitionTime",
    ),
    "a page of all": (
        evaluations(**NEWEST, after=("2026-01-31T12:00:00Z", "0")),
        "Evaluation_by_creationTime (creationTime>? AND (creationTime,id)<(?,?))",
    ),
    "all by id": (evaluations(order_by="id", after=("0", "0")), "Evaluation_by_id"),
    "of an account, newest first": (
        evaluations(filters={"account": ["a1"]}, **NEWEST),
        "Evaluation_by_account (account=?",
    ),
    "of what somebody may see": (
        evaluations(scope=Scope(frozenset({"a1"}), frozenset()), **NEWEST),
        "Evaluation_by_account (account=?",
    ),
    "a page of an account's": (
        evaluations(filters={"account": ["a1"]}, **NEWEST, after=("2026-01-31T12:00:00Z", "0")),
        "Evaluation_by_account (account=? AND creationTime>? AND (creationTime,id)<(?,?))",
    ),
    "of a status": (evaluations(filters={"status": ["Ready"]}), "Evaluation_by_status (status=?"),
    "of an account and a status": (
        evaluations(filters={"status": ["Ready"], "account": ["a1"]}, **NEWEST),
        "Evaluation_by_account_status (account=? AND status=?",
    ),
    "of a label": (evaluations(labels={"x": "1"}, **NEWEST), "Evaluation_labels_by_value (key=? AND value=?"),
    **{
        f"of a {name}": (
            evaluations(filters={name: ["d"], "status": ["Ready"]}, **NEWEST),
            f"Evaluation_by_{name} ({name}=?",
        )
        for name in REFERENCES
    },
}


@pytest.mark.parametrize("case", LED)
def test_large_answers_come_in_the_order_of_an_index(connection: sqlite3.Connection, case: str) -> None:
    query, led = LED[case]
    for plan in plans(connection, query, LARGE):
        assert led in plan
        assert "TEMP B-TREE" not in plan


def test_values_of_a_large_filter_are_walked_one_by_one(connection: sqlite3.Connection) -> None:
    query = evaluations(filters={"status": ["Ready", "Failed"], "account": ["a1", "a2"]}, **NEWEST)
    steps = plans(connection, query, LARGE)
    assert len(steps) == 4
    assert all("Evaluation_by_account_status (account=? AND status=?" in line for line in steps)
    assert not any("TEMP B-TREE" in line for line in steps)


def test_ids_are_looked_up(connection: sqlite3.Connection) -> None:
    query = evaluations(filters={"id": ["1", "2"], "status": ["Ready"], "account": ["a1"]})
    assert ["Evaluation_by_id (id=?)" in plan for plan in plans(connection, query, BOUNDS)] == [True]


def test_the_rarest_condition_leads(connection: sqlite3.Connection) -> None:
    filters = {"dataset": ["d"], "account": ["a1"], "status": ["Ready"]}
    (plan,) = plans(connection, evaluations(filters=filters, **NEWEST), Bounds(small=10))
    assert "Evaluation_by_account_status (account=? AND status=?" in plan


@pytest.mark.parametrize("kind", OWN)
def test_every_filter_and_order_has_an_index(connection: sqlite3.Connection, kind: str) -> None:
    for name in FILTERS[kind]:
        assert column(name) == "id" or by_rarity(column(name))
        for plan in plans(connection, Query(kind, filters={name: ["v"]}, limit=9), LARGE):
            assert f"{kind}_by_{column(name)} ({column(name)}=?" in plan
    for name in orders(kind):
        for plan in plans(connection, Query(kind, order_by=name, limit=9), LARGE):
            assert f"INDEX {kind}_by_{column(name)}" in plan
