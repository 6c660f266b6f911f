"""An operator that dies by SIGKILL right after its Nth call of the API: `python -m … STATE N COUNT_FILE`.

Counted are the calls that do an Evaluation's work; those of the lease, of events and of the caches come when they
like. With N = 0 it never dies, and COUNT_FILE says how many calls there were.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from steelyard.kube.client import connect
from steelyard.kube.cluster import Cluster, Json, ObjectList, Patch, WatchEvent
from steelyard.kube.resource import EVENTS, LEASES, Resource
from steelyard.local.state import StateDir
from steelyard.operator.main import run_operator
from steelyard.operator.settings import OperatorSettings


class DyingCluster:
    """A cluster whose caller is killed once it has made `last` calls."""

    def __init__(self, real: Cluster, last: int, counted: Path) -> None:
        self._real = real
        self._last = last
        self._counted = counted
        self._calls = 0

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        return self._count(resource, await self._real.get(resource, name, namespace))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> ObjectList:
        return await self._real.list(
            resource, namespace, label_selector=label_selector, field_selector=field_selector
        )

    async def create(self, resource: Resource, obj: Json) -> Json:
        return self._count(resource, await self._real.create(resource, obj))

    async def replace(self, resource: Resource, obj: Json, *, subresource: str = "") -> Json:
        return self._count(resource, await self._real.replace(resource, obj, subresource=subresource))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Json:
        done = await self._real.patch(resource, name, patch, namespace, subresource=subresource)
        return self._count(resource, done)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: str = "Background",
    ) -> None:
        await self._real.delete(
            resource, name, namespace, uid=uid, grace_seconds=grace_seconds, propagation=propagation
        )
        self._count(resource, {})

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int | None = None,
    ) -> AsyncIterator[WatchEvent]:
        return self._real.watch(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
        )

    async def close(self) -> None:
        await self._real.close()

    def _count(self, resource: Resource, answer: Json) -> Json:
        if resource not in (EVENTS, LEASES):
            self._calls += 1
            self._counted.write_text(str(self._calls))
            if self._calls == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
        return answer


async def main(state: StateDir, last: int, counted: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    cluster = DyingCluster(await connect(state.kubeconfig), last, counted)
    settings = OperatorSettings(storage=f"file://{state.storage}")
    await run_operator(cluster, settings, identity="localhost", stop=stop)
    await cluster.close()


if __name__ == "__main__":
    asyncio.run(main(StateDir(Path(sys.argv[1])), int(sys.argv[2]), Path(sys.argv[3])))
