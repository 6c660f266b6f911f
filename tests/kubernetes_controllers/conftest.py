"""The server and the controllers under test.

By default the embedded server with its controllers. With KUBECONFIG_REAL a real API server: with its own
controller manager, or, where STEELYARD_CONTROLLERS is `ours`, with our controllers in place of that one's (`ours.py`).
Nothing runs Pods: the cases report of them what a kubelet would.
"""

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from steelyard_kube.client import connect
from steelyard_kube.errors import NotFound
from steelyard_kube.resource import NAMESPACES, SERVICE_ACCOUNTS
from tests.kubernetes_controllers.sandbox import Sandbox, until
from tests.kubernetes_differential.embedded import embedded_server

REAL = os.environ.get("KUBECONFIG_REAL", "")
OURS = os.environ.get("STEELYARD_CONTROLLERS") == "ours"


@pytest.fixture(scope="session")
def kubeconfig() -> Iterator[Path]:
    if REAL:
        yield Path(REAL)
        return
    with embedded_server() as embedded:
        yield embedded


@pytest.fixture
async def sandbox(kubeconfig: Path) -> AsyncIterator[Sandbox]:
    """A namespace of the case's own."""
    cluster = await connect(kubeconfig)
    name = f"c-{uuid.uuid4().hex[:8]}"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await cluster.create(NAMESPACES, space)

    async def account() -> bool:
        try:
            return bool(await cluster.get(SERVICE_ACCOUNTS, "default", name))
        except NotFound:
            return False

    await until(account, "the default account")
    yield Sandbox(cluster, name)
    await cluster.delete(NAMESPACES, name)
    await cluster.close()
