"""Every route, listed by inspection, and what each grant makes of it."""

import asyncio
from collections.abc import Mapping
from typing import Any, get_args

import httpx
import pytest

from steelyard.api.http.access import Administrator, Grant, Public, Signed
from steelyard.api.http.routing import Route
from steelyard.api.routes import routes
from steelyard.schema.account import APIFunction, APIResource
from steelyard.schema.entities import PLURALS
from steelyard.types import Json
from tests.platform_api.test_collection import MAKE
from tests.platform_api.world import World, dataset, grant, model, service

ROUTES = tuple(routes())
GRANTED = tuple(route for route in ROUTES if isinstance(route.check, Grant))
KINDS = {plural: kind for kind, plural in PLURALS.items()}
TOKEN = {
    "grants": [{"resources": ["models"], "functions": ["get"], "accounts": ["acme"]}],
    "expires": "2031-01-01T00:00:00Z",
}


def name(route: Route) -> str:
    return f"{route.method} {route.path}"


def test_every_route_declares_who_may_call_it() -> None:
    assert {name(route) for route in ROUTES if isinstance(route.check, Public)} == {
        "GET /",
        "GET /docs",
        "GET /health",
        "GET /metrics",
        "GET /v0/docs",
        "GET /v0/openapi.json",
    }
    assert {name(route) for route in ROUTES if isinstance(route.check, Signed)} == {
        "PUT /v0/objects/{key:path}",
        "GET /v0/objects/{key:path}",
    }
    assert {name(route) for route in ROUTES if isinstance(route.check, Administrator)} == {
        "PUT /v0/backup/{id}/restore",
        "GET /v0/quarantine",
        "GET /v0/quarantine/{id}",
        "PUT /v0/quarantine/{id}/release",
        "PUT /v0/quarantine/{id}/drop",
    }
    for route in GRANTED:
        assert isinstance(route.check, Grant)
        assert route.path.split("/")[2] == route.check.resource, name(route)
        assert route.check.function in get_args(APIFunction)
        assert route.check.function != "*"


WRITES = {"POST", "PUT", "PATCH", "DELETE"}
READS = {"get", "query", "data"}


def test_what_changes_something_takes_more_than_a_reading_grant() -> None:
    own_paths = {"/ready", "/infer/{endpoint:path}"}
    for route in GRANTED:
        assert isinstance(route.check, Grant)
        changes = route.method in WRITES and not any(route.path.endswith(end) for end in own_paths)
        assert changes == (route.check.function not in {*READS, "consume"}) or route.path.endswith(
            ("/token", "/upload/{path:path}", "/infer/{endpoint:path}")
        ), name(route)


class Subject:
    """One entity, or account, of each kind, and how a route about it is asked."""

    def __init__(self, world: World, account: str) -> None:
        self.world = world
        self.account = account
        self.made: dict[str, Json] = {}

    async def prepare(self, route: Route) -> None:
        kind = KINDS.get(route.path.split("/")[2])
        if kind is not None:
            self.made[kind] = await MAKE[kind](self.world)
        self.model = await self.world.created("models", **model())
        self.data = await self.world.created("datasets", **dataset())
        self.service = await self.world.created("inferenceservices", **service())

    def id(self, route: Route) -> str:
        kind = KINDS.get(route.path.split("/")[2])
        return str(self.made[kind]["id"]) if kind else self.account

    def path(self, route: Route) -> str:
        values = {
            "{id}": self.id(route),
            "{path:path}": "data.parquet",
            "{endpoint:path}": "v1",
            "{jti}": "none",
        }
        path = route.path
        for name, value in values.items():
            path = path.replace(name, value)
        return f"http://api{path}"

    def body(self, route: Route) -> Any:
        match route.method, route.path.split("/")[-1]:
            case "PATCH", "labels":
                return {"labels": {"a": "b"}}
            case "PATCH", "documentation":
                return {"documentation": {"title": "T"}}
            case "PUT", "permissions":
                return {"permissions": []}
            case "POST", "tokens":
                return TOKEN
            case "POST", "accounts":
                return {"name": f"new-{self.account[:8]}"}
            case "POST", resource if resource in KINDS:
                return {"account": "acme", **self.request(KINDS[resource])}
        return None

    def request(self, kind: str) -> Mapping[str, Any]:
        made = self.made[kind]
        match kind:
            case "Evaluation":
                session = {"inferenceService": self.service["id"]}
                return {"dataset": self.data["id"], "inferenceSession": session}
            case "Report":
                return {"rubric": "r", "evaluation": made["evaluation"]}
            case "Audit":
                return {name: made[name] for name in ("auditProcedure", "inferenceService")}
            case "AuditProcedure":
                return {name: made[name] for name in ("name", "requirements")}
            case "InferenceSession":
                return {"inferenceService": self.service["id"]}
            case "InferenceService":
                return service(self.model["id"])
        return (
            {**(model() if kind == "Model" else dataset()), "name": "new"}
            if kind != "Module"
            else {
                "name": "new",
                "artifacts": dataset()["artifacts"],
            }
        )


async def ask(client: httpx.AsyncClient, world: World, route: Route, subject: Subject) -> int:
    if route.method == "WEBSOCKET":
        return await knock(world, subject.path(route).removeprefix("http://api"), client)
    body = subject.body(route)
    response = await client.request(route.method, subject.path(route), json=body)
    return response.status_code


async def knock(world: World, path: str, client: httpx.AsyncClient) -> int:
    """Return the status with which a WebSocket is opened: 101, or that of the refusal."""
    token = client.headers.get("authorization")
    sent: asyncio.Queue[Any] = asyncio.Queue()
    scope = {
        "type": "websocket",
        "path": path,
        "headers": [(b"authorization", token.encode())] if token else [],
        "query_string": b"",
        "scheme": "ws",
        "server": ("api", 80),
        "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
    }
    messages = iter([{"type": "websocket.connect"}])

    async def receive() -> Any:
        return next(messages, {"type": "websocket.disconnect", "code": 1001})

    task = asyncio.create_task(world.app(scope, receive, sent.put))
    first = await asyncio.wait_for(sent.get(), 5)
    await task
    return 101 if first["type"] == "websocket.accept" else int(first["status"])


@pytest.mark.parametrize("route", GRANTED, ids=name)
async def test_each_route_with_each_grant(world: World, route: Route) -> None:
    check = route.check
    assert isinstance(check, Grant)
    own = await world.engines.accounts_database.accounts.create("acme", _nobody(), world.engines.clock())
    own_id = own.id or ""
    await world.engines.accounts_database.accounts.set_permissions(own_id, GRANTING)
    subject = Subject(world, own_id)
    await subject.prepare(route)
    id = subject.id(route)
    account = own_id if check.resource == "accounts" else "acme"
    others = [function for function in get_args(APIFunction) if function not in {check.function, "*"}]
    elsewhere: list[APIResource] = [
        resource for resource in get_args(APIResource) if resource not in {check.resource, "*"}
    ]
    use = [grant(resource, ["consume"], ["acme"]) for resource in elsewhere]
    also = [grant("evaluations", ["create"], ["acme"]), grant("reports", ["create"], ["acme"])]

    assert await ask(world.client(None), world, route, subject) == 401
    assert await ask(world.client("not.a.token"), world, route, subject) == 401
    lacking = await world.holder(grant(check.resource, others, ["*"], ["*"]))
    assert await ask(lacking, world, route, subject) == 403
    wrong = await world.holder(*(grant(resource, ["*"], ["*"], ["*"]) for resource in elsewhere))
    assert await ask(wrong, world, route, subject) == 403
    foreign = await world.holder(grant(check.resource, [check.function], ["other"]))
    refusal = {403} if check.function == "create" and "{id}" not in route.path else {404}
    if check.function != "query":
        assert await ask(foreign, world, route, subject) in refusal
    if "{id}" in route.path:
        sees = await world.holder(
            grant(check.resource, ["get"], [account]), grant(check.resource, [check.function], ["other"])
        )
        if check.function != "get":
            assert await ask(sees, world, route, subject) == 403
        named = await world.holder(grant(check.resource, [check.function], [], [id]), *GRANTING)
        assert await ask(named, world, route, subject) not in {401, 403}
    exact = await world.holder(grant(check.resource, [check.function], [account]), *use, *also, *GRANTING)
    if route.path.endswith("/signing-keys"):
        exact = await world.holder(grant("*", ["*"], ["*"], ["*"]))
    if route.path == "/v0/accounts" and route.method == "POST":
        exact = await world.holder(grant("accounts", ["create"], ["*"]))
    assert await ask(exact, world, route, subject) not in {401, 403}


GRANTING = (grant("models", ["get"], ["acme"]),)
"""Grants for the new token of the accounts' routes: nobody gives more than they have."""


def _nobody() -> Any:
    from steelyard.schema.account import Identity

    return Identity()


async def test_a_query_shows_what_the_grants_reach(world: World) -> None:
    one, two = [await world.created("models", **model(), account=account) for account in ("acme", "other")]
    for grants, seen in (
        ([grant("models", ["query"], ["acme"])], [one]),
        ([grant("models", ["query"], ["other"])], [two]),
        ([grant("models", ["query"], [], [two["id"]])], [two]),
        ([grant("models", ["query"], ["acme"], [two["id"]])], [one, two]),
        ([grant("models", ["query"], ["acme"]), grant("models", ["query"], ["other"])], [one, two]),
        ([grant("*", ["*"], ["*"])], [one, two]),
        ([grant("models", ["query"], ["nobody"])], []),
        ([grant("models", ["get"], ["acme"]), grant("models", ["query"], ["nobody"])], []),
    ):
        client = await world.holder(*grants)
        for params in ({}, {"status": "Created"}, {"query": '[{"account": "acme"}, {"account": "other"}]'}):
            listed = await client.get("/models", params=params)
            assert [entity["id"] for entity in listed.json()] == [entity["id"] for entity in seen]
