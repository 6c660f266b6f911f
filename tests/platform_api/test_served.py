"""The API as it is served: by uvicorn, on the engines of one machine, to the published client and over WebSockets."""

import asyncio
import errno
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import websockets

from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.tokens import bootstrap
from steelyard.api.http.app import Platform, make_app
from steelyard.api.http.serve import serve
from steelyard.api.settings import ApiSettings
from steelyard.broker.open import open_log
from steelyard.views.open import open_view
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.egress import EgressSettings
from steelyard_schema.ids import random_id
from tests.platform_api.memory_platform import NO_EGRESS, Engines, model, running_services

if TYPE_CHECKING:
    from dyff.client import Client


def now() -> datetime:
    return datetime.now(UTC)


@dataclass
class ServedPlatform:
    url: str
    token: str
    engines: Engines
    stop: asyncio.Event
    ending: asyncio.Event

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@asynccontextmanager
async def served(
    state: Path,
    clock: Callable[[], datetime] = now,
    egress: EgressSettings = NO_EGRESS,
    drain: float | None = None,
) -> AsyncIterator[ServedPlatform]:
    accounts_database = await open_accounts_database(f"sqlite:{state}/accounts.db")
    log, view = await open_log(f"sqlite:{state}/log.db"), await open_view(f"sqlite:{state}/view.db")
    engines = Engines(log, view, accounts_database, open_store(f"file://{state}/storage"))
    async with AsyncExitStack() as stack:
        for engine in (log, view, accounts_database):
            stack.push_async_callback(engine.close)
        await stack.enter_async_context(running_services(engines))
        platform = Platform(
            log,
            view,
            accounts_database,
            engines.store,
            ApiSettings(recheck_seconds=0.1, drain_seconds=drain),
            b"secret",
            clock,
            random_id,
            secret_keys=engines.secret_keys,
            egress=egress,
        )
        token = await bootstrap(accounts_database.accounts, "administrator", now())
        url, stop, ending = await stack.enter_async_context(serving_until(platform))
        yield ServedPlatform(f"{url}/v0", token, engines, stop, ending)
    with pytest.raises(httpx.ConnectError):
        await asyncio.to_thread(httpx.get, f"{url}/health")


@asynccontextmanager
async def serving(platform: Platform) -> AsyncIterator[str]:
    async with serving_until(platform) as (url, _, _):
        yield url


@asynccontextmanager
async def serving_until(platform: Platform) -> AsyncIterator[tuple[str, asyncio.Event, asyncio.Event]]:
    """Yield the server's URL, the event that asks it to end, and the one by which it says that it does."""
    stop, bound = asyncio.Event(), asyncio.get_running_loop().create_future()
    app = make_app(platform)
    task = asyncio.create_task(serve(app, "127.0.0.1", 0, stop=stop, ready=bound.set_result))
    try:
        yield await bound, stop, app.api.ending
    finally:
        stop.set()
        await task


def _publish(api: ServedPlatform, folder: Path) -> Json:
    """Upload a dataset with the published client, as its users do."""
    from dyff.client import Client

    client = Client(api_token=api.token, endpoint=api.url)
    try:
        return _published(client, folder)
    finally:
        client._http.close()  # it has no public close


def _published(client: "Client", folder: Path) -> Json:
    from dyff.schema.commands import EditEntityDocumentationPatch
    from dyff.schema.platform import ModelResources
    from dyff.schema.requests import DocumentationEditRequest

    data = client.datasets.create_arrow_dataset(folder / "data", account="test", name="digits")
    client.datasets.upload_arrow_dataset(data, folder / "data")
    client.datasets.label(data.id, {"team": "blue"})
    edit = DocumentationEditRequest(documentation=EditEntityDocumentationPatch(title="T"))
    client.datasets.edit_documentation(data.id, edit)
    client.datasets.download(data.id, folder / "back")
    weights = client.models.create_from_volume(
        folder / "data", account="test", name="m", resources=ModelResources(storage="1Mi")
    )
    client.models.upload_volume(weights, folder / "data")
    return {
        "dataset": client.datasets.get(data.id).status,
        "found": [dataset.id for dataset in client.datasets.query(labels={"team": "blue"})] == [data.id],
        "titled": client.datasets.documentation(data.id).title,
        "model": client.models.get(weights.id).status,
        "deleted": client.datasets.delete(data.id).status,
    }


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
async def test_the_published_client_uploads_and_downloads(tmp_path: Path) -> None:
    (tmp_path / "data/deep").mkdir(parents=True)
    for name in ("a b.parquet", "deep/c.parquet"):
        pq.write_table(pa.table({"n": list(range(1000))}), tmp_path / "data" / name)
    async with served(tmp_path) as api:
        assert await asyncio.to_thread(_publish, api, tmp_path) == {
            "dataset": "Ready",
            "found": True,
            "titled": "T",
            "model": "Created",
            "deleted": "Deleted",
        }
    for name in ("a b.parquet", "deep/c.parquet"):
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "data" / name).read_bytes()


async def test_what_is_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path) as api, httpx.AsyncClient(base_url=api.url, headers=api.headers) as client:
        made = (await client.post("/models", json={"account": "acme", **model()})).json()
        await client.patch(f"/models/{made['id']}/labels", json={"labels": {"a": "b"}})
    async with served(tmp_path) as api, httpx.AsyncClient(base_url=api.url, headers=api.headers) as client:
        assert (await client.get(f"/models/{made['id']}")).json()["labels"] == {"a": "b"}


async def test_lines_are_streamed_as_they_are_written(tmp_path: Path) -> None:
    async with served(tmp_path) as api, httpx.AsyncClient(base_url=api.url, headers=api.headers) as client:
        made = (await client.post("/models", json={"account": "acme", **model()})).json()
        pieces = f"models/{made['id']}/.dyff/logs/p1"
        await api.engines.store.put(f"{pieces}/000000", b"first\n")
        url = f"{api.url.replace('http', 'ws', 1)}/models/{made['id']}/logs/workflow/stream"
        async with websockets.connect(url, additional_headers=api.headers) as socket:
            assert json.loads(await socket.recv())["message"] == "first"
            await api.engines.store.put(f"{pieces}/000001", b"second\n")
            assert json.loads(await socket.recv())["message"] == "second"
            await client.put(f"/models/{made['id']}/terminate")
            with pytest.raises(websockets.ConnectionClosedOK):
                await socket.recv()


@pytest.mark.parametrize("drift", [0, -1], ids=["a true clock", "a clock that is set back again and again"])
async def test_a_stream_ends_when_its_token_counts_no_more(tmp_path: Path, drift: int) -> None:
    clock = (now() + timedelta(seconds=drift * reading) for reading in count())
    async with (
        served(tmp_path, lambda: next(clock)) as api,
        httpx.AsyncClient(base_url=api.url, headers=api.headers) as client,
    ):
        made = (await client.post("/models", json={"account": "acme", **model()})).json()
        owner = (await client.post("/accounts", json={"name": "owner"})).json()
        grants = [{"resources": ["models"], "functions": ["data"], "accounts": ["acme"]}]
        await client.put(f"/accounts/{owner['id']}/permissions", json={"permissions": grants})
        body = {"grants": grants, "expires": "2100-01-01T00:00:00Z"}
        token = (await client.post(f"/accounts/{owner['id']}/tokens", json=body)).json()
        url = f"{api.url.replace('http', 'ws', 1)}/models/{made['id']}/logs/workflow/stream"
        headers = {"Authorization": f"Bearer {token}"}
        async with websockets.connect(url, additional_headers=headers) as socket:
            await client.delete(f"/accounts/{owner['id']}/tokens")
            with pytest.raises(websockets.ConnectionClosedError) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1008
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with websockets.connect(url, additional_headers=headers):
                pass
        assert refused.value.response.status_code == 401


async def test_a_server_that_ends_goes_on_for_a_while_and_ends_streams_with_a_word(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(served(tmp_path, drain=1.0))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=api.url, headers=api.headers))
        made = (await client.post("/models", json={"account": "acme", **model()})).json()
        url = f"{api.url.replace('http', 'ws', 1)}/models/{made['id']}/logs/workflow/stream"
        socket = await stack.enter_async_context(websockets.connect(url, additional_headers=api.headers))
        root = api.url.removesuffix("/v0")
        assert (await client.get(f"{root}/readyz")).status_code == 200
        api.stop.set()
        while (await client.get(f"{root}/readyz")).status_code == 200:
            pass
        answers = 0
        # New connections, too: the Service still routes to this server.
        while not api.ending.is_set():
            async with httpx.AsyncClient(headers=api.headers) as other:
                assert (await other.get(f"{api.url}/models/{made['id']}")).status_code == 200
                assert (await other.get(f"{root}/health")).status_code == 200
                answers += 1
        assert answers > 1
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (
            1012,
            "this API server ends; connect again",
        )


async def test_a_stream_that_storage_breaks_off_is_closed_as_an_error(tmp_path: Path) -> None:
    async with served(tmp_path) as api, httpx.AsyncClient(base_url=api.url, headers=api.headers) as client:
        made = (await client.post("/models", json={"account": "acme", **model()})).json()
        piece = tmp_path / f"storage/models/{made['id']}/.dyff/logs/p1/000000"
        piece.parent.mkdir(parents=True)
        piece.symlink_to(piece)  # nobody can read it
        url = f"{api.url.replace('http', 'ws', 1)}/models/{made['id']}/logs/workflow/stream"
        async with websockets.connect(url, additional_headers=api.headers) as socket:
            with pytest.raises(websockets.ConnectionClosedError) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1011


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        taken = int(api.url.split(":")[2].partition("/")[0])
        platform = Platform(
            api.engines.log,
            api.engines.view,
            api.engines.accounts_database,
            api.engines.store,
            ApiSettings(),
            b"s",
            now,
            random_id,
        )
        with pytest.raises(OSError, match="in use"):
            await serve(make_app(platform), "127.0.0.1", taken, stop=asyncio.Event())


@pytest.mark.parametrize("how", ["it cannot say where it listens", "it is cancelled"])
async def test_nothing_is_answered_any_more_when_it_fails(tmp_path: Path, how: str) -> None:
    """A failed process that still took requests would accept what nobody works on."""
    async with served(tmp_path) as api:
        engines, listens = api.engines, asyncio.get_running_loop().create_future()

        def ready(url: str) -> None:
            listens.set_result(url)
            if how.startswith("it cannot"):
                raise OSError(errno.ENOSPC, "No space left on device")

        platform = Platform(
            engines.log,
            engines.view,
            engines.accounts_database,
            engines.store,
            ApiSettings(),
            b"s",
            now,
            random_id,
        )
        task = asyncio.create_task(
            serve(make_app(platform), "127.0.0.1", 0, stop=asyncio.Event(), ready=ready)
        )
        url = await listens
        if how == "it is cancelled":
            task.cancel()
        done, _ = await asyncio.wait([task], timeout=10)
        assert done
        with pytest.raises(httpx.ConnectError):
            await asyncio.to_thread(httpx.get, f"{url}/health")
        assert task.cancelled() or task.exception()
