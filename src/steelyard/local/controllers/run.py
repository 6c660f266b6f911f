"""Runs the built-in controllers: changes of objects become keys, workers bring each key's object to rest."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from steelyard.kube.cluster import Cluster
from steelyard.kube.errors import ApiError
from steelyard.kube.events import EventRecorder
from steelyard.kube.resource import ENDPOINT_SLICES, PODS, SERVICES, Json, Resource
from steelyard.kube.workqueue import Backoff, WorkQueue
from steelyard.local.controllers import pods as of
from steelyard.local.controllers.caches import Caches
from steelyard.local.controllers.decision import Event
from steelyard.local.controllers.sync import KINDS, Edge, Key, Kind, owner_key, sync, sync_service

WORKERS = 8
_log = logging.getLogger(__name__)


def utc_now() -> datetime:
    return datetime.now(UTC)


async def run_controllers(
    cluster: Cluster,
    caches: Caches,
    *,
    stop: asyncio.Event,
    now: Callable[[], datetime] = utc_now,
) -> None:
    """Until `stop`; `caches` is run by the caller."""
    queue: WorkQueue[tuple[Kind | None, Key]] = WorkQueue(Backoff(cap=10.0))

    def changed(resource: Resource, old: Json | None, new: Json | None) -> None:
        for each in keys(caches, resource, old, new):
            queue.add(each)

    caches.listen(changed)
    await caches.synced()
    recorder = EventRecorder(cluster, component="steelyard-controllers", now=now)

    def record(obj: Json, event: Event) -> None:
        recorder.record(obj, event.type, event.reason, event.message)

    edge = Edge(cluster, caches, now, record)
    workers = [asyncio.create_task(_work(edge, queue)) for _ in range(WORKERS)]
    workers.append(asyncio.create_task(recorder.run()))
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait({*workers, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        queue.close()
        for task in (*workers, stopping):
            task.cancel()
        await asyncio.gather(*workers, stopping, return_exceptions=True)


def keys(
    caches: Caches, resource: Resource, old: Json | None, new: Json | None
) -> Iterator[tuple[Kind | None, Key]]:
    """Whose business a change is; None stands for the Service controller."""
    for obj in (old, new):
        if obj is None:
            continue
        own = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        for kind in KINDS:
            if resource == kind.resource:
                yield kind, own
            if resource == kind.children and (owner := owner_key(obj, kind.resource)):
                yield kind, owner
        if resource == SERVICES:
            yield None, own
        elif resource == ENDPOINT_SLICES and (service := owner_key(obj, SERVICES)):
            yield None, service
        elif resource == PODS:
            for each in caches.in_namespace(SERVICES, own[0]):
                selector = each["spec"].get("selector")
                if selector and of.matches({"matchLabels": selector}, obj["metadata"].get("labels")):
                    yield None, (own[0], each["metadata"]["name"])


async def _work(edge: Edge, queue: WorkQueue[tuple[Kind | None, Key]]) -> None:
    while True:
        item = await queue.get()
        kind, key = item
        try:
            wait = await (sync(edge, kind, key) if kind else sync_service(edge, key))
        except ApiError as error:
            name = kind.resource.kind if kind else "Service"
            _log.warning("%s %s/%s: %s; again in %.1f s", name, *key, error, queue.retry(item))
        else:
            queue.forget(item)
            if wait is not None:
                queue.add_after(item, wait)
        finally:
            queue.done(item)
