"""Runs admission to queues: a change of any object that it depends on wakes one task, which reads, decides and writes.

There is one task, so no two decisions give the same quota. Everything is read from the API each time: a cache that
lags would show quota as free that has just been given.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from steelyard.kube.cluster import Cluster
from steelyard.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from steelyard.kube.objects import labels_of
from steelyard.kube.resource import (
    CLUSTER_QUEUES,
    COHORTS,
    KUEUE,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
    resource_of,
)
from steelyard.local.controllers.caches import Caches
from steelyard.local.faults import Faults
from steelyard.local.queues.managed import MANAGED, QUEUE
from steelyard.local.queues.plan import Plan, Snapshot, plan
from steelyard.types import Json

ROUNDS = 12  # at most: after one outside change a job needs four
RETRY_SECONDS = 1.0
_log = logging.getLogger(__name__)


async def run_queues(
    cluster: Cluster,
    caches: Caches,
    *,
    stop: asyncio.Event,
    now: Callable[[], datetime],
    faults: Faults | None = None,
) -> None:
    """Admit until `stop`; the caller runs `caches`."""
    wake = asyncio.Event()

    def changed(resource: Resource, old: Json | None, new: Json | None) -> None:
        if resource in KUEUE or (resource in MANAGED and any(QUEUE in labels_of(obj) for obj in (old, new))):
            wake.set()

    caches.listen(changed)
    await caches.synced()
    stopping = asyncio.create_task(stop.wait())
    try:
        while not stop.is_set():
            waiting = asyncio.create_task(wake.wait())
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if stop.is_set():
                return
            wake.clear()
            try:
                await settle(cluster, now)
            except ApiError as error:
                _log.warning("queues: %s; again in %.1f s", error, RETRY_SECONDS)
                asyncio.get_running_loop().call_later(RETRY_SECONDS, wake.set)
            except Exception:  # noqa: BLE001 - the outermost edge: one object's defect must not end admission
                (faults or Faults()).count("queues", "Workload")
                _log.exception("queues: again in %.1f s", RETRY_SECONDS)
                asyncio.get_running_loop().call_later(RETRY_SECONDS, wake.set)
    finally:
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)


async def settle(cluster: Cluster, now: Callable[[], datetime]) -> None:
    """Decide and write until there is nothing more to write."""
    for _ in range(ROUNDS):
        changes = plan(await read(cluster), now())
        if not changes:
            return
        await _write(cluster, changes)


async def read(cluster: Cluster) -> Snapshot:
    """Read the workloads first: a job that ends in between is seen by the next round."""

    async def listed(resource: Resource, selector: str = "") -> tuple[Json, ...]:
        return tuple((await cluster.list(resource, label_selector=selector)).items)

    workloads = await listed(WORKLOADS)
    jobs = [obj for resource in MANAGED for obj in await listed(resource, QUEUE)]
    return Snapshot(
        jobs=tuple(jobs),
        workloads=workloads,
        local_queues=await listed(LOCAL_QUEUES),
        cluster_queues=await listed(CLUSTER_QUEUES),
        cohorts=await listed(COHORTS),
        flavors=await listed(RESOURCE_FLAVORS),
        priority_classes=await listed(WORKLOAD_PRIORITY_CLASSES),
        namespaces=await listed(NAMESPACES),
    )


async def _write(cluster: Cluster, changes: Plan) -> None:
    """Write. The next round decides again about what has changed meanwhile."""
    for obj, status in changes.statuses:
        try:
            await cluster.replace(resource_of(obj), {**obj, "status": status}, subresource="status")
        except (Conflict, NotFound):
            return
    for obj, patch in changes.patches:
        metadata = obj["metadata"]
        guarded = {**patch, "metadata": {"resourceVersion": metadata["resourceVersion"]}}
        try:
            await cluster.patch(resource_of(obj), metadata["name"], guarded, metadata["namespace"])
        except (Conflict, NotFound):
            return
    for obj in changes.deletes:
        metadata = obj["metadata"]
        try:
            await cluster.delete(WORKLOADS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        except (Conflict, NotFound):
            return
    for obj in changes.creates:
        try:
            await cluster.create(WORKLOADS, obj)
        except AlreadyExists:
            return
