"""Queries of the API as the view reads them."""

import json

import pytest

from steelyard.views.parse import MOST_CONDITIONS, parse_query
from steelyard.views.view import BadQuery, Query

PARSED = {
    "nothing asks for all": ({}, Query("Evaluation")),
    "an empty value is unset": ({"dataset": "", "query": "", "limit": "", "after": ""}, Query("Evaluation")),
    "filters": ({"modelName": "m,1"}, Query("Evaluation", filters={"modelName": ("m,1",)})),
    "query with an object": (
        {"query": '{"status": ["Ready", "Created"], "model": "m"}'},
        Query("Evaluation", filters={"status": ("Ready", "Created"), "model": ("m",)}),
    ),
    "the objects of query all have to hold": (
        {"query": '[{"id": "a", "status": ["Ready", "Error"]}, {}, {"status": ["Error", "Failed"]}]'},
        Query("Evaluation", filters={"id": ("a",), "status": ("Error",)}),
    ),
    "query narrows the filters beside it": (
        {"status": "Ready", "query": '{"status": "Error"}'},
        Query("Evaluation", filters={"status": ()}),
    ),
    "query with an empty list": ({"query": "[]"}, Query("Evaluation")),
    "null inside query is unset": ({"query": '{"id": null}'}, Query("Evaluation")),
    "labels inside query": (
        {"query": '{"labels": {"a.b/c": "d"}, "labels.e": ["f", "g"]}'},
        Query("Evaluation", filters={"labels.a.b/c": ("d",), "labels.e": ("f", "g")}),
    ),
    "labels inside query as text": (
        {"query": '{"labels": "{\\"a\\": \\"b\\"}"}'},
        Query("Evaluation", filters={"labels.a": ("b",)}),
    ),
    "labels": ({"labels": '{"a": "b"}'}, Query("Evaluation", labels={"a": "b"})),
    "order": (
        {
            "order": "descending",
            "orderBy": "creationTime",
            "limit": "3",
            "after": '["2026-01-01T00:00:00Z", "x"]',
        },
        Query(
            "Evaluation",
            order_by="creationTime",
            order="descending",
            limit=3,
            after=("2026-01-01T00:00:00Z", "x"),
        ),
    ),
    "the cursor of an entity without the field": (
        {"orderBy": "reason", "after": '[null, "x"]'},
        Query("Evaluation", order_by="reason", after=(None, "x")),
    ),
    "order without orderBy is ignored": ({"order": "descending"}, Query("Evaluation")),
}


@pytest.mark.parametrize("case", PARSED)
def test_what_a_query_says(case: str) -> None:
    params, expected = PARSED[case]
    assert parse_query("Evaluation", params) == expected


REFUSED = {
    "query is not JSON": ({"query": "{"}, "query"),
    "query is a text": ({"query": '"a"'}, "query"),
    "query is a list of texts": ({"query": '["a"]'}, "query"),
    "query has too many conditions": ({"query": f"[{'{},' * MOST_CONDITIONS}{{}}]"}, "query"),
    "query has an unknown key": ({"query": '{"colour": "red"}'}, "query"),
    "query orders": ({"query": '{"orderBy": "id"}'}, "query"),
    "query has a number": ({"query": '{"id": 3}'}, "query"),
    "query has an object": ({"query": '{"id": {"$in": ["a"]}}'}, "query"),
    "query has half a character": ({"query": '{"id": "\\ud800"}'}, "query"),
    "labels are no JSON": ({"labels": "a=b"}, "labels"),
    "labels are a list": ({"labels": '["a"]'}, "labels"),
    "a label is null": ({"labels": '{"a": null}'}, "labels"),
    "order is neither": ({"order": "asc", "orderBy": "id"}, "order"),
    "orderBy is unknown": ({"orderBy": "colour"}, "orderBy"),
    "limit is zero": ({"limit": "0"}, "limit"),
    "limit is negative": ({"limit": "-1"}, "limit"),
    "limit is not a number": ({"limit": "ten"}, "limit"),
    "limit is enormous": ({"limit": "9" * 30}, "limit"),
    "after without orderBy": ({"after": '["a", "b"]'}, "after"),
    "after is no pair": ({"after": '["a"]', "orderBy": "id"}, "after"),
    "after is not JSON": ({"after": "a", "orderBy": "id"}, "after"),
    "after is no time": ({"after": '["a", "b"]', "orderBy": "creationTime"}, "after"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_parameter(case: str) -> None:
    params, field = REFUSED[case]
    with pytest.raises(BadQuery) as refusal:
        parse_query("Evaluation", params)
    assert refusal.value.field == field


def test_alternatives_of_inputs_are_counted_before_they_are_made() -> None:
    with pytest.raises(BadQuery, match=r"inputs: 10000 conditions, where at most 100 may be"):
        parse_query("SafetyCase", {"query": json.dumps([{"inputs": "a," * 100}] * 2)})


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(BadQuery, match="'Spoon' is not one of Audit, "):
        parse_query("Spoon", {})
