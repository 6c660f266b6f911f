"""The OpenAPI document is complete in itself, and describes every route once."""

import re
from functools import cache
from typing import Any

import orjson
import pytest

from steelyard.api.http.errors import JSON
from steelyard.api.http.openapi import document
from steelyard.api.http.pages import documentation_page
from steelyard.api.routes import routes

LISTED = [route for route in routes() if route.method != "WEBSOCKET"]


@cache
def openapi() -> Any:
    return orjson.loads(document(routes()))


def test_every_route_is_one_operation_with_an_id_of_its_own() -> None:
    operations = [operation for methods in openapi()["paths"].values() for operation in methods.values()]
    assert len(operations) == len(LISTED) == len({operation["operationId"] for operation in operations})
    assert not [path for path in openapi()["paths"] if ":" in path]


def test_every_reference_leads_to_a_component() -> None:
    references = set(re.findall(rb'"\$ref":"#/components/schemas/([^"]+)"', orjson.dumps(openapi())))
    assert references == {name.encode() for name in openapi()["components"]["schemas"]}


def test_a_field_that_may_be_absent_has_no_default_null() -> None:
    assert b'"default":null' not in orjson.dumps(openapi())


@pytest.mark.parametrize(
    ("path", "name", "schema"),
    [
        ("/v0/models", "limit", {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}),
        ("/v0/safetycases/scores", "limit", {"type": "integer", "minimum": 1}),
        (
            "/v0/evaluations/{id}/logs/workflow",
            "limit",
            {"type": "integer", "minimum": 1, "maximum": 100_000},
        ),
        ("/v0/models", "order", {"type": "string", "enum": ["ascending", "descending"]}),
    ],
)
def test_a_parameter_has_the_bounds_that_are_checked(path: str, name: str, schema: object) -> None:
    parameters = openapi()["paths"][path]["get"]["parameters"]
    assert [one["schema"] for one in parameters if one["name"] == name] == [schema]


def test_every_limit_and_every_order_has_more_than_the_type_of_a_text() -> None:
    for route in LISTED:
        for parameter in route.parameters:
            assert parameter.name not in {"limit", "order", "orderBy"} or len(parameter.schema) > 1, (
                route.path
            )


INFER, OBJECTS = "/v0/inferencesessions/{id}/infer/{endpoint}", "/v0/objects/{key}"


@pytest.mark.parametrize(
    ("path", "method", "status", "media"),
    [
        pytest.param(INFER, "post", "422", "*/*", id="a refusal of the replica"),
        pytest.param(INFER, "post", "default", "*/*", id="a status of the replica's own"),
        pytest.param(INFER, "get", "default", "*/*", id="a status of the replica's own, read"),
        pytest.param(OBJECTS, "get", "409", JSON, id="a file that was changed"),
        pytest.param(OBJECTS, "put", "409", JSON, id="a file that was verified already"),
    ],
)
def test_an_answer_that_few_requests_get_is_documented(
    path: str, method: str, status: str, media: str
) -> None:
    assert list(openapi()["paths"][path][method]["responses"][status]["content"]) == [media]


def test_the_document_names_its_server() -> None:
    assert openapi()["servers"][0]["url"] == "/"
    of_a_proxy = orjson.loads(
        document([route for route in LISTED if route.path == "/v0/models"], "https://example.org/weighing")
    )
    assert of_a_proxy["servers"][0]["url"] == "https://example.org/weighing"


def test_the_page_lists_every_route_and_loads_nothing() -> None:
    html = documentation_page(routes())
    assert html.count("<tr>") == len(LISTED) + 1
    assert not re.search(r"<script|<link|\bsrc=|https?://", html)
