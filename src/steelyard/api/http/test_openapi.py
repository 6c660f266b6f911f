"""The OpenAPI document is complete in itself, and describes every route once."""

import re
from functools import cache
from typing import Any

import orjson

from steelyard.api.http.documentation import page
from steelyard.api.http.openapi import document
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


def test_the_page_lists_every_route_and_loads_nothing() -> None:
    html = page(routes())
    assert html.count("<tr>") == len(LISTED) + 1
    assert not re.search(r"<script|<link|\bsrc=|https?://", html)
