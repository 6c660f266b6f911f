"""Requests along our OpenAPI document and beside it, made by schemathesis: no 500, and no status that it does not have.

The requests go through a real HTTP server. Half of them name entities that exist, and some are spoiled on their way:
malformed JSON, another content type, numbers and texts beyond all bounds, NUL bytes.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Queue
from random import Random
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import uvicorn
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from steelyard.api.http.app import App
from steelyard.api.http.openapi import document
from steelyard.api.routes import routes
from steelyard_schema.entities import PLURALS
from tests.platform_api.memory_platform import make_platform
from tests.platform_api.test_collection import MAKE

CASES, SOAK_CASES, SOAK_PARTS = 200, 1000, 10
NEVER = {500}
OF_THE_SERVER = {400, 431}
"""Statuses with which the HTTP server itself answers bytes that are not an HTTP request."""
UNSENT = {"host", "content-length", "transfer-encoding", "connection", "authorization"}
SPOILED: list[tuple[bytes, str]] = [
    (b"{", "application/json"),
    (b'{"account": "acme", "account": }', "application/json"),
    (b"\xff\xfe", "application/json"),
    (b"\x00", "application/json"),
    (b"[" * 5000, "application/json"),
    (b'{"a":' * 3000 + b"1" + b"}" * 3000, "application/json"),
    (b'{"account": "a\\u0000b", "name": "\\ud800"}', "application/json"),
    (b'{"account": "acme", "replications": 1e999, "limit": ' + b"9" * 5000 + b"}", "application/json"),
    (b'{"account": "acme", "name": "' + b"x" * 600_000 + b'"}', "application/json"),
    (b"account=acme", "application/x-www-form-urlencoded"),
    (b"<a/>", "text/xml"),
    (b'{"account": "acme"}', "application/json; charset=utf-16"),
    (b"null", "application/json"),
    (b"", "\x7f"),
]
QUERIES = [
    {"limit": "9" * 400}, {"limit": "-1"}, {"limit": "\x00"}, {"after": "[" * 3000}, {"after": '["\x00", "\x00"]'},
    {"query": '{"status": "\\u0000"}'}, {"query": "x" * 20_000}, {"labels": '{"\\ud800": "1"}'}, {"query": "[[]]"},
    {"query": '{"id": "\\ud800"}'}, {"orderBy": "creationTime", "after": '["9999-99-99T99:99:99Z", "x"]'},
    {"orderBy": "creationTime", "after": '["0001-01-01T00:00:00+23:59", "x"]'}, {"since": "9" * 40 + "d"},
    {"limit": "1e3"}, {"limit": "１"}, {"id": "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")},
]  # fmt: skip


@dataclass
class ServedPlatform:
    """A served platform: its client, and an entity of each kind."""

    client: httpx.Client
    ids: Mapping[str, str]


@pytest.fixture(scope="module")
def served() -> Iterator[ServedPlatform]:
    started: Queue[tuple[str, str, Mapping[str, str]]] = Queue()
    stop = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(started, stop)))
    thread.start()
    try:
        url, token, ids = started.get(timeout=60)
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=url, headers=headers, timeout=30) as client:
            yield ServedPlatform(client, ids)
    finally:
        stop.set()
        thread.join(30)


async def _serve(started: "Queue[tuple[str, str, Mapping[str, str]]]", stop: threading.Event) -> None:
    async with make_platform() as platform:
        ids = {PLURALS[kind]: str((await make(platform))["id"]) for kind, make in MAKE.items()}
        with _listening(platform.app) as server:
            serving = asyncio.create_task(server.serve())
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            token = platform.admin.headers["authorization"].removeprefix("Bearer ")
            started.put((f"http://127.0.0.1:{port}", token, ids))
            while not stop.is_set():  # noqa: ASYNC110 - the event is another thread's
                await asyncio.sleep(0.05)
            server.should_exit = True
            await serving


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: it runs beside the tests, in another thread."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def _listening(app: App) -> Iterator[_Server]:
    config = uvicorn.Config(
        app, "127.0.0.1", 0, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False
    )
    yield _Server(config)


def tried(served: ServedPlatform, number: int, count: int) -> Counter[int]:
    """Send `count` requests, and return the number of answers by status."""
    import schemathesis  # takes seconds, also for a worker that collects this file and runs others
    from schemathesis import GenerationMode

    schema = schemathesis.openapi.from_dict(json.loads(document(routes())))
    operations = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]  # ours is valid
    statuses: Counter[int] = Counter()

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(st.data(), st.randoms(use_true_random=False))
    def send(data: st.DataObject, random: Random) -> None:
        operation = data.draw(st.sampled_from(operations), label="operation")
        mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
        try:
            case = data.draw(operation.as_strategy(generation_mode=mode))
        except schemathesis.errors.SchemathesisError:
            return  # an operation without anything to get wrong
        response = _sent(served, case, random)
        statuses[response.status_code] += 1
        responses = operation.definition.raw["responses"].keys() - {
            "default"
        }  # of a replica: there is none here
        documented = {int(status) for status in responses} | OF_THE_SERVER
        where = f"{response.request.method} {response.request.url!s:.300} {response.request.content[:300]!r}"
        assert response.status_code in documented - NEVER, (
            f"{where}: {response.status_code} {response.text[:500]}"
        )

    send()
    return statuses


def _sent(served: ServedPlatform, case: Any, random: Random) -> httpx.Response:
    """Send the request of a case, with ids of entities that exist in half of them, and spoiled in some."""
    kwargs = case.as_transport_kwargs(base_url=str(served.client.base_url))
    url, headers = (
        kwargs["url"],
        {k: v for k, v in (kwargs.get("headers") or {}).items() if k.lower() not in UNSENT},
    )
    resource = case.operation.path.split("/")[2] if case.operation.path.startswith("/v0/") else ""
    if case.operation.path.startswith("/v0/pipelines/runs"):
        resource = "pipelineruns"
    if random.random() < 0.6 and "{id}" in case.operation.path and resource in served.ids:
        path = case.operation.path.replace("{id}", served.ids[resource])
        for name, value in (case.path_parameters or {}).items():
            path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
        url = f"{str(served.client.base_url).rstrip('/')}{path}"
    content: dict[str, Any] = {
        key: kwargs[key] for key in ("json", "data", "params") if kwargs.get(key) is not None
    }
    if isinstance(content.get("data"), bytes):
        content["content"] = content.pop("data")
    if case.operation.method.upper() != "GET" and random.random() < 0.25:
        body, kind = random.choice(SPOILED)
        content = {"content": body, "params": content.get("params")}
        headers["Content-Type"] = kind
    elif case.operation.method.upper() == "GET" and random.random() < 0.3:
        content["params"] = random.choice(QUERIES)
    try:
        return served.client.request(case.operation.method.upper(), url, headers=headers, **content)
    except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeError, ValueError, TypeError):
        # What no client can write: a header with a line break, a path with a NUL byte.
        return httpx.Response(400, request=httpx.Request("GET", "http://unsent"))


def test_no_request_outside_the_document_gets_an_answer_that_it_does_not_have(served: ServedPlatform) -> None:
    statuses = tried(served, 1, CASES)
    assert {200, 404, 422} <= statuses.keys(), statuses


@pytest.mark.soak
@pytest.mark.parametrize("number", range(2, 2 + SOAK_PARTS))
def test_no_request_outside_the_document_gets_another_answer_for_long(
    served: ServedPlatform, number: int
) -> None:
    tried(served, number, SOAK_CASES)
