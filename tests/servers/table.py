"""Every HTTP server of Steelyard, begun in this process as its program begins it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from steelyard.operator.ray.serving.server import serving
from steelyard.operator.ray.settings import RaySettings
from steelyard.steps.common import Log
from steelyard.steps.evaluation_metrics import Metrics
from steelyard.steps.mock_inference_service import Faults, Mock, make_app
from steelyard.steps.session_identity import serve
from steelyard.telemetry.monitoring import Address, serve_metrics
from steelyard_common.figures import Figures
from steelyard_common.serving.aiohttp_server import serving_app
from steelyard_evaluation.engine.doubles import free_port
from steelyard_kube.memory import MemoryCluster
from tests.platform_api.test_served import served as served_api

HOST = "127.0.0.1"


class Server(NamedTuple):
    """One server: where it listens, and a path that it answers to anybody."""

    port: int
    path: str


@asynccontextmanager
async def api() -> AsyncIterator[Server]:
    with TemporaryDirectory() as state:
        async with served_api(Path(state)) as made:
            yield Server(urlsplit(made.url).port or 0, "/health")


@asynccontextmanager
async def metrics() -> AsyncIterator[Server]:
    async with serve_metrics(Address(HOST, 0), Figures(CollectorRegistry())) as url:
        yield Server(urlsplit(url).port or 0, "/healthz")


@asynccontextmanager
async def model_server() -> AsyncIterator[Server]:
    """Server of the programs that call `steps.service.serve`: runners of ours, hosted models, mock models."""
    async with serving_app(make_app(Mock(Faults(latency_ms=0.0))), HOST, 0, shutdown_timeout=0.1) as (
        _,
        port,
    ):
        yield Server(port, "/ready")


@asynccontextmanager
async def evaluation_metrics() -> AsyncIterator[Server]:
    async with Metrics().serve(HOST, Log("test"), port := free_port(HOST)):
        yield Server(port, "/metrics")


@asynccontextmanager
async def session_identity() -> AsyncIterator[Server]:
    server = await serve("s", HOST, 0)
    try:
        yield Server(server.sockets[0].getsockname()[1], "/ready")
    finally:
        server.close()


@asynccontextmanager
async def ray_login() -> AsyncIterator[Server]:
    async with serving(MemoryCluster(), RaySettings(login=f"{HOST}:0")) as addresses:
        server = Server(urlsplit(addresses.login_url).port or 0, "/")
        async with asyncio.timeout(60):
            while not await listens(server):  # noqa: ASYNC110 - it begins beside the operator, which is not told
                await asyncio.sleep(0.01)
        yield server


async def listens(server: Server) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, server.port)
    except ConnectionError:
        return False
    writer.transport.abort()
    return True


SERVERS: dict[str, Callable[[], AbstractAsyncContextManager[Server]]] = {
    "api": api,
    "metrics": metrics,
    "model server": model_server,
    "evaluation metrics": evaluation_metrics,
    "session identity": session_identity,
    "ray login": ray_login,
}


async def answer(server: Server, *, host: str = HOST, more: str = "") -> bytes:
    """Return the first line of the answer to an honest request. Raises TimeoutError after a second."""
    async with asyncio.timeout(1):
        reader, writer = await asyncio.open_connection(HOST, server.port)
        try:
            writer.write(
                f"GET {server.path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n".encode()
            )
            return await reader.readline()
        finally:
            writer.transport.abort()
