"""Every route, listed by inspection, and what each grant makes of it."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

from steelyard.api.http.access import Administrator, Grant, Public, SignedUrl
from steelyard.api.http.routing import Route
from steelyard.api.routes import routes
from steelyard_common.types import Json
from steelyard_schema.account import APIFunction, APIResource
from steelyard_schema.entities import PLURALS
from steelyard_schema.publication import PAGES, PUBLISHED
from steelyard_schema.requests import CREATE_REQUESTS
from tests.platform_api.memory_platform import MemoryPlatform, data_source, dataset, grant, model, service
from tests.platform_api.test_challenges import task
from tests.platform_api.test_collection import MAKE

ROUTES = tuple(routes())
GRANTED = tuple(route for route in ROUTES if isinstance(route.check, Grant))
KINDS = {plural: kind for kind, plural in PLURALS.items()}
TOKEN = {
    "grants": [{"resources": ["models"], "functions": ["get"], "accounts": ["acme"]}],
    "expires": "2031-01-01T00:00:00Z",
}


QUOTA = {"principal": "accounts/acme", "resource": "cpu", "flavor": "Total", "limit": "4"}
BELOW = {
    "/v0/pipelines/{id}/runs": ("pipelineruns", "pipeline"),
    "/v0/challenges/{id}/teams": ("teams", "challenge"),
    "/v0/challenges/{id}/tasks/{task}/submissions": ("submissions", "challenge"),
    "/v0/submissions/{id}/resubmit": ("submissions", "id"),
    "/v0/pipelines/runs/{id}/rerun": ("pipelineruns", "id"),
}
"""Paths at which entities are created below another one: their resource, and their field that has the path's id."""


def is_below(route: Route) -> bool:
    return route.path in BELOW and route.method == "POST"


def runs_again(route: Route) -> bool:
    """Return whether a route makes a new entity of a workflow's request."""
    return route.path.endswith("/rerun") and not is_below(route)


def resource_of(route: Route) -> str:
    """The resource that a path is about."""
    if is_below(route):
        return BELOW[route.path][0]
    return "pipelineruns" if route.path.startswith("/v0/pipelines/runs") else route.path.split("/")[2]


def name(route: Route) -> str:
    return f"{route.method} {route.path}"


def test_every_route_declares_who_may_call_it() -> None:
    assert {name(route) for route in ROUTES if isinstance(route.check, Public)} == {
        "GET /",
        "GET /docs",
        "GET /health",
        "GET /readyz",
        "GET /metrics",
        "GET /v0/docs",
        "GET /v0/openapi.json",
    }
    assert {name(route) for route in ROUTES if isinstance(route.check, SignedUrl)} == {
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
        assert resource_of(route) == route.check.resource, name(route)
        assert route.check.function in get_args(APIFunction)
        assert route.check.function != "*"


WRITES = {"POST", "PUT", "PATCH", "DELETE"}
READS = {"get", "query", "data"}


def test_only_what_shows_an_entity_shows_public_ones_of_others() -> None:
    shown = {name(route) for route in GRANTED if isinstance(route.check, Grant) and route.check.published}
    kinds = {route.path.split("/")[2] for route in GRANTED} & {PLURALS[kind] for kind in PUBLISHED}
    assert len(kinds) == len(PUBLISHED)
    pages = {PLURALS[kind] for kind in PAGES}
    assert shown == {
        *(f"GET /v0/{kind}/{{id}}" for kind in kinds),
        *(f"GET /v0/{kind}/{{id}}/documentation" for kind in kinds),
        *(f"GET /v0/{kind}/{{id}}/downlinks" for kind in pages),
        *(f"GET /v0/safetycases/{{id}}/{part}" for part in ("scores", "curves")),
    }


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

    def __init__(self, platform: MemoryPlatform, account: str) -> None:
        self.platform = platform
        self.account = account
        self.made: dict[str, Json] = {}

    async def prepare(self, route: Route) -> None:
        kind = KINDS.get(resource_of(route))
        if kind == "Quota":
            self.made[kind] = (await self.platform.admin.post("/quotas", json=QUOTA)).json()
        elif kind is not None:
            self.made[kind] = await MAKE[kind](self.platform)
        self.model = await self.platform.created("models", **model())
        self.data = await self.platform.created("datasets", **dataset())
        self.service = await self.platform.created("inferenceservices", **service())

    def id(self, route: Route) -> str:
        kind = KINDS.get(resource_of(route))
        if kind is not None and is_below(route):
            return str(self.made[kind][BELOW[route.path][1]])
        return str(self.made[kind]["id"]) if kind else self.account

    def path(self, route: Route) -> str:
        values = {
            "{id}": self.id(route),
            "{path:path}": "data.parquet",
            "{endpoint:path}": "v1",
            "{jti}": "none",
            "{webhook}": "none",
            "{task}": self.made.get("Submission", {}).get("task", "none"),
            "{team}": "none",
            "{name}": "a-secret",
        }
        path = route.path
        for name, value in values.items():
            path = path.replace(name, value)
        return f"http://api{path}"

    def body(self, route: Route) -> Any:  # noqa: C901, PLR0911, PLR0912 (one for each body)
        match route.method, route.path.split("/")[-1]:
            case "PATCH", "labels":
                return {"labels": {"a": "b"}}
            case "PATCH", "documentation":
                return {"documentation": {"title": "T"}}
            case "PATCH", "members":
                return {"members": {"old": None}}
            case "PATCH", "content":
                return {"content": {"page": {"title": "T"}}}
            case "PATCH", "rules":
                return {"rules": {}}
            case "POST", "runs":
                return {"account": "acme", **self.request("PipelineRun")}
            case "PATCH", "{id}":
                return {"name": "T"}
            case "POST", "resubmit" | "rerun":
                return {"account": "acme"}
            case "POST", "tasks":
                return task(self.made["Challenge"], {"id": "0" * 32})
            case "PUT", "{name}":
                return {"value": "v"}
            case "PUT", "croissant":
                conforms = "http://mlcommons.org/croissant/1.0"
                return {"croissant": {"@type": "Dataset", "conformsTo": conforms, "name": "T"}}
            case "PUT", "permissions":
                return {"permissions": []}
            case "POST", "tokens":
                return TOKEN
            case "POST", "webhooks":
                return {"url": "https://hooks.example.org/"}
            case "POST", "accounts":
                return {"name": f"new-{self.account[:8]}"}
            case "POST", "quotas":
                return QUOTA
            case "POST", resource if resource in KINDS:
                return {"account": "acme", **self.request(KINDS[resource])}
        return None

    def request(self, kind: str) -> Mapping[str, Any]:  # noqa: PLR0911 (one for each kind)
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
            case (
                "Method"
                | "Family"
                | "UseCase"
                | "Pipeline"
                | "PipelineRun"
                | "Challenge"
                | "Team"
                | "Submission"
            ):
                fields = CREATE_REQUESTS[kind].model_fields.keys() - {"account", "securityContext"}
                return {name: made[name] for name in fields if name in made}
            case "DataSource":
                return data_source()
            case "Hazard" | "OCIArtifact":
                return {}
            case "Measurement" | "SafetyCase":
                return {**{name: made[name] for name in ("inputs", "scope")}, "method": made["method"]["id"]}
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


async def ask(client: httpx.AsyncClient, platform: MemoryPlatform, route: Route, subject: Subject) -> int:
    if route.method == "WEBSOCKET":
        return await knock(platform, subject.path(route).removeprefix("http://api"), client)
    body = subject.body(route)
    response = await client.request(route.method, subject.path(route), json=body)
    return response.status_code


async def knock(platform: MemoryPlatform, path: str, client: httpx.AsyncClient) -> int:
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

    task = asyncio.create_task(platform.app(scope, receive, sent.put))
    first = await asyncio.wait_for(sent.get(), 60)
    await task
    return 101 if first["type"] == "websocket.accept" else int(first["status"])


async def own_tokens(platform: MemoryPlatform, route: Route, subject: Subject) -> dict[str, int]:
    """Statuses with which a route answers the token of a session itself, and that of another session."""
    check = route.check
    assert isinstance(check, Grant)
    if check.alternative is None:
        return {}
    answers = {}
    for who, target in (("own token", subject.id(route)), ("another's token", "0" * 32)):
        token = await platform.holder(grant(check.resource, [check.alternative], [], [target]))
        answers[who] = await ask(token, platform, route, subject)
    return answers


MATRIX = dict(
    line.split(": ", 1) for line in (Path(__file__).parent / "route_matrix.txt").read_text().splitlines()
)
"""Statuses with which each route answers tokens of different rights: none, a wrong one, grants for other functions, for
other resources, for another account's entities, the same for those that are public, for `get` alone, for the entity's
id, a session's own token and that of another session, and for its account."""


def test_every_route_has_its_row() -> None:
    # For a new route, the failure of the test below shows its row: check it, and add it to route_matrix.txt.
    assert MATRIX.keys() == {name(route) for route in GRANTED}


@pytest.mark.parametrize("route", GRANTED, ids=name)
async def test_each_route_with_each_grant(platform: MemoryPlatform, route: Route) -> None:
    check = route.check
    assert isinstance(check, Grant)
    own = await platform.engines.accounts_database.accounts.create(
        "acme", _nobody(), platform.engines.clock()
    )
    own_id = own.id or ""
    await platform.engines.accounts_database.accounts.set_permissions(own_id, GRANTING)
    subject = Subject(platform, own_id)
    await subject.prepare(route)
    id = subject.id(route)
    account = {"accounts": own_id, "quotas": "__system__"}.get(check.resource, "acme")
    others = [function for function in get_args(APIFunction) if function not in {*check.functions, "*"}]
    elsewhere: list[APIResource] = [
        resource for resource in get_args(APIResource) if resource not in {check.resource, "*"}
    ]
    use = [grant(resource, ["consume"], ["acme"]) for resource in elsewhere]
    also = [grant(resource, ["create"], ["acme"]) for resource in ("evaluations", "reports", "safetycases")]
    if check.resource == "pipelineruns" and check.function in {"terminate", "delete"}:
        # A run that ends takes its running workflows with it.
        also = [
            grant(kind, ["terminate"], ["acme"]) for kind in ("evaluations", "measurements", "safetycases")
        ]

    answers: dict[str, int] = {}

    async def asked(who: str, client: httpx.AsyncClient) -> int:
        answers[who] = await ask(client, platform, route, subject)
        return answers[who]

    assert await asked("no token", platform.client(None)) == 401
    assert await asked("wrong token", platform.client("not.a.token")) == 401
    lacking = await platform.holder(grant(check.resource, others, ["*"], ["*"]))
    assert await asked("other functions", lacking) == 403
    wrong = await platform.holder(*(grant(resource, ["*"], ["*"], ["*"]) for resource in elsewhere))
    assert await asked("other resources", wrong) == 403
    foreign = await platform.holder(grant(check.resource, [check.function], ["other"]))
    creates = check.function == "create" and ("{id}" not in route.path or is_below(route))
    refusal = {403} if creates else {404}
    seen = await asked("another account's", foreign)
    assert check.function == "query" or seen in refusal
    if "{id}" in route.path:
        labels = f"{subject.path(route).partition(id)[0]}{id}/labels"
        for access in ("public", None):
            edit = await platform.admin.patch(labels, json={"labels": {"dyff.io/access": access}})
            assert edit.status_code == 200, edit.text
            if check.published and access:
                assert await asked("another account's public", foreign) not in {401, 403, 404}
            else:
                assert await ask(foreign, platform, route, subject) == seen
        sees = await platform.holder(
            grant(check.resource, ["get"], [account]), grant(check.resource, [check.function], ["other"])
        )
        if check.function != "get":
            assert await asked("get alone", sees) == 403
        named = await platform.holder(grant(check.resource, [check.function], [], [id]), *GRANTING, *also)
        # A grant for a pipeline's id says nothing of the account to which a new run belongs.
        if runs_again(route):
            assert await asked("its id", named) in {403, 404}
        else:
            assert (await asked("its id", named) in {401, 403}) == is_below(route)
    answers |= await own_tokens(platform, route, subject)
    if runs_again(route):
        # The new entity shows what the earlier one holds.
        also.append(grant(check.resource, ["get"], ["acme"]))
    exact = await platform.holder(grant(check.resource, [check.function], [account]), *use, *also, *GRANTING)
    if route.path.endswith("/signing-keys"):
        exact = await platform.holder(grant("*", ["*"], ["*"], ["*"]))
    if route.path == "/v0/accounts" and route.method == "POST":
        exact = await platform.holder(grant("accounts", ["create"], ["*"]))
    assert await asked("its account", exact) not in {401, 403}
    row = ", ".join(f"{who}={status}" for who, status in answers.items())
    assert row == MATRIX.get(name(route)), f"{name(route)}: {row}"


GRANTING = (grant("models", ["get"], ["acme"]),)
"""Grants for the new token of the accounts' routes: nobody gives more than they have."""


def _nobody() -> Any:
    from steelyard_schema.account import Identity

    return Identity()


async def test_a_query_shows_what_the_grants_reach(platform: MemoryPlatform) -> None:
    one, two = [await platform.created("models", **model(), account=account) for account in ("acme", "other")]
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
        client = await platform.holder(*grants)
        for params in ({}, {"status": "Created"}, {"query": '{"account": ["acme", "other"]}'}):
            listed = await client.get("/models", params=params)
            assert [entity["id"] for entity in listed.json()] == [entity["id"] for entity in seen]
