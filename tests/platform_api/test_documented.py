"""Every route answers as the OpenAPI document says: with a documented status, and content of the documented form."""

from collections.abc import AsyncIterator, Iterable, Mapping
from functools import cache
from itertools import count
from typing import Any

import httpx
import jsonschema_rs
import orjson
import pytest

from steelyard.api.http.access import Grant
from steelyard.api.http.errors import JSON
from steelyard.api.http.openapi import document
from steelyard.api.http.routing import Route
from steelyard.api.routes import routes
from steelyard.api.settings import ApiSettings
from steelyard_common.types import Json
from steelyard_schema.account import Identity
from steelyard_schema.entities import PLURALS
from steelyard_schema.status import WITH_WORKFLOW
from tests.platform_api.memory_platform import MemoryPlatform, grant, make_platform
from tests.platform_api.test_grants import ROUTES, Subject, name

LISTED = tuple(route for route in ROUTES if route.method != "WEBSOCKET")
WITH_BODY = tuple(route for route in LISTED if route.request is not None)
MAY_BE_EMPTY = {
    "POST /v0/inferencesessions/{id}/token",
    "PUT /v0/datasets/{id}/croissant",
    *(f"POST /v0/{PLURALS[kind]}/{{id}}/rerun" for kind in WITH_WORKFLOW),
}
"""Every field of these bodies may be left out."""
LIMIT = 4096
_numbers = count()


@pytest.fixture
async def platform() -> AsyncIterator[MemoryPlatform]:
    settings = ApiSettings(entity_bytes=LIMIT, outcome_seconds=2)
    async with make_platform(settings=settings) as made:
        yield made


@cache
def whole() -> Json:
    """The OpenAPI document, which takes seconds to make."""
    made: Json = orjson.loads(document(routes()))
    return made


def documented(route: Route) -> Mapping[str, Json]:
    path = route.path.replace(":path}", "}")
    responses: Mapping[str, Json] = whole()["paths"][path][route.method.lower()]["responses"]
    return responses


@cache
def validator(schema: bytes) -> Any:
    """Return the validator of an answer's schema, which refers to the components of the document."""
    return jsonschema_rs.validator_for({**orjson.loads(schema), "components": whole()["components"]})


def check(route: Route, responses: Mapping[str, Json], answer: httpx.Response) -> None:
    what = f"{name(route)} answered {answer.status_code} {answer.text[:200]}"
    assert str(answer.status_code) in responses, what
    types = responses[str(answer.status_code)].get("content", {})
    if not types:
        assert not answer.content, what
        return
    given = answer.headers["content-type"].partition(";")[0]
    assert "*/*" in types or given in types, f"{what} as {given}; documented: {list(types)}"
    if given == JSON and JSON in types:
        faults = validator(orjson.dumps(types[JSON]["schema"])).iter_errors(answer.json())
        assert not [f"{fault.instance_path}: {fault.message}" for fault in faults], what
    if answer.status_code >= 400:
        assert {"detail", "reason"} <= answer.json().keys(), what


def address_of(route: Route, subject: Subject) -> str:
    return subject.path(route) if route.path.startswith("/v0/") else f"http://api{route.path}"


def attempts(route: Route, subject: Subject) -> Iterable[dict[str, Any]]:
    """Yield the requests that clients send: right, wrong in every part, and repeated."""
    body, address = subject.body(route), address_of(route, subject)
    if "{id}" in route.path:
        yield {"url": address.replace(subject.id(route), "0" * 32), "json": body}
    yield {"url": address}
    yield {
        "url": address,
        "content": b"a=b",
        "headers": {"Content-Type": "application/x-www-form-urlencoded"},
    }
    json = {"Content-Type": "application/json"}
    for content in (b"{", b"[]", b"{}", b'{"colour": "red"}', b'{"a": "%s"}' % (b"x" * 2 * LIMIT), b"\xff"):
        yield {"url": address, "content": content, "headers": json}
    yield {"url": address, "params": {"limit": "many", "query": "{", "orderBy": "colour", "since": "never"}}
    for headers in ({"Host": "elsewhere.example"}, {"Idempotency-Key": "a b"}, {"If-Match": ""}):
        yield {"url": address, "json": body, "headers": headers}
    yield {"url": address, "json": body}
    yield {"url": address, "json": body}


@pytest.mark.parametrize("first", sorted({"/".join(route.path.split("/")[:3]) for route in LISTED}))
async def test_every_route_answers_as_documented(platform: MemoryPlatform, first: str) -> None:
    accounts = platform.engines.accounts_database.accounts
    for route in (route for route in LISTED if "/".join(route.path.split("/")[:3]) == first):
        owner = await accounts.create(f"owner-{next(_numbers)}", Identity(), platform.engines.clock())
        subject, responses = Subject(platform, owner.id or ""), documented(route)
        if route.path.startswith("/v0/"):
            await subject.prepare(route)
        lacking = await platform.holder(grant("quotas", ["get"], ["acme"]))
        own = platform.client(None) if not isinstance(route.check, Grant) else platform.admin
        for client in (platform.client(None), platform.client("not.a.token"), lacking):
            check(route, responses, await client.request(route.method, address_of(route, subject)))
        statuses = set()
        for attempt in attempts(route, subject):
            answer = await own.request(route.method, **attempt)
            check(route, responses, answer)
            statuses.add(answer.status_code)
        assert 500 not in statuses


@pytest.mark.parametrize("route", WITH_BODY, ids=name)
async def test_a_missing_body_is_an_error_that_names_what_is_missing(
    platform: MemoryPlatform, route: Route
) -> None:
    account = await platform.engines.accounts_database.accounts.create(
        "owner", Identity(), platform.engines.clock()
    )
    subject = Subject(platform, account.id or "")
    await subject.prepare(route)
    assert isinstance(subject.body(route), dict) or name(route) in MAY_BE_EMPTY
    for content in (b"", b"{}", b'{"schemaVersion": "0.1"}'):
        headers = {"Content-Type": "application/json"}
        answer = await platform.admin.request(
            route.method, subject.path(route), content=content, headers=headers
        )
        if name(route) in MAY_BE_EMPTY:
            assert answer.status_code in {200, 409}
            continue
        assert answer.status_code == 422, answer.text
        missing = answer.json()["field"]
        assert missing == "body" or subject.body(route).keys() & set(missing.split(" or ")), answer.text
        assert missing in answer.json()["detail"]
    wrong = {"Content-Type": "text/plain"}
    answer = await platform.admin.request(route.method, subject.path(route), content=b"{}", headers=wrong)
    assert (answer.status_code, answer.json()["field"]) == (415, "Content-Type")
