"""The embedded API server of a measurement, in a process of its own: `python -m benchmarks.operator.cluster FOLDER`.

In the same process each Job of the measurement is Complete as soon as it is there: nothing runs.
"""

import asyncio
import sys
from pathlib import Path

import uvloop
import yaml

from steelyard.local.apiserver.pki import kubeconfig
from steelyard.local.apiserver.server import ApiServerConfig, serve
from steelyard.local.service import apply_crds
from steelyard_kube.client import RestCluster, connect
from steelyard_kube.errors import Conflict, NotFound
from steelyard_kube.resource import JOBS

TOKEN = "benchmark"


async def main(folder: Path) -> None:
    config = ApiServerConfig(database=folder / "kubernetes.db", pki=folder / "pki", tokens={TOKEN: "admin"})
    async with serve(config) as server:
        written = folder / "kubeconfig.part"
        written.write_text(yaml.safe_dump(kubeconfig(server.url, server.ca, TOKEN)))
        cluster = await connect(written)
        await apply_crds(cluster)
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

    async def complete(name: str, namespace: str) -> None:
        try:
            await cluster.patch(JOBS, name, status, namespace, subresource="status")
        except (NotFound, Conflict):
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
