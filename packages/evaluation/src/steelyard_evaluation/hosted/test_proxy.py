"""The server of a hosted model, against a provider on loopback: limits, caps, streams, errors, and the key."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from steelyard_common.connections import TrackingConnector
from steelyard_common.types import Json
from steelyard_evaluation.hosted.account import Account
from steelyard_evaluation.hosted.book import Book
from steelyard_evaluation.hosted.doubles import KEY, FakeProvider
from steelyard_evaluation.hosted.gate import Gate
from steelyard_evaluation.hosted.ledger import CallTotals, Caps, Tokens
from steelyard_evaluation.hosted.provider import Provider
from steelyard_evaluation.hosted.proxy import Proxy, make_app
from steelyard_evaluation.hosted.snapshots import MOST, MOST_CHARACTERS, Snapshot, Snapshots, snapshots_in
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.hosted_model import HostedModel

HELLO: Json = {"messages": [{"role": "user", "content": "hello there"}]}
CHAT = "/v1/chat/completions"
Client = TestClient[web.Request, web.Application]


class Server(TestServer):
    """A server as it runs in a Pod: a call whose client has gone goes on."""

    async def _make_runner(self, **options: Any) -> web.BaseRunner:
        return await super()._make_runner(**{**options, "handler_cancellation": False})


class Setting:
    """A server in front of a provider."""

    def __init__(self, client: Client, gate: Gate, book: Book, warnings: list[str]) -> None:
        self.client = client
        self.gate = gate
        self.book = book
        self.warnings = warnings

    async def ask(self, **changes: Any) -> tuple[int, Any, aiohttp.ClientResponse]:
        async with self.client.post(CHAT, json={**HELLO, **changes}) as response:
            text = await response.text()
            return response.status, json.loads(text), response

    async def spent(self) -> CallTotals:
        """Stop the server, and return what the ledger says."""
        await self.client.close()
        assert self.book.last
        assert self.book.last.holds == {}
        return self.book.last.total


@asynccontextmanager
async def serving(
    provider: FakeProvider | str,
    *,
    key: str | None = KEY,
    open_session: Callable[[], aiohttp.ClientSession] = lambda: aiohttp.ClientSession(
        connector=TrackingConnector()
    ),
    tmp: str = "proxy",
    **limits: Any,
) -> AsyncIterator[Setting]:
    async with _started(provider) as url:
        model = HostedModel(base_url=url, model="large", **{"max_output_tokens": 20, **limits})
        store = open_store(f"memory://{tmp}-{id(limits)}-{datetime.now(UTC).timestamp()}")
        book, warnings = Book(store), list[str]()
        account = Account(book, Caps(model), "me", lambda: datetime.now(UTC))
        gate = Gate(model.requests_per_minute, model.concurrent_requests)
        provider_calls = Provider(model, open_session, key)
        proxy = Proxy(model, gate, account, provider_calls, warnings.append)
        async with TestClient(Server(make_app(proxy))) as client:
            yield Setting(client, gate, book, warnings)


@asynccontextmanager
async def _started(provider: FakeProvider | str) -> AsyncIterator[str]:
    if isinstance(provider, str):
        yield provider
        return
    async with TestServer(provider.app()) as server:
        yield str(server.make_url("/v1"))


async def test_an_answer_passes_and_is_settled() -> None:
    provider = FakeProvider()
    async with serving(provider, tokens_total=10_000) as setting:
        status, answer, _ = await setting.ask(temperature=0)
        spent = await setting.spent()
    assert status == 200
    assert answer["choices"][0]["message"]["content"].startswith("word")
    assert provider.bodies == [{**HELLO, "temperature": 0, "model": "large", "max_tokens": 20}]
    assert spent == CallTotals(1, Tokens(provider.read, provider.written))


async def test_embeddings_pass_and_are_settled_until_the_cap() -> None:
    provider = FakeProvider()
    async with serving(provider, tokens_total=1000) as setting:
        statuses = []
        for _ in range(20):
            body = {"input": ["one two", "three"], "model": "large"}
            async with setting.client.post("/v1/embeddings", json=body) as response:
                statuses.append(response.status)
                answer = await response.json()
                if response.status == 200:
                    assert [item["embedding"] for item in answer["data"]] == [[0.5], [0.5]]
        many = {"input": ["word " * 2000], "model": "large"}
        async with setting.client.post("/v1/embeddings", json=many) as response:
            assert response.status == 402
        spent = await setting.spent()
    assert statuses == [200] * 20
    assert spent == CallTotals(20, Tokens(provider.read, 0))


async def test_a_stream_passes_and_is_settled() -> None:
    provider = FakeProvider()
    async with serving(provider, tokens_total=10_000) as setting:
        async with setting.client.post(CHAT, json={**HELLO, "stream": True}) as response:
            text = await response.text()
        assert response.content_type == "text/event-stream"
        assert text.endswith("data: [DONE]\n\n")
        assert "usage" not in text
        assert text.count("word") == provider.written
        assert await setting.spent() == CallTotals(1, Tokens(provider.read, provider.written))


async def test_a_stream_whose_client_leaves_is_settled_by_its_end() -> None:
    provider = FakeProvider(seconds=0.05)
    async with serving(provider, tokens_total=10_000) as setting:
        async with setting.client.post(CHAT, json={**HELLO, "stream": True}) as response:
            response.close()
        while provider.at_once or not provider.written:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.01)
        assert await setting.spent() == CallTotals(1, Tokens(provider.read, provider.written))


async def test_an_answer_that_does_not_tell_its_tokens_counts_in_full() -> None:
    provider = FakeProvider(tells_usage=False)
    async with serving(provider, tokens_total=10_000) as setting:
        assert (await setting.ask())[0] == 200
        async with setting.client.post(CHAT, json={**HELLO, "stream": True}) as response:
            await response.read()
        spent = await setting.spent()
    assert (spent.calls, spent.estimated, spent.tokens.output) == (2, 2, 40)
    assert spent.tokens.total >= provider.total_tokens


async def test_an_answer_that_breaks_off_counts_in_full() -> None:
    provider = FakeProvider(breaks_off=True)
    async with serving(provider, tokens_total=10_000) as setting:
        status, answer, _ = await setting.ask()
        assert (status, answer["error"]["code"]) == (502, "ProviderBrokeOff")
        events: list[bytes] = []
        async with setting.client.post(CHAT, json={**HELLO, "stream": True}) as response:
            with pytest.raises(aiohttp.ClientError):
                await _read_events(response, events)
        spent = await setting.spent()
    assert json.loads(events[-1])["error"]["code"] == "ProviderBrokeOff"
    assert (spent.calls, spent.estimated) == (2, 2)
    assert spent.tokens.total >= provider.total_tokens


async def _read_events(response: aiohttp.ClientResponse, events: list[bytes]) -> None:
    async for line in response.content:
        if line.startswith(b"data: "):
            events.append(line.removeprefix(b"data: "))


@pytest.mark.parametrize(
    "limits",
    [{"tokens_total": 2000}, {"cost_total": Decimal("0.02"), "input_price": 1, "output_price": 100}],
    ids=["tokens", "money"],
)
async def test_a_cap_is_never_passed(limits: dict[str, Any]) -> None:
    provider = FakeProvider()
    async with serving(provider, queue_seconds=60, **limits) as setting:
        answers = await asyncio.gather(*(setting.ask() for _ in range(300)))
        statuses = {status for status, _, _ in answers}
        assert statuses == {200, 402}
        error = next(answer["error"] for status, answer, _ in answers if status == 402)
        assert (error["type"], error["code"]) == ("service_stopped", "SpendCapReached")
        assert re.search("is reached|leaves no room for this call", error["message"])
        if "tokens_total" in limits:
            assert provider.total_tokens <= 2000
        else:
            assert provider.read * 1 + provider.written * 100 <= 20_000
        assert any(error["message"] in warning for warning in setting.warnings)


async def test_a_call_that_may_pass_the_cap_is_not_sent() -> None:
    provider = FakeProvider()
    async with serving(provider, tokens_total=30) as setting:
        assert (await setting.ask())[0] == 402
    assert provider.bodies == []


async def test_calls_beyond_the_rate_learn_when_to_come_back() -> None:
    provider = FakeProvider()
    async with serving(provider, requests_per_minute=3, queue_seconds=0) as setting:
        answers = await asyncio.gather(*(setting.ask() for _ in range(5)))
    assert sorted(status for status, _, _ in answers) == [200, 200, 200, 429, 429]
    late = next(response for status, _, response in answers if status == 429)
    assert 1 <= int(late.headers["Retry-After"]) <= 60
    assert len(provider.bodies) == 3


@pytest.mark.parametrize(
    ("limits", "status"),
    [({"tokens_total": 1}, 402), ({"requests_per_minute": 1, "queue_seconds": 0}, 429)],
    ids=["cap", "rate"],
)
async def test_what_may_not_pass_is_refused_before_its_body_is_read(
    limits: dict[str, Any], status: int
) -> None:
    never = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b'{"messages": ['
        await never.wait()

    async with serving(FakeProvider(), **limits) as setting:
        await setting.ask()
        headers = {"Content-Length": str(1 << 20), "Content-Type": "application/json"}
        async with setting.client.post(CHAT, data=body(), headers=headers) as response:
            assert response.status == status


async def test_calls_at_the_same_time_wait_for_each_other() -> None:
    provider = FakeProvider(seconds=0.01)
    async with serving(provider, concurrent_requests=2, queue_seconds=60) as setting:
        answers = await asyncio.gather(*(setting.ask() for _ in range(12)))
    assert {status for status, _, _ in answers} == {200}
    assert provider.most_at_once == 2


async def test_a_call_whose_client_has_gone_is_not_sent() -> None:
    provider = FakeProvider()
    async with serving(provider, concurrent_requests=1, queue_seconds=60, tokens_total=10_000) as setting:
        provider.open.clear()
        first = asyncio.create_task(setting.ask())
        while not provider.at_once:  # noqa: ASYNC110 - the provider tells nobody
            await asyncio.sleep(0.01)
        server = setting.client.server.handler
        async with aiohttp.ClientSession() as leaving:
            second = asyncio.create_task(leaving.post(setting.client.make_url(CHAT), json=HELLO))
            while not setting.gate._waiting:  # noqa: ASYNC110 - nor does the gate
                await asyncio.sleep(0.01)
            second.cancel()
        while all(connection.transport for connection in server.connections):  # noqa: ASYNC110 - nor does the server
            await asyncio.sleep(0.01)
        provider.open.set()
        assert (await first)[0] == 200
        assert (await setting.ask())[0] == 200
        assert (await setting.spent()).calls == len(provider.bodies) == 2


def refusing(status: int, message: str, **headers: str) -> Callable[[Json], web.Response]:
    error = {"error": {"message": message, "param": "temperature"}}
    return lambda body: web.json_response(error, status=status, headers=headers)


@pytest.mark.parametrize(
    ("status", "expected", "code", "calls"),
    [
        (400, 400, "ProviderError", 0),
        (404, 404, "ProviderError", 0),
        (429, 429, "ProviderBusy", 0),
        (503, 503, "ProviderError", 0),
        (500, 500, "ProviderError", 1),
        (504, 504, "ProviderError", 1),
        (401, 424, "ProviderRefused", 0),
        (402, 424, "ProviderRefused", 0),
        (403, 424, "ProviderRefused", 0),
        (302, 424, "ProviderRefused", 0),
    ],
)
async def test_an_error_of_the_provider(status: int, expected: int, code: str, calls: int) -> None:
    """An error that says that no work was done is free; of the others, the most that the call may cost counts."""
    quoted = f"Bearer {KEY} was wrong, {KEY[:8]}*****{KEY[-4:]}"
    provider = FakeProvider(
        refusal=refusing(status, quoted, **{"Retry-After": "7", "Location": "/elsewhere"})
    )
    async with serving(provider, tokens_total=10_000) as setting:
        got, answer, response = await setting.ask()
        assert (got, answer["error"]["code"]) == (expected, code)
        assert answer["error"]["param"] == (None if expected == 424 else "temperature")
        assert KEY not in json.dumps(answer)
        if expected == 424:
            assert answer["error"]["type"] == "service_stopped"
        if status in {401, 403}:
            assert KEY[-4:] not in json.dumps(answer)
        if status == 429:
            assert response.headers["Retry-After"] == "7"
        assert len(provider.bodies) == 1
        await setting.client.close()
        last = setting.book.last
        assert (last.total.calls if last else 0) == calls


async def test_a_key_that_an_answer_repeats_is_taken_out() -> None:
    provider = FakeProvider()
    hello = {"messages": [{"role": "user", "content": "x"}]}
    echo = web.json_response(
        {"choices": [], "said": KEY, "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    )
    provider.refusal = lambda body: echo
    async with serving(provider, tokens_total=10_000) as setting:
        _, answer, _ = await setting.ask(**hello)
    assert answer["said"] == "[the key]"


async def test_a_wrong_key_stops_the_service() -> None:
    async with serving(FakeProvider(), key="sk-another", tokens_total=10_000) as setting:
        status, answer, _ = await setting.ask()
    assert (status, answer["error"]["type"]) == (424, "service_stopped")
    assert answer["error"]["message"] == "the provider refuses the key (status 401)"


async def test_a_provider_that_is_away_costs_nothing() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        async with serving(url, tokens_total=10_000) as setting:
            status, answer, response = await setting.ask()
            assert (status, answer["error"]["code"]) == (503, "ProviderUnreachable")
            assert response.headers["Retry-After"] == "5"
            assert (await setting.spent()).calls == 0


async def test_a_request_whose_price_is_not_known_is_refused() -> None:
    async with serving(FakeProvider(), tokens_total=10_000) as setting:
        status, answer, _ = await setting.ask(service_tier="priority")
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")


async def test_the_model_is_listed_without_asking_the_provider() -> None:
    provider = FakeProvider()
    async with serving(provider) as setting:
        for prefix in ("/v1", "/openai/v1"):
            async with setting.client.get(f"{prefix}/models") as response:
                assert [model["id"] for model in (await response.json())["data"]] == ["large"]
        async with setting.client.get("/ready") as response:
            assert response.status == 200
    assert provider.bodies == []


SNAPSHOTS: list[dict[str, Any]] = [
    {"model": "large-2026-08-06", "system_fingerprint": "fp_1"},
    {"model": "large-2026-11-20", "system_fingerprint": None},
]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_snapshots_that_answers_name_are_reported_once_each(stream: bool) -> None:
    async with serving(FakeProvider(snapshots=SNAPSHOTS), tokens_total=10_000) as setting:

        async def seen() -> list[Snapshot]:
            async with setting.client.get("/snapshots") as response:
                return snapshots_in(await response.json())

        assert await seen() == []
        for _ in range(4):
            async with setting.client.post(CHAT, json={**HELLO, "stream": stream}) as response:
                await response.text()
        assert sorted(map(str, await seen())) == ["large-2026-08-06 (fp_1)", "large-2026-11-20"]


@pytest.mark.parametrize("answer", [b"{", b"[]", b'{"model": 3}', b'{"model": ""}', b"data: [DONE]"])
def test_an_answer_that_names_no_model_is_passed_over(answer: bytes) -> None:
    snapshots = Snapshots()
    snapshots.note(answer)
    snapshots.note_event(b"data: " + answer + b"\n\n")
    assert snapshots.json() == {"snapshots": []}


def test_a_provider_that_names_ever_other_models_fills_no_memory() -> None:
    snapshots = Snapshots()
    for number in range(2 * MOST):
        snapshots.note(b'{"model": "%s-%d"}' % (b"x" * 1000, number))
        snapshots.note(b'{"model": "m%d"}' % number)
    seen = snapshots_in(snapshots.json())
    assert len(seen) <= MOST
    assert max(len(str(snapshot)) for snapshot in seen) <= MOST_CHARACTERS
