"""Runs admission to queues: a change of any object that it depends on wakes one task, which reads, decides and writes.

There is one task, so no two decisions give the same quota. Everything is read from the API each time: a cache that
lags would show quota as free that has just been given.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError
from steelyard_kube.events import EventRecorder
from steelyard_kube.objects import read_labels
from steelyard_kube.resource import (
    CLUSTER_QUEUES,
    COHORTS,
    KUEUE,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from steelyard_kube.workqueue import Backoff
from steelyard_local_kubernetes.controllers.caches import Caches
from steelyard_local_kubernetes.controllers.decision import Event
from steelyard_local_kubernetes.controllers.queued_kinds import MANAGED, QUEUE
from steelyard_local_kubernetes.faults import Faults
from steelyard_local_kubernetes.queues.plan import Snapshot, plan
from steelyard_local_kubernetes.queues.writes import Refusals, drop_refused, write

ROUNDS = 12  # at most: after one outside change a job needs four
RETRIES = Backoff(base=1.0, cap=10.0)
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

    def on_change(resource: Resource, old: Json | None, new: Json | None) -> None:
        if resource in KUEUE or (
            resource in MANAGED and any(QUEUE in read_labels(obj) for obj in (old, new))
        ):
            wake.set()

    caches.listen(on_change)
    await caches.wait_for_sync()
    recorder = EventRecorder(cluster, component="steelyard-queues", now=now)

    def record(obj: Json, event: Event) -> None:
        recorder.record(obj, event.type, event.reason, event.message)

    refusals, failures = Refusals(record), 0
    stopping = asyncio.create_task(stop.wait())
    recording = asyncio.create_task(recorder.run())
    try:
        while not stop.is_set():
            waiting = asyncio.create_task(wake.wait())
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if stop.is_set():
                return
            wake.clear()
            pause = RETRIES.delay(failures)
            try:
                again = await settle(cluster, now, refusals)
                failures = 0
            except ApiError as error:
                again, failures = pause, failures + 1
                _log.warning("queues: %s; again in %.1f s", error, pause)
            except Exception:  # noqa: BLE001 - the outermost edge: one object's defect must not end admission
                again, failures = pause, failures + 1
                (faults or Faults()).count("queues", "Workload")
                _log.exception("queues: again in %.1f s", pause)
            if again is not None:
                asyncio.get_running_loop().call_later(again, wake.set)
    finally:
        for task in (stopping, recording):
            task.cancel()
        await asyncio.gather(stopping, recording, return_exceptions=True)


async def settle(
    cluster: Cluster, now: Callable[[], datetime], refusals: Refusals | None = None
) -> float | None:
    """Decide and write until there is nothing more to write; return the seconds until the next try, if any."""
    refusals = refusals or Refusals()
    for _ in range(ROUNDS):
        changes = drop_refused(plan(await read(cluster), now()), refusals)
        if not changes:
            break
        await write(cluster, changes, refusals)
    return refusals.next_in()


async def read(cluster: Cluster) -> Snapshot:
    """Read the workloads first: a job that ends in between is seen by the next round."""

    async def list_objects(resource: Resource, selector: str = "") -> tuple[Json, ...]:
        return tuple((await cluster.list(resource, label_selector=selector)).items)

    workloads = await list_objects(WORKLOADS)
    jobs = [obj for resource in MANAGED for obj in await list_objects(resource, QUEUE)]
    return Snapshot(
        jobs=tuple(jobs),
        workloads=workloads,
        local_queues=await list_objects(LOCAL_QUEUES),
        cluster_queues=await list_objects(CLUSTER_QUEUES),
        cohorts=await list_objects(COHORTS),
        flavors=await list_objects(RESOURCE_FLAVORS),
        priority_classes=await list_objects(WORKLOAD_PRIORITY_CLASSES),
        namespaces=await list_objects(NAMESPACES),
    )
