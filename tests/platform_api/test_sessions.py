"""Inference sessions: created with a token, ready when a replica is, asked through the API, ended."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import orjson
import pytest
from aiohttp import web

from steelyard.api.inference_sessions.replicas import PORT, Replicas
from steelyard.api.settings import ApiSettings
from steelyard_common.types import Json
from steelyard_evaluation.engine.doubles import free_host, free_port, identity_server
from steelyard_schema.names import account_namespace
from tests.platform_api.memory_platform import MemoryPlatform, grant, make_platform
from tests.platform_api.test_collection import a_service


@dataclass
class Pods:
    """Pods of a session on one machine, as the hosts file names them."""

    platform: MemoryPlatform
    hosts: Path
    identity_port: int
    asked: list[tuple[str, bytes]] = field(default_factory=list)

    def name(self, session: str, *addresses: str) -> None:
        host = f"inferencesession-{session}.{account_namespace('acme')}.svc"
        self.hosts.write_text("".join(f"{address} {host}\n" for address in addresses))

    @asynccontextmanager
    async def replica(self, session: str, host: str) -> AsyncIterator[None]:
        """A replica of the session at an address of its own."""
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        app.router.add_get("/{path:.*}", self._read)
        runner = web.AppRunner(app, shutdown_timeout=0.0)
        await runner.setup()
        await web.TCPSite(runner, host, PORT, reuse_address=True).start()
        async with identity_server(session, host, self.identity_port):
            yield
        await runner.cleanup()

    async def _read(self, request: web.Request) -> web.StreamResponse:
        assert "Authorization" not in request.headers
        return web.json_response({"read": request.path_qs, "version": "0.32.0"})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        assert "Authorization" not in request.headers
        self.asked.append((request.path_qs, body))
        match request.match_info["path"]:
            case "refuse":
                return web.json_response({"error": "no"}, status=422)
            case "stream":
                return await _streamed(request)
            case "half":
                return await _half(request)
            case "break":
                assert request.transport is not None
                request.transport.abort()
        return web.json_response({"path": request.path, "got": orjson.loads(body)})


async def _half(request: web.Request) -> web.StreamResponse:
    """An answer that says how long it is, and ends before."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "100"})
    await response.prepare(request)
    await response.write(b'{"half": ')
    assert request.transport is not None
    request.transport.close()
    return response


async def _streamed(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number in range(3):
        await response.write(f"data: {number}\n\n".encode())
        await asyncio.sleep(0)
    return response


@pytest.fixture
async def pods(tmp_path: Path) -> AsyncIterator[Pods]:
    hosts, port = tmp_path / "hosts", free_port()
    replicas = Replicas({"STEELYARD_HOSTS": str(hosts)}, port)
    async with make_platform(replicas=replicas) as platform:
        yield Pods(platform, hosts, port)


async def session(platform: MemoryPlatform, **fields: object) -> tuple[Json, str]:
    made = await platform.created(
        "inferencesessions", inferenceService=(await a_service(platform))["id"], **fields
    )
    return made["inferencesession"], made["token"]


async def test_a_session_from_its_request_to_its_end(pods: Pods) -> None:
    platform = pods.platform
    made, token = await session(platform)
    path = f"/inferencesessions/{made['id']}"
    assert made["expires"].startswith("2030-01-01T01:00:00")
    assert (await platform.admin.get(f"{path}/ready")).json() == {"ready": False, "status": "Created"}
    async with platform.client(token) as client:
        assert (await client.post(f"{path}/infer/v1/x", json={})).status_code == 503
        host = free_host()
        async with pods.replica(made["id"], host):
            pods.name(made["id"], host)
            await platform.says("InferenceSession", made["id"], "Admitted")
            for caller in (platform.admin, client):
                for method in ("GET", "POST"):
                    ready = await caller.request(method, f"{path}/ready")
                    assert (ready.status_code, ready.json()) == (200, {"ready": True, "status": "Admitted"})
            answer = await client.post(f"{path}/infer/openai/v1/completions?x=1", json={"number": 5})
            assert answer.json() == {"path": "/openai/v1/completions", "got": {"number": 5}}
            assert pods.asked == [("/openai/v1/completions?x=1", b'{"number":5}')]
            await _passes_on_what_comes(client, path)
            assert (await platform.admin.put(f"{path}/terminate")).json()["status"] == "Terminated"
            ended = await client.post(f"{path}/infer/v1/x", json={})
            assert (ended.status_code, ended.json()["reason"]) == (409, "Conflict")
            assert (await client.get(f"{path}/infer/v1/models")).status_code == 409
    assert (await platform.admin.get(f"{path}/ready")).json()["ready"] is False
    assert (await platform.admin.post(f"{path}/token", json={})).status_code == 409


async def _passes_on_what_comes(client: httpx.AsyncClient, path: str) -> None:
    models = await client.get(f"{path}/infer/v1/models?all=1")
    assert (models.status_code, models.json()["read"]) == (200, "/v1/models?all=1")
    # A mock serves no files of a model, and is no server whose version matters.
    assert (await client.get(f"{path}/served")).json() == {"volumes": [], "servers": []}
    refused = await client.post(f"{path}/infer/refuse", json={})
    assert (refused.status_code, refused.json()) == (422, {"error": "no"})
    streamed = await client.post(f"{path}/infer/stream", json={})
    assert streamed.text == "data: 0\n\ndata: 1\n\ndata: 2\n\n"
    assert streamed.headers["content-type"] == "text/event-stream"
    for how in ("break", "half"):
        broken = await client.post(f"{path}/infer/{how}", json={})
        assert (broken.status_code, broken.json()["reason"]) == (502, "BadGateway"), how
    form = await client.post(f"{path}/infer/v1/upload", files={"file": b"x"})
    assert (form.status_code, form.json()["reason"]) == (415, "UnsupportedMediaType")


async def test_an_address_of_another_session_is_never_asked(pods: Pods) -> None:
    made, token = await session(pods.platform)
    await pods.platform.says("InferenceSession", made["id"], "Admitted")
    ours, theirs = free_host(), free_host()
    async with pods.replica("another", theirs), pods.platform.client(token) as client:
        pods.name(made["id"], theirs, free_host())
        alone = await client.post(f"/inferencesessions/{made['id']}/infer/v1/x", json={})
        assert (alone.status_code, pods.asked) == (503, [])
        async with pods.replica(made["id"], ours):
            pods.name(made["id"], theirs, ours)
            for _ in range(4):
                answer = await client.post(f"/inferencesessions/{made['id']}/infer/v1/x", json={})
                assert answer.status_code == 200


async def test_a_replica_that_cannot_be_reached_leaves_the_request_to_another(tmp_path: Path) -> None:
    replicas = Replicas({"STEELYARD_HOSTS": str(tmp_path / "hosts")}, free_port(), connect_seconds=0.05)
    async with make_platform(replicas=replicas) as platform, AsyncExitStack() as stack:
        pods = Pods(platform, tmp_path / "hosts", replicas._identity_port)
        made, token = await session(platform)
        await platform.says("InferenceSession", made["id"], "Admitted")
        silent, ours = free_host(), free_host()
        await stack.enter_async_context(identity_server(made["id"], silent, pods.identity_port))
        stack.enter_context(full(silent))
        client = await stack.enter_async_context(platform.client(token))
        path = f"/inferencesessions/{made['id']}/infer/v1/x"
        pods.name(made["id"], silent)
        assert (await client.post(path, json={})).status_code == 503
        async with pods.replica(made["id"], ours):
            pods.name(made["id"], silent, ours)
            for _ in range(2):
                assert (await client.post(path, json={})).status_code == 200


@contextmanager
def full(host: str) -> Iterator[None]:
    """A port whose queue is full: who connects hears nothing."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind((host, PORT))
        listening.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect((host, PORT))
        yield


async def test_a_sessions_token_is_good_for_its_session_alone(platform: MemoryPlatform) -> None:
    made, token = await session(platform)
    other, _ = await session(platform)
    path = f"/inferencesessions/{made['id']}"
    async with platform.client(token) as client:
        assert (await client.post(f"{path}/infer/v1/x", json={})).status_code == 503
        for method in ("GET", "POST"):
            assert (await client.request(method, f"{path}/ready")).json()["ready"] is False
        for target in (f"/inferencesessions/{other['id']}", "/inferencesessions/none"):
            assert (await client.post(f"{target}/infer/v1/x", json={})).status_code == 404
            assert (await client.get(f"{target}/ready")).status_code == 404
            assert (await client.post(f"{target}/ready")).status_code == 404
        for method, target in (("GET", path), ("PUT", f"{path}/terminate"), ("POST", f"{path}/token")):
            assert (await client.request(method, target)).status_code == 403
        for target in ("/inferencesessions", "/models", "/datasets"):
            assert (await client.get(target)).status_code == 403
        platform.engines.clock.now = platform.engines.clock.now.replace(hour=2)
        assert (await client.post(f"{path}/infer/v1/x", json={})).status_code == 401
    async with platform.client("eyJhbGciOiJub25lIn0.e30.") as client:
        assert (await client.post(f"{path}/infer/v1/x", json={})).status_code == 401


async def test_more_tokens_of_a_session(platform: MemoryPlatform) -> None:
    made, first = await session(platform, expires="2030-01-01T04:00:00Z")
    path = f"/inferencesessions/{made['id']}/token"
    for response in (await platform.admin.get(path), await platform.admin.post(path, json={})):
        token = response.json()
        assert isinstance(token, str)
        assert token.count(".") == 2
        assert token != first
    short = await platform.admin.post(path, json={"expires": "2030-01-01T00:10:00+00:00"})
    assert short.status_code == 200
    for wrong in ("2030-01-01T05:00:00Z", "2029-01-01T00:00:00Z", "2030-01-01T00:10:00"):
        refused = await platform.admin.post(path, json={"expires": wrong})
        assert (refused.status_code, refused.json()["field"]) == (422, "expires")


async def test_a_session_whose_time_is_over_has_ended_whatever_its_status_says(
    platform: MemoryPlatform,
) -> None:
    made, _ = await session(platform, expires="2030-01-01T00:30:00Z")
    path = f"/inferencesessions/{made['id']}"
    platform.engines.clock.now = platform.engines.clock.now.replace(minute=29)
    assert (await platform.admin.get(f"{path}/token")).status_code == 200
    platform.engines.clock.now = platform.engines.clock.now.replace(minute=31)
    assert (await platform.admin.get(path)).json()["status"] == "Created"
    for refused in (
        await platform.admin.get(f"{path}/token"),
        await platform.admin.post(f"{path}/infer/v1/x", json={}),
    ):
        assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
        assert "has ended: it is expired" in refused.json()["detail"]


async def test_a_session_has_at_most_so_many_tokens() -> None:
    async with make_platform(settings=ApiSettings(session_tokens=2)) as platform:
        made, _ = await session(platform, expires="2030-01-01T04:00:00Z")
        path = f"/inferencesessions/{made['id']}/token"
        assert (await platform.admin.post(path, json={"expires": "2030-01-01T00:10:00Z"})).status_code == 200
        for refused in (await platform.admin.get(path), await platform.admin.post(path, json={})):
            assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
            assert "has 2 tokens that are valid" in refused.json()["detail"]
        await session(platform)  # another one has its own
        platform.engines.clock.now = platform.engines.clock.now.replace(minute=20)
        assert (await platform.admin.post(path, json={})).status_code == 200


async def test_an_evaluation_may_refer_to_a_session(platform: MemoryPlatform) -> None:
    from tests.platform_api.memory_platform import dataset

    made, _ = await session(platform, replicas=3)
    data = await platform.created("datasets", **dataset())
    evaluation = await platform.created(
        "evaluations", dataset=data["id"], inferenceSessionReference=made["id"]
    )
    assert evaluation["inferenceSessionReference"] == made["id"]
    assert evaluation["inferenceSession"]["inferenceService"] == made["inferenceService"]
    assert evaluation["inferenceSession"]["replicas"] == 3
    stranger = await platform.holder(
        grant("evaluations", ["create"], ["acme"]),
        grant("datasets", ["consume"], ["acme"]),
        grant("inferencesessions", ["get"], ["acme"]),
    )
    body = {"account": "acme", "dataset": data["id"], "inferenceSessionReference": made["id"]}
    refused = await stranger.post("/evaluations", json=body)
    assert (refused.status_code, refused.json()["field"]) == (403, "inferenceSessionReference")
    await platform.admin.put(f"/inferencesessions/{made['id']}/terminate")
    ended = await platform.admin.post("/evaluations", json=body)
    assert (ended.status_code, ended.json()["field"]) == (422, "inferenceSessionReference")
