"""The embedded API server of a measurement, in a process of its own: `python -m benchmarks.operator.cluster FOLDER`.

In the same process each Job of the measurement is Complete as soon as it is there: nothing runs.
"""

import asyncio
import sys
from functools import partial
from pathlib import Path

import uvloop
import yaml

from steelyard_kube.client import RestCluster, connect
from steelyard_kube.errors import Conflict, NotFound, Unreachable
from steelyard_kube.resource import JOBS
from steelyard_local_kubernetes.apiserver import server as api_server
from steelyard_local_kubernetes.apiserver.front import Front
from steelyard_local_kubernetes.apiserver.pki import kubeconfig
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, serve
from steelyard_local_kubernetes.installation import install_definitions
from steelyard_schema.definitions import load_definitions

TOKEN = "benchmark"
IN_FLIGHT = 32


def allow_many_connections() -> None:
    """Keep thousands of idle connections: kopf opens one for each change that it makes at once, and does not repeat a
    request whose connection was closed meanwhile.
    """
    api_server.Front = partial(Front, waiting=4096)  # type: ignore[attr-defined, assignment]


async def main(folder: Path) -> None:
    allow_many_connections()
    config = ApiServerConfig(database=folder / "kubernetes.db", pki=folder / "pki", tokens={TOKEN: "admin"})
    async with serve(config) as server:
        written = folder / "kubeconfig.part"
        written.write_text(yaml.safe_dump(kubeconfig(server.url, server.ca, TOKEN)))
        cluster = await connect(written)
        await install_definitions(cluster, load_definitions())
        written.rename(folder / "kubeconfig")
        try:
            await complete_jobs(cluster)
        finally:
            await cluster.close()


async def complete_jobs(cluster: RestCluster) -> None:
    """Every Job ends well at once."""
    status = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    version = (await cluster.list(JOBS)).resource_version
    pending: set[asyncio.Task[None]] = set()
    limit = asyncio.Semaphore(IN_FLIGHT)

    async def complete(name: str, namespace: str) -> None:
        while True:
            try:
                async with limit:
                    await cluster.patch(JOBS, name, status, namespace, subresource="status")
            except (Conflict, Unreachable):  # on a busy machine a connection is not made in time
                continue
            except NotFound:
                pass
            return

    while True:
        async for event in cluster.watch(JOBS, resource_version=version):
            version = event.object["metadata"]["resourceVersion"]
            if event.type == "ADDED":
                metadata = event.object["metadata"]
                task = asyncio.create_task(complete(metadata["name"], metadata["namespace"]))
                pending.add(task)
                task.add_done_callback(pending.discard)


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))
