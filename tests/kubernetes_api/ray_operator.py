"""The operator's part for Ray clusters as a process that dies at one of its calls, before or after it, by SIGKILL.

`python -m tests.kubernetes_api.ray_operator KUBECONFIG NAMESPACE NAME OPERATORS CALL before|after`. Without dying, one
round ends with status 0.
"""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from steelyard.operator.ray.run import Surroundings, find_platform, sync
from steelyard.operator.ray.serving.server import ServedAddresses
from steelyard.operator.ray.settings import RaySettings
from steelyard_kube.client import RestCluster, connect


def settings_of(operators: str) -> RaySettings:
    """Return settings with everything on; the operator is called at its own address."""
    return RaySettings(
        dashboard="ingress",
        domain="example.com",
        login="127.0.0.1:0",
        network_policy=True,
        certificates=True,
        client_authorities=True,
        admission=True,
        listen="127.0.0.1:0",
        service=f"{operators}/steelyard-ray",
    )


def die_at(cluster: RestCluster, call: int, when: str) -> None:
    """Make the process die at its call of this number, counted from 1."""
    send, calls = cluster._answer, 0

    @asynccontextmanager
    async def counted(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if (calls, when) == (call, "before"):
            os.kill(os.getpid(), signal.SIGKILL)
        async with send(*given, **named) as answer:
            if (calls, when) == (call, "after"):
                os.kill(os.getpid(), signal.SIGKILL)
            yield answer

    cluster._answer = counted  # type: ignore[method-assign]


async def reconcile(cluster: RestCluster, namespace: str, name: str, operators: str, url: str) -> None:
    settings = settings_of(operators)
    platform = await find_platform(cluster, settings, Surroundings(ServedAddresses(url)))
    await sync(cluster, settings, (namespace, name), platform)


async def main(kubeconfig: str, namespace: str, name: str, operators: str, call: str, when: str) -> None:
    cluster = await connect(Path(kubeconfig))
    die_at(cluster, int(call), when)
    await reconcile(cluster, namespace, name, operators, "https://127.0.0.1:1")
    await cluster.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
