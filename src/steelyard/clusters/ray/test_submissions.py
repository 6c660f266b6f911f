"""Jobs of Ray's own API, against a dashboard that answers as Ray's does."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from steelyard.clusters import AsyncClient, BadConfig, RuntimeEnv, errors
from steelyard.clusters.doubles import MemoryApi
from steelyard.clusters.ray import submissions as module
from steelyard.types import Json

LOG = "".join(f"line {number}\n" for number in range(6)) + "last"


class Ray:
    """A dashboard; its first connection to a log breaks off in the middle of a line."""

    def __init__(self) -> None:
        self.jobs: dict[str, Json] = {}
        self.packages: dict[str, bytes] = {}
        self.uploads = self.connections = 0
        self.tokens: set[str] = set()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/api/jobs/", self.submit)
        app.router.add_get("/api/jobs/", self.list)
        app.router.add_get("/api/jobs/{id}", self.get)
        app.router.add_get("/api/jobs/{id}/logs", self.logs)
        app.router.add_get("/api/jobs/{id}/logs/tail", self.tail)
        app.router.add_post("/api/jobs/{id}/stop", self.stop)
        app.router.add_route("*", "/api/packages/gcs/{name}", self.package)
        return app

    async def submit(self, request: web.Request) -> web.Response:
        body = await request.json()
        id = body.get("submission_id") or "raysubmit_1"
        self.tokens.add(request.headers.get("Authorization", ""))
        self.jobs[id] = {**body, "submission_id": id, "status": "RUNNING", "message": "runs"}
        return web.json_response({"submission_id": id})

    async def list(self, request: web.Request) -> web.Response:
        return web.json_response(list(self.jobs.values()))

    async def get(self, request: web.Request) -> web.Response:
        id = request.match_info["id"]
        if id not in self.jobs:
            return web.Response(status=404, text=f"Traceback\nJob {id} does not exist")
        return web.json_response(self.jobs[id])

    async def logs(self, request: web.Request) -> web.Response:
        return web.json_response({"logs": LOG})

    async def tail(self, request: web.Request) -> web.WebSocketResponse:
        self.connections += 1
        self.tokens.add(request.headers.get("Authorization", ""))
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str(LOG[:10])
        if self.connections > 1:
            await socket.send_str(LOG[10:30])
            self.jobs[request.match_info["id"]]["status"] = "SUCCEEDED"
        await socket.close()
        return socket

    async def stop(self, request: web.Request) -> web.Response:
        self.jobs[request.match_info["id"]]["status"] = "STOPPED"
        return web.json_response({"stopped": True})

    async def package(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if request.method == "PUT":
            self.uploads += 1
            self.packages[name] = await request.read()
        return web.Response(status=200 if name in self.packages else 404)


@pytest.fixture
async def ray() -> Ray:
    return Ray()


@pytest.fixture
async def jobs(ray: Ray) -> AsyncIterator[module.AsyncSubmissions]:
    runner = web.AppRunner(ray.app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with AsyncClient(api=MemoryApi()) as client:
        yield client.ray.jobs.on(address=f"http://127.0.0.1:{port}/", token="secret")
    await runner.cleanup()


async def test_a_job_is_submitted_listed_and_stopped(ray: Ray, jobs: module.AsyncSubmissions) -> None:
    made = await jobs.submit("python x.py", runtime_env=RuntimeEnv(pip=("a",)), metadata={"a": "b"})
    assert (made.id, made.status, made.entrypoint) == ("raysubmit_1", "RUNNING", "python x.py")
    assert ray.jobs["raysubmit_1"]["runtime_env"] == {"pip": ["a"]}
    assert [job.id for job in await jobs.list()] == ["raysubmit_1"]
    assert await jobs.stop("raysubmit_1")
    with pytest.raises(errors.Failed, match="STOPPED"):
        await jobs.wait("raysubmit_1")
    with pytest.raises(errors.NotFound, match="does not exist"):
        await jobs.get("missing")
    assert ray.tokens == {"Bearer secret"}


async def test_a_followed_log_connects_again_and_has_no_line_twice(
    ray: Ray, jobs: module.AsyncSubmissions
) -> None:
    await jobs.submit("python x.py")
    lines = [line async for line in jobs.logs("raysubmit_1", follow=True, poll=0)]
    assert lines == LOG.splitlines()
    assert ray.connections == 2
    assert ray.tokens == {"Bearer secret"}


async def test_a_working_directory_is_uploaded_once(
    ray: Ray, jobs: module.AsyncSubmissions, tmp_path: Path
) -> None:
    (tmp_path / "data.bin").write_bytes(random.Random(0).randbytes(3 << 20))
    for _ in range(2):
        await jobs.submit("python x.py", working_dir=tmp_path)
    name = ray.jobs["raysubmit_1"]["runtime_env"]["working_dir"].removeprefix("gcs://")
    assert len(ray.packages[name]) > 3 << 20
    assert ray.uploads == 1


async def test_a_working_directory_that_is_too_large_is_never_sent(
    ray: Ray, jobs: module.AsyncSubmissions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.bin").write_bytes(random.Random(0).randbytes(1 << 20))
    monkeypatch.setattr(module, "UPLOAD_LIMIT", 1 << 10)
    with pytest.raises(BadConfig, match="working_dir"):
        await jobs.submit("python x.py", working_dir=tmp_path)
    assert (ray.jobs, ray.packages) == ({}, {})


async def test_a_silent_dashboard_is_unreachable() -> None:
    async with AsyncClient(api=MemoryApi()) as client:
        with pytest.raises(errors.Unreachable, match="port-forward"):
            await client.ray.jobs.on(address="http://127.0.0.1:1").list()
        with pytest.raises(BadConfig):
            client.ray.jobs.on()
