"""Jobs of Ray's own API, against a dashboard that answers as Ray's does."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from steelyard.clusters import AsyncClient, BadConfig, Client, RuntimeEnv, errors, widgets
from steelyard.clusters.doubles import MemoryApi
from steelyard.clusters.kinds import RAY_CLUSTER
from steelyard.clusters.ray import submissions as module
from steelyard.clusters.ray.doubles import make_cluster
from steelyard_common.types import Json

LOG = "".join(f"line {number}\n" for number in range(6)) + "last"


class Ray:
    """A dashboard; its first connection to a log breaks off in the middle of a line."""

    def __init__(self) -> None:
        self.jobs: dict[str, Json] = {}
        self.packages: dict[str, bytes] = {}
        self.uploads = self.connections = 0
        self.tokens: set[str] = set()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 30, middlewares=[self.login])
        app.router.add_post("/api/jobs/", self.submit)
        app.router.add_get("/api/jobs/", self.list)
        app.router.add_get("/api/jobs/{id}", self.get)
        app.router.add_get("/api/jobs/{id}/logs", self.logs)
        app.router.add_get("/api/jobs/{id}/logs/tail", self.tail)
        app.router.add_post("/api/jobs/{id}/stop", self.stop)
        app.router.add_route("*", "/api/packages/gcs/{name}", self.package)
        return app

    @web.middleware
    async def login(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Ask for a login as the operator does, or as a proxy that shows browsers a page."""
        match request.headers.get("Authorization"):
            case None:
                return web.Response(text="<title>Log in</title>", content_type="text/html")
            case "Bearer wrong":
                return web.Response(status=401, text="no such token")
            case "Bearer reader":
                return web.Response(status=403, text="may not update")
            case "Bearer early":
                return web.Response(status=503, text="<h1>No endpoint</h1>", content_type="text/html")
        answer: web.StreamResponse = await handler(request)
        return answer

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
async def address(ray: Ray) -> AsyncIterator[str]:
    runner = web.AppRunner(ray.app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


@pytest.fixture
async def jobs(address: str) -> AsyncIterator[module.AsyncSubmissions]:
    async with AsyncClient(api=MemoryApi()) as client:
        yield client.ray.jobs.on(address=address, token="secret")


async def test_a_dashboard_behind_a_login_says_what_it_asks_for_and_takes_the_clients_own(
    ray: Ray, address: str
) -> None:
    async with AsyncClient(api=MemoryApi(), namespace="team-a") as client:
        on = client.ray.jobs.on
        for jobs in (on(address=address), on(address=address, token="wrong")):
            with pytest.raises(errors.Unauthenticated, match="own_login=True"):
                await jobs.list()
        with pytest.raises(errors.Forbidden, match="may not update"):
            await on(address=address, token=lambda: "reader").submit("python x.py")
        with pytest.raises(errors.Unreachable, match="a proxy before it says status 503"):
            await on(address=address, token="early").list()
        assert (await on(address=address, own_login=True).submit("python x.py")).id == "raysubmit_1"
        assert [line async for line in on(address=address, own_login=True).logs("raysubmit_1", follow=True)]
        assert ray.tokens == {"Bearer own"}
        await on(address=address, headers={"Authorization": "Basic b3du"}).submit("python x.py")
        assert ray.tokens == {"Bearer own", "Basic b3du"}
        for elsewhere in ("http://ray.example", "http://127.0.0.1.ray.example"):
            with pytest.raises(errors.Unauthenticated, match=f"is not sent to {elsewhere}"):
                await on(address=elsewhere, own_login=True).list()
        with pytest.raises(BadConfig, match="either token, or own_login"):
            on(address=address, token="a", own_login=True)


async def test_the_clients_own_login_is_sent_to_nobody_who_cannot_be_known(ray: Ray, address: str) -> None:
    async with AsyncClient(api=MemoryApi(), namespace="team-a") as client:
        unverified = client.ray.jobs.on(address="https://ray.example", own_login=True, verify_tls=False)
        with pytest.raises(errors.Unauthenticated, match=r"without verify_tls.*SSL_CERT_FILE"):
            await unverified.list()
        with pytest.raises(errors.Unauthenticated, match="is not sent"):
            assert [line async for line in unverified.logs("a", follow=True)]
        assert not await client.ray.jobs.on(address=address, own_login=True, verify_tls=False).list()
        for login in ({"own_login": True}, {"token": "secret"}):
            with pytest.raises(BadConfig, match="headers: give either the header authorization, or"):
                client.ray.jobs.on(address=address, headers={"authorization": "Basic b3du"}, **login)


@pytest.mark.parametrize(
    "login", [{"own_login": True}, {"token": "secret"}, {"headers": {"Cookie": "session=secret"}}], ids=str
)
async def test_what_logs_in_is_not_led_elsewhere(ray: Ray, address: str, login: Json) -> None:
    async def lead(request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect(f"{address}{request.path[1:]}")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", lead)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    leading = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with AsyncClient(api=MemoryApi(), namespace="team-a") as client:
            with pytest.raises(errors.Unauthenticated, match=f"leads to '{address}api/jobs/'"):
                await client.ray.jobs.on(address=leading, **login).submit("python x.py")
    finally:
        await runner.cleanup()
    assert not ray.jobs


async def test_a_panel_shows_the_jobs_of_a_cluster_behind_a_login(ray: Ray, address: str) -> None:
    memory = MemoryApi()
    cluster = make_cluster(state="ready")
    cluster["metadata"]["annotations"] = {"steelyard/dashboard": address}
    memory.store.create(RAY_CLUSTER.at("v1"), cluster)
    with Client(api=memory, namespace="team-a") as client:
        shown = [
            await asyncio.to_thread(widgets.panel(client, **login).actions["Jobs"], "demo")
            for login in ({"own_login": True}, {"token": "secret"})
        ]
    assert shown == ["no jobs", "no jobs"]


async def test_a_job_is_submitted_listed_and_stopped(ray: Ray, jobs: module.AsyncSubmissions) -> None:
    made = await jobs.submit(
        "python x.py",
        runtime_env=RuntimeEnv(pip=("a",)),
        metadata={"a": "b"},
        entrypoint_cpus=1,
        entrypoint_gpus=0.5,
        entrypoint_memory=1 << 30,
        entrypoint_resources={"slot": 1},
    )
    assert (made.id, made.status, made.entrypoint) == ("raysubmit_1", "RUNNING", "python x.py")
    assert ray.jobs["raysubmit_1"]["runtime_env"] == {"pip": ["a"]}
    given = {name: value for name, value in ray.jobs["raysubmit_1"].items() if name.startswith("entrypoint_")}
    assert given == {
        "entrypoint_num_cpus": 1,
        "entrypoint_num_gpus": 0.5,
        "entrypoint_memory": 1 << 30,
        "entrypoint_resources": {"slot": 1},
    }
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
    with pytest.raises(BadConfig, match=r"entrypoint: there is no x\.py in working_dir"):
        await jobs.submit("python x.py", working_dir=tmp_path)
    (tmp_path / "x.py").write_text("1")
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
