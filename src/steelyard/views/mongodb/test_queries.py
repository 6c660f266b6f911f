"""Tests of the filters: each names a field once at its top, where every planner finds the index for it."""

import pytest

from steelyard.views import fields
from steelyard.views.mongodb.documents import INDEXES
from steelyard.views.mongodb.queries import FIRST_TIME, Filter, searches
from steelyard.views.view import Query
from steelyard_schema.account import Scope

AFTER = "2026-01-31T12:00:00Z", "e5"
FILTERS = {
    "of an account": (
        Query("Evaluation", filters={"account": ("a",)}, order="descending"),
        [
            {
                "keys.creationTime": {"$gte": FIRST_TIME},
                "kind": "Evaluation",
                "fields.account": "a",
            },
            {"keys.creationTime": None, "kind": "Evaluation", "fields.account": "a"},
        ],
    ),
    "a page in the middle": (
        Query("Evaluation", order="descending", after=AFTER),
        [
            {
                "keys.creationTime": {"$lte": 1769860800000000},
                "$or": [{"keys.creationTime": {"$lt": 1769860800000000}}, {"_id": {"$lt": "e5"}}],
                "kind": "Evaluation",
            },
            {"keys.creationTime": None, "kind": "Evaluation"},
        ],
    ),
    "the last page": (
        Query("Evaluation", after=(None, "e5")),
        [{"keys.creationTime": None, "_id": {"$gt": "e5"}, "kind": "Evaluation"}],
    ),
    "some ids in their order": (
        Query("Evaluation", filters={"id": ("e1", "e2")}, order_by="id"),
        [{"_id": {"$gte": ""}, "kind": "Evaluation", "$and": [{"_id": {"$in": ["e1", "e2"]}}]}],
    ),
    "of an account, of what somebody may see": (
        Query("Model", filters={"account": ("a",)}, scope=Scope(frozenset("ab"), frozenset()), order_by="id"),
        [
            {
                "_id": {"$gte": ""},
                "kind": "Model",
                "fields.account": "a",
                "$or": [{"fields.account": {"$in": ["a", "b"]}}, {"_id": {"$in": []}}],
            }
        ],
    ),
}


@pytest.mark.parametrize(("query", "filters"), FILTERS.values(), ids=FILTERS)
def test_a_filter_names_each_field_at_its_top(query: Query, filters: list[Filter]) -> None:
    assert [search.filter for search in searches(query)] == filters


DOCUMENTED = sorted((kind, name) for kind, names in fields.FILTERS.items() for name in names if name != "id")


@pytest.mark.parametrize(("kind", "name"), DOCUMENTED, ids=map(" ".join, DOCUMENTED))
def test_each_documented_filter_has_an_index_that_also_has_the_order(kind: str, name: str) -> None:
    """An index serves a search if it begins with the fields that are equal to something, followed by the order's."""
    (search, _) = searches(Query(kind, filters={name: ("x",)}))
    equal = {field for field, condition in search.filter.items() if isinstance(condition, str)}
    order = [field for field, _ in search.sort]
    keys = [[field for field, _ in index] for _, index in INDEXES]
    assert any(set(key[: len(equal)]) == equal and key[len(equal) :] == order for key in keys), search
