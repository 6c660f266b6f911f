"""Long answers: every entity once, whatever the order, the page's size and what changes meanwhile."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.client.conftest import Ask
from steelyard.client.pages import NESTED, PAGE, Pages, find_value, query_params
from steelyard.client.test_client import FIELDS
from steelyard.testing.platform import FakePlatform
from steelyard_schema.entities import ENTITIES
from steelyard_schema.report import Report


def make(fake: FakePlatform, count: int, **changes: Any) -> list[str]:
    with fake.client() as client:
        return [
            client.datasets.create(**{**FIELDS, "name": f"d{number}", **changes}).id
            for number in range(count)
        ]


def test_all_come_page_by_page_and_oldest_first(ask: Ask, fake: FakePlatform) -> None:
    ids, fake.page = make(fake, 7), 3
    fake.requests.clear()
    assert [dataset.id for dataset in ask(fake, lambda client: client.datasets.query())] == ids
    assert len(fake.requests) == 3


@pytest.mark.parametrize("limit", [0, 1, 3, 4, 7, 9])
def test_a_limit_is_of_all_pages(limit: int, ask: Ask, fake: FakePlatform) -> None:
    ids, fake.page = make(fake, 7), 3
    assert [dataset.id for dataset in ask(fake, lambda client: client.datasets.query(limit=limit))] == ids[
        :limit
    ]


def test_a_negative_limit_is_refused(ask: Ask, fake: FakePlatform) -> None:
    with pytest.raises(ValueError, match="limit: -1"):
        ask(fake, lambda client: client.datasets.query(limit=-1))


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    reasons=st.lists(st.sampled_from([None, "a", "b"]), max_size=9),
    page=st.integers(1, 4),
    order=st.sampled_from(["ascending", "descending"]),
    order_by=st.sampled_from(["reason", "name", "creationTime"]),
)
def test_no_order_and_no_missing_value_hides_an_entity(
    reasons: list[str | None], page: int, order: str, order_by: str
) -> None:
    fake = FakePlatform(page=page)
    for reason in reasons:
        (id,) = make(fake, 1)
        fake._entities[id] |= {"reason": reason} if reason else {}
    with fake.client() as client:
        ids_in_order = [dataset.id for dataset in client.datasets.query(order=order, orderBy=order_by)]
    assert sorted(ids_in_order) == sorted(dataset["id"] for dataset in fake.entities("datasets"))


def test_an_entity_made_meanwhile_shifts_no_page(fake: FakePlatform) -> None:
    ids, fake.page = make(fake, 6), 2
    with fake.client() as client:
        seen_ids = []
        for dataset in client.datasets.query(order="descending", orderBy="creationTime"):
            seen_ids.append(dataset.id)
            make(fake, 1)
    assert seen_ids == ids[::-1]


PARAMS = {
    "a text": ({"name": "a"}, {"name": "a"}),
    "none is left out": ({"name": None, "status": "Ready"}, {"status": "Ready"}),
    "a number": ({"limit": 5}, {"limit": "5"}),
    "labels": ({"labels": {"a": "b"}}, {"labels": '{"a": "b"}'}),
    "labels as JSON": ({"labels": '{"a":"b"}'}, {"labels": '{"a":"b"}'}),
    "a query": ({"query": {"status": ["Ready"]}}, {"query": '{"status": ["Ready"]}'}),
    "one of several": ({"status": ["Ready", "Error"]}, {"query": '{"status": ["Ready", "Error"]}'}),
    "one of a set": ({"status": {"b", "a"}}, {"query": '{"status": ["a", "b"]}'}),
    "several beside a query": (
        {"status": ("a", "b"), "query": {"name": "n"}},
        {"query": '[{"name": "n"}, {"status": ["a", "b"]}]'},
    ),
    "several beside a list": (
        {"status": ["a"], "query": '[{"name": "n"}, {"status": "b"}]'},
        {"query": '[{"name": "n"}, {"status": "b"}, {"status": ["a"]}]'},
    ),
}


@pytest.mark.parametrize(("filters", "expected"), PARAMS.values(), ids=PARAMS)
def test_filters_on_the_wire(filters: dict[str, Any], expected: dict[str, str]) -> None:
    assert query_params(filters) == expected


def test_the_next_page_begins_after_the_last_entity() -> None:
    pages = Pages("/reports", Report, {"account": "acme"})
    call = pages.call()
    assert call is not None
    assert dict(call.params) == {"account": "acme", "orderBy": "creationTime", "limit": str(PAGE)}
    report = Report.parse(
        {"id": "a" * 32, "account": "acme", "creationTime": "2030-01-01T00:00:00.5Z", "status": "Created",
         "rubric": "r", "evaluation": "e", "dataset": "d", "inferenceService": "s"}
    )  # fmt: skip
    pages.take(type(call).read(call, _response([report.dump()] * PAGE)))
    call = pages.call()
    assert call is not None
    assert json.loads(call.params["after"]) == ["2030-01-01T00:00:00.500000Z", "a" * 32]
    assert find_value(report, "report") == "r"
    assert find_value(report, "lastTransitionTime") is None


def _response(content: Any) -> Any:
    import httpx

    return httpx.Response(200, json=content)


def test_nested_orders_are_of_kinds_that_there_are() -> None:
    assert set(NESTED) <= set(ENTITIES)
