"""The server under test: the embedded one, or the one that KUBECONFIG_REAL names. The same cases run on both."""

import asyncio
import os
import shutil
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from steelyard_common.types import Json
from steelyard_kube.client import RestCluster, connect
from steelyard_local_kubernetes.apiserver import pki
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, serve
from tests.kubernetes_api.api import Api, definition

TOKEN = "a token of tests"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Server:
    """An embedded server in a thread of its own, so that tests may block."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kubeconfig = folder, folder / "kubeconfig"
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        assert self._ready.wait(30)

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        folder = self.folder
        config = ApiServerConfig(folder / "kubernetes.db", folder / "pki", {TOKEN: "tester"}, folder / "pods")
        async with serve(config) as server:
            content = pki.kubeconfig(server.url, server.ca, TOKEN)
            self.kubeconfig.write_text(yaml.safe_dump(content))
            self._ready.set()
            await self._stop.wait()

    def stop(self) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)


REAL = os.environ.get("KUBECONFIG_REAL", "")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server | None]:
    """The embedded server; None where a real one is tested."""
    if REAL:
        yield None
        return
    running = Server(tmp_path_factory.mktemp("kubernetes"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def kubeconfig(server: Server | None) -> Path:
    return server.kubeconfig if server else Path(REAL)


@pytest.fixture
def embedded(server: Server | None) -> Server:
    """Return the embedded server, for cases about what only it does."""
    if server is None:
        pytest.skip("about the embedded server alone")
    return server


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[Api]:
    client = Api(kubeconfig)
    yield client
    await client.close()


@pytest.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[RestCluster]:
    client = await connect(kubeconfig)
    yield client
    await client.close()


@pytest.fixture
async def namespace(api: Api) -> AsyncIterator[str]:
    """A fresh one; on a real server, once Pods may be made in it."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok()
    if REAL:

        async def there() -> bool:
            return (await api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default")).status == 200

        await api.eventually(there, "the default account")
    yield name
    await api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def core(namespace: str) -> str:
    """The path of the core group in the test's namespace."""
    return f"/api/v1/namespaces/{namespace}"


ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
WIDGET: Json = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 8, "nullable": True},
                "port": {"x-kubernetes-int-or-string": True},
                "parts": {
                    "type": "array",
                    "maxItems": 3,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["id"],
                    "items": {
                        "type": "object",
                        "required": ["id"],
                        "properties": {
                            "id": {"type": "string"},
                            "weight": {"type": "integer", "default": 1},
                        },
                    },
                },
                "fixed": {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is fixed"}],
                },
                "free": ANYTHING,
            },
        },
        "status": ANYTHING,
    },
}
COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


async def established(api: Api, name: str) -> None:
    async def probe() -> bool:
        status = (await api.get(f"{CRDS}/{name}")).json.get("status") or {}
        conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
        return conditions.get("Established") == "True"

    await api.eventually(probe, f"{name} established")


@pytest.fixture
async def widgets(api: Api, namespace: str) -> AsyncIterator[str]:
    """The path of a custom kind of the test's own."""
    group = f"{namespace}.example.dev"
    (await api.post(CRDS, definition(group, WIDGET, additionalPrinterColumns=COLUMNS))).ok()
    await established(api, f"widgets.{group}")
    path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"

    async def served() -> bool:
        return (await api.get(path)).status == 200

    await api.eventually(served, "the new kind served")
    yield path
    await api.delete(f"{CRDS}/widgets.{group}")


def widget(path: str, name: str, /, **spec: object) -> Json:
    group = path.split("/")[2]
    spec = {"size": 1, **spec}
    return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="session")
def kubectl() -> str:
    path = shutil.which("kubectl")
    if not path:
        pytest.skip("no kubectl on this machine")
    return path
