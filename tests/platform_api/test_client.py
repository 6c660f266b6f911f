"""Our client against the API itself: what one promises the other keeps."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.api.http import errors as api_errors
from steelyard.api.settings import ApiSettings
from steelyard.client import (
    AsyncClient,
    Client,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Retries,
    Unauthenticated,
)
from steelyard.client.errors import error_for
from steelyard.client.pages import NESTED
from steelyard.client.retries import RETRIED
from steelyard.views.fields import ORDERS
from steelyard_common.types import Json
from steelyard_schema.names import place
from tests.platform_api.memory_platform import MemoryPlatform, make_platform, model, service
from tests.platform_api.test_analyses import score
from tests.platform_api.test_collection import an_analysis

T = TypeVar("T")
ENDPOINT = "http://api/v0"


class Bridge(httpx.BaseTransport):
    """Passes requests from a thread to the app on the event loop; loses the answers of requests that `lose` names."""

    def __init__(self, platform: MemoryPlatform) -> None:
        self._loop, self._inner = asyncio.get_running_loop(), httpx.ASGITransport(platform.app)
        self.lose: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return asyncio.run_coroutine_threadsafe(self._answer(request), self._loop).result(20)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        content = request.read()
        received = httpx.Request(request.method, request.url, headers=request.headers, content=content)
        response = await self._inner.handle_async_request(received)
        await response.aread()
        if request.method in self.lose:
            self.lose.remove(request.method)
            raise httpx.ReadError("connection reset")
        return httpx.Response(response.status_code, headers=response.headers, stream=_Once(response.content))


class _Once(httpx.SyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Any:
        yield self._content


class ThreadedClient:
    """The sync client, on a thread."""

    def __init__(self, platform: MemoryPlatform) -> None:
        token = platform.admin.headers["authorization"].removeprefix("Bearer ")
        self.platform, self.bridge = platform, Bridge(platform)
        self.client = self.of(token)

    def of(self, token: str) -> Client:
        return Client(ENDPOINT, token, retries=Retries(first=0), http=httpx.Client(transport=self.bridge))

    async def __call__(self, do: Callable[[Client], T]) -> T:
        return await asyncio.to_thread(do, self.client)


@pytest.fixture
async def ask() -> AsyncIterator[ThreadedClient]:
    async with make_platform(settings=ApiSettings(query_limit=3)) as platform:
        made = ThreadedClient(platform)
        yield made
        made.client.close()


def rows(path: Path) -> Path:
    pq.write_table(pa.table({"_index_": [0, 1, 2], "x": [1.0, 2.0, 3.0]}), path)
    return path


async def test_a_dataset_from_a_file_to_a_file(ask: ThreadedClient, tmp_path: Path) -> None:
    path = rows(tmp_path / "rows.parquet")
    made = await ask(
        lambda client: client.datasets.create_from_parquet(path, account="acme", name="rows", wait=True)
    )
    assert made.status == "Ready"
    (got,) = await ask(lambda client: client.datasets.download(made.id, tmp_path / "down"))
    assert got.read_bytes() == path.read_bytes()
    with pytest.raises(Conflict, match="takes no more files"):
        await ask(lambda client: client.datasets.upload(made.id, tmp_path))


async def test_an_upload_whose_answers_were_lost_makes_one_model(ask: ThreadedClient, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"one")
    fields: dict[str, Any] = {"account": "acme", "name": "m", "idempotency_key": "mine"}
    ask.bridge.lose = ["POST", "PUT", "POST"]
    made = await ask(lambda client: client.models.create_from_folder(tmp_path, **fields))
    again = await ask(lambda client: client.models.create_from_folder(tmp_path, **fields))
    assert made.id == again.id
    assert again.status == "Created"
    assert [model.id for model in await ask(lambda client: list(client.models.query()))] == [made.id]


async def test_everything_is_said_of_an_entity(ask: ThreadedClient) -> None:
    made = await ask(lambda client: client.models.create(account="acme", **model()))
    await ask(lambda client: client.models.label(made.id, {"tier": "gold"}))
    said = await ask(lambda client: client.models.edit_documentation(made.id, title="T"))
    assert said.title == "T"
    stored = await ask(lambda client: client.models.get(made.id))
    assert (stored.labels, stored.metadata.documentation.title) == ({"tier": "gold"}, "T")
    assert (await ask(lambda client: client.models.terminate(made.id))).status == "Terminated"
    assert (await ask(lambda client: client.models.delete(made.id))).status == "Deleted"
    with pytest.raises(Invalid, match="surprise") as caught:
        await ask(lambda client: client.models.create(account="acme", surprise=1, **model()))
    assert caught.value.field == "surprise"
    with pytest.raises(NotFound):
        await ask(lambda client: client.reports.get(made.id))


async def test_an_edit_whose_answer_was_lost_undoes_no_later_one(ask: ThreadedClient) -> None:
    made = await ask(lambda client: client.models.create(account="acme", **model()))
    first = {"headers": {"Idempotency-Key": "k"}, "json": {"labels": {"tier": "mine"}}}
    path = f"/models/{made.id}/labels"
    await ask.platform.admin.patch(path, **first)  # type: ignore[arg-type]
    await ask(lambda client: client.models.label(made.id, {"tier": "theirs"}))
    await ask.platform.admin.patch(path, **first)  # type: ignore[arg-type]
    assert (await ask(lambda client: client.models.get(made.id))).labels == {"tier": "theirs"}
    ask.bridge.lose = ["PATCH"]
    await ask(lambda client: client.models.label(made.id, {"tier": "again"}))
    assert (await ask(lambda client: client.models.get(made.id))).labels == {"tier": "again"}


async def test_scores_of_all_safety_cases_are_queried_page_by_page(ask: ThreadedClient) -> None:
    cases = [await scored(ask.platform, "one", "two", "three", "four") for _ in range(2)]
    everything = [(case["id"], name) for case in reversed(cases) for name in ("one", "two", "three", "four")]
    queries: tuple[tuple[dict[str, Any], list[tuple[str, str]]], ...] = (
        ({}, everything),
        ({"limit": 5}, everything[:5]),
        ({"analysis": cases[0]["id"]}, everything[4:]),
        ({"name": ["two", "none"], "methodName": "counting"}, [everything[1], everything[5]]),
        ({"name": "none"}, []),
    )
    for filters, expected in queries:
        scores = await ask(lambda client: list(client.safetycases.query_scores(**filters)))  # noqa: B023
        assert [(score.analysis, score.name) for score in scores] == expected, filters
    assert await ask(lambda client: list(client.safetycases.query_curves(analysis=cases[0]["id"]))) == []
    with pytest.raises(Invalid, match="colour"):
        await ask(lambda client: list(client.safetycases.query_scores(colour="red")))


async def scored(platform: MemoryPlatform, *names: str) -> Json:
    """A safety case that has ended with scores of these names."""
    case = await an_analysis(platform, "SafetyCase")
    content = {"scores": [score(case, name) for name in names]}
    path = f"{place('SafetyCase', case['id'])}/.dyff/scores.json"
    await platform.engines.store.put(path, orjson.dumps(content))
    await platform.says("SafetyCase", case["id"], "Complete")
    return case


@pytest.mark.parametrize("order", ["ascending", "descending"])
async def test_pages_hold_every_entity_in_every_order(order: str, ask: ThreadedClient) -> None:
    def make(client: Client) -> tuple[str, list[str]]:
        models = [
            client.models.create(**{"account": "acme", **model(), "name": f"m{n % 2}"}).id for n in range(4)
        ]
        made = [
            client.inferenceservices.create(account="acme", **service(model_id))
            for model_id in [*models, None, None]
        ]
        return models[0], [entity.id for entity in made]

    first, ids = await ask(make)
    for name in ORDERS["InferenceService"]:
        services = await ask(lambda client: list(client.inferenceservices.query(orderBy=name, order=order)))  # noqa: B023
        assert sorted(entity.id for entity in services) == sorted(ids), name
    services = await ask(lambda client: list(client.inferenceservices.query(limit=4)))
    assert [service_.id for service_ in services] == ids[:4]
    services = await ask(lambda client: list(client.inferenceservices.query(model=[first, "none"])))
    assert [service_.id for service_ in services] == ids[:1]


def test_nested_orders_are_where_the_view_reads_them() -> None:
    def own(kind: str) -> Mapping[str, str]:
        return {name: ".".join(path) for name, path in ORDERS[kind].items() if path != (name,)}

    nested = {kind: own(kind) for kind in ORDERS if own(kind)}
    assert {kind: dict(names) for kind, names in NESTED.items()} == nested


REFUSALS = [
    value
    for value in vars(api_errors).values()
    if isinstance(value, type) and issubclass(value, api_errors.ApiError)
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=[refusal.__name__ for refusal in REFUSALS])
def test_every_refusal_is_raised_again_by_its_reason(refusal: type[api_errors.ApiError]) -> None:
    answer = refusal("name: is wrong").response()
    raised = error_for(
        httpx.Response(answer.status_code, content=bytes(answer.body), request=httpx.Request("GET", ENDPOINT))
    )
    assert (raised.status, raised.reason) == (refusal.status, refusal.reason)
    assert (refusal.status in RETRIED) == (refusal.reason in {"Unavailable", "BadGateway"})


async def test_a_session_and_its_token(ask: ThreadedClient) -> None:
    def make(client: Client) -> Any:
        made = client.inferenceservices.create(account="acme", **service())
        return client.inferencesessions.create(account="acme", inferenceService=made.id)

    made = await ask(make)
    id = made.inferencesession.id
    assert made.inferencesession.inferenceService.name == "service"
    assert await ask(lambda client: client.inferencesessions.ready(id)) is False
    assert await ask(lambda client: client.inferencesessions.token(id))
    until = made.inferencesession.expires + timedelta(days=1)
    with pytest.raises(Invalid, match="expires"):
        await ask(lambda client: client.inferencesessions.token(id, expires=until))
    assert [session.id for session in await ask(lambda client: list(client.inferencesessions.query()))] == [
        id
    ]


async def test_an_account_its_permissions_and_its_tokens(ask: ThreadedClient) -> None:
    grant = {"resources": ["models"], "functions": ["create", "get", "query"], "accounts": ["beta"]}
    until = ask.platform.engines.clock() + timedelta(hours=1)

    def make(client: Client) -> tuple[str, str]:
        made = client.accounts.create("beta")
        assert made.id
        assert client.accounts.set_permissions(made.id, [grant])[0].accounts == ["beta"]
        assert client.accounts.permissions(made.id) == client.accounts.get(made.id).auth.permissions
        return made.id, client.accounts.create_token(made.id, grants=[grant], expires=until)

    id, token = await ask(make)
    with ask.of(token) as other:
        made = await asyncio.to_thread(lambda: other.models.create(account="beta", **model()))
        assert [model.id for model in await asyncio.to_thread(lambda: list(other.models.query()))] == [
            made.id
        ]
        with pytest.raises(Forbidden, match="account"):
            await asyncio.to_thread(lambda: other.models.create(account="acme", **model()))
        with pytest.raises(Forbidden):
            await asyncio.to_thread(lambda: other.accounts.create("gamma"))
    assert (await ask(lambda client: client.accounts.suspend(id))).status == "Suspended"
    with ask.of(token) as other, pytest.raises(Unauthenticated, match="is Suspended"):
        await asyncio.to_thread(lambda: other.models.get(made.id))
    assert (await ask(lambda client: client.accounts.reactivate(id))).status == "Active"
    assert await ask(lambda client: client.accounts.rotate_signing_key())
    ask.bridge.lose.append("POST")
    delta = await ask(lambda client: client.accounts.create("delta", idempotency_key="mine"))
    assert delta == await ask(lambda client: client.accounts.create("delta", idempotency_key="mine"))
    (key,) = await ask(lambda client: client.accounts.tokens(id))
    assert [account.id for account in await ask(lambda client: list(client.accounts.query(name="beta")))] == [
        id
    ]
    await ask(lambda client: client.accounts.revoke(id, key.id))
    with ask.of(token) as other, pytest.raises(Unauthenticated):
        await asyncio.to_thread(lambda: other.models.get(made.id))
    with pytest.raises(Conflict, match="beta"):
        await ask(lambda client: client.accounts.create("beta"))
    assert (await ask(lambda client: client.accounts.delete(id))).status == "Deleted"


async def test_the_async_client_says_the_same(ask: ThreadedClient, tmp_path: Path) -> None:
    token = ask.platform.admin.headers["authorization"].removeprefix("Bearer ")
    http = httpx.AsyncClient(transport=httpx.ASGITransport(ask.platform.app))
    path = rows(tmp_path / "rows.parquet")
    async with AsyncClient(ENDPOINT, token, http=http, files=httpx.Client(transport=ask.bridge)) as client:
        made = await client.datasets.create_from_parquet(path, account="acme", name="rows")
        assert made.status == "Ready"
        (got,) = await client.datasets.download(made.id, tmp_path / "down")
        assert got.read_bytes() == path.read_bytes()
        ids = [(await client.models.create(account="acme", **model())).id for _ in range(5)]
        assert [model.id async for model in client.models.query()] == ids
