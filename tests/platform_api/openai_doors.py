"""The servers of OpenAI's API that Steelyard has, each with a model `large`: for tests, and for published clients."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from aiohttp.test_utils import TestServer

from steelyard.api.inference_sessions.replicas import PORT, Replicas
from steelyard.steps.mock_inference_service import Faults, Mock, make_app
from steelyard_evaluation.engine.doubles import free_host, free_port, identity_server
from steelyard_evaluation.hosted.doubles import FakeProvider
from steelyard_evaluation.hosted.test_proxy import serving
from steelyard_schema.names import account_namespace
from tests.platform_api.memory_platform import make_platform
from tests.platform_api.test_sessions import session


@asynccontextmanager
async def mock_server(**faults: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        TestServer(make_app(Mock(Faults(**faults), models=("large", "org/small")))) as server,
        httpx.AsyncClient(base_url=str(server.make_url("/v1"))) as client,
    ):
        yield client


@asynccontextmanager
async def hosted_model(
    provider: FakeProvider | None = None, **limits: Any
) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving(provider or FakeProvider(), **{"tokens_total": 10_000, **limits}) as setting,
        httpx.AsyncClient(base_url=str(setting.client.make_url("/v1"))) as client,
    ):
        yield client


@asynccontextmanager
async def replica(hosts: Path, session: str, port: int, **faults: Any) -> AsyncIterator[None]:
    """The mock as the replica of a session of the account acme, at an address that the hosts file names."""
    _name(hosts, session, host := free_host())
    app = make_app(Mock(Faults(**faults), models=("large", "org/small")))
    async with TestServer(app, host=host, port=PORT), identity_server(session, host, port):
        yield


@asynccontextmanager
async def session_of_mock(**faults: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The API in front of a session, in this process."""
    with TemporaryDirectory() as folder:
        hosts, port = Path(folder) / "hosts", free_port()
        async with make_platform(replicas=Replicas({"STEELYARD_HOSTS": str(hosts)}, port)) as platform:
            made, token = await session(platform)
            async with replica(hosts, made["id"], port, **faults), platform.client(token) as client:
                client.base_url = client.base_url.join(f"inferencesessions/{made['id']}/infer/v1")
                yield client


def _name(hosts: Path, session: str, host: str) -> None:
    hosts.write_text(f"{host} inferencesession-{session}.{account_namespace('acme')}.svc\n")


DOORS: dict[str, Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]] = {
    "mock": mock_server,
    "hosted model": hosted_model,
    "session": session_of_mock,
}
