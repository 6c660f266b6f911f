"""A client, and a namespace and queues of the test's own, on the server that the suite has started."""

import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard.clusters import AsyncClient
from tests.engines.operators.making import KUBECONFIG, Queues
from tests.kubernetes_api.api import Api


@pytest.fixture
def kubeconfig() -> Path:
    return Path(os.environ[KUBECONFIG])


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[Api]:
    api = Api(kubeconfig)
    yield api
    await api.close()


@pytest.fixture
async def namespace(api: Api) -> AsyncIterator[str]:
    """A fresh one, once Pods may be made in it."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok()

    async def there() -> bool:
        return (await api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default")).status == 200

    await api.eventually(there, "the default account")
    yield name
    await api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
async def client(kubeconfig: Path, namespace: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(kubeconfig=kubeconfig, namespace=namespace) as client:
        yield client


@pytest.fixture
async def queues(client: AsyncClient, namespace: str) -> AsyncIterator[Queues]:
    """Queues of the test's own."""
    made = Queues(client, namespace)
    yield made
    await made.remove()
