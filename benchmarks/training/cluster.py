"""The embedded API server of a measurement, in a process of its own: `python -m benchmarks.training.cluster FOLDER`.

In the same process every Pod of a training job is Running as soon as it is there, and on SIGUSR1 all of them succeed:
nothing runs.
"""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import uvloop
import yaml

from benchmarks.operator.cluster import TOKEN, allow_many_connections
from steelyard_kube.client import RestCluster, connect
from steelyard_kube.errors import Conflict, NotFound, Unreachable
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.apiserver.pki import kubeconfig
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, serve
from steelyard_local_kubernetes.installation import install_definitions
from steelyard_schema.definitions import load_definitions

JOB_NAME = "training.kubeflow.org/job-name"
IN_FLIGHT = 64
STARTED = "2026-01-01T00:00:00Z"
RUNNING: dict[str, Any] = {"startedAt": STARTED}
ENDED: dict[str, Any] = {"exitCode": 0, "reason": "Completed", "startedAt": STARTED, "finishedAt": STARTED}


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
            await Simulation(cluster).run()
        finally:
            await cluster.close()


class Simulation:
    """Every Pod's life: Running at once, Succeeded when told."""

    def __init__(self, cluster: RestCluster) -> None:
        self._cluster = cluster
        self._limit = asyncio.Semaphore(IN_FLIGHT)
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[tuple[str, str], None] = {}

    async def run(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._end_all)
        version = (await self._cluster.list(PODS)).resource_version
        while True:
            async for event in self._cluster.watch(PODS, resource_version=version, label_selector=JOB_NAME):
                version = event.object["metadata"]["resourceVersion"]
                if event.type == "ADDED":
                    metadata = event.object["metadata"]
                    pod = (metadata["namespace"], metadata["name"])
                    self._running[pod] = None
                    self._put(pod, "Running", {"running": RUNNING})

    def _end_all(self) -> None:
        for pod in self._running:
            self._put(pod, "Succeeded", {"terminated": ENDED})
        self._running.clear()

    def _put(self, pod: tuple[str, str], phase: str, state: dict[str, Any]) -> None:
        task = asyncio.create_task(self._written(pod, phase, state))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _written(self, pod: tuple[str, str], phase: str, state: dict[str, Any]) -> None:
        container = {
            "name": "pytorch",
            "image": "i",
            "imageID": "",
            "ready": phase == "Running",
            "restartCount": 0,
        }
        status = {"phase": phase, "startTime": STARTED, "containerStatuses": [{**container, "state": state}]}
        namespace, name = pod
        while True:
            try:
                async with self._limit:
                    await self._cluster.patch(PODS, name, {"status": status}, namespace, subresource="status")
            except (Conflict, Unreachable):  # on a busy machine a connection is not made in time
                continue
            except NotFound:
                pass
            return


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))
