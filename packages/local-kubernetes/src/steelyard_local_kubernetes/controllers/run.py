"""Runs the built-in controllers: changes of objects become keys, workers bring each key's object to rest."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache

from steelyard_common.awake import SleptSince, never_slept
from steelyard_common.figures import Figures
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError
from steelyard_kube.events import EventRecorder
from steelyard_kube.metrics import ReconcileMetrics, WorkQueueMetrics
from steelyard_kube.resource import (
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from steelyard_kube.workqueue import Backoff, WorkQueue, spare_worker
from steelyard_local_kubernetes.at_work import SET_ASIDE, AtWork, SetAside
from steelyard_local_kubernetes.controllers.caches import Caches
from steelyard_local_kubernetes.controllers.claim import claim_key
from steelyard_local_kubernetes.controllers.decision import LONGEST_WAIT, Event
from steelyard_local_kubernetes.controllers.edge import Edge
from steelyard_local_kubernetes.controllers.kinds import CLAIM, KINDS, Key, Kind, find_owner, owner_key
from steelyard_local_kubernetes.controllers.pods import matches
from steelyard_local_kubernetes.controllers.sync import NEXT_BATCH, sync, sync_service
from steelyard_local_kubernetes.controllers.sync_budget import sync_budget
from steelyard_local_kubernetes.controllers.writes import say_failure
from steelyard_local_kubernetes.faults import Faults

SHORTEST_WAIT = 0.05  # a decision that wants another one at once must not keep all others waiting
WORKERS = 8
Work = tuple[Kind | Resource, Key]  # a resource where its controller is no Kind: Services, budgets
COUNTED = (PODS, REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS)  # what the status of a budget depends on
_log = logging.getLogger(__name__)


def utc_now() -> datetime:
    return datetime.now(UTC)


async def run_controllers(  # noqa: PLR0913 (what the process shares with its parts)
    cluster: Cluster,
    caches: Caches,
    *,
    stop: asyncio.Event,
    now: Callable[[], datetime] = utc_now,
    slept: SleptSince = never_slept,
    faults: Faults | None = None,
    figures: Figures | None = None,
    at_work: AtWork | None = None,
) -> None:
    """Run all controllers until `stop`; the caller runs `caches`."""
    registry = (figures or Figures()).registry
    queue = work_queue(WorkQueueMetrics(registry, "controllers"))
    reconciliations = ReconcileMetrics(registry)

    recorder = EventRecorder(cluster, component="steelyard-controllers", now=now)

    def record(obj: Json, event: Event) -> None:
        recorder.record(obj, event.type, event.reason, event.message)

    edge = Edge(cluster, caches, now, record, slept)

    def on_change(resource: Resource, old: Json | None, new: Json | None) -> None:
        own = new is not None and edge.own.take(new)
        if old is not None and new is None:
            edge.own.forget(old)
        for item in keys(caches, resource, old, new):
            if not (own and _resource(item[0]) == resource):
                queue.add(item)

    caches.listen(on_change)
    await caches.wait_for_sync()
    faults = faults or Faults()
    at_work = at_work or AtWork()
    workers = [
        asyncio.create_task(work(edge, queue, faults, reconciliations, at_work)) for _ in range(WORKERS)
    ]
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


def keys(caches: Caches, resource: Resource, old: Json | None, new: Json | None) -> Iterator[Work]:
    """Yields the work items that a change concerns."""
    for obj in (old, new):
        if obj is None:
            continue
        own = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        controller = find_owner(obj)
        for kind, owns, adopts in _kinds_concerned(resource):
            if resource == kind.resource:
                yield kind, own
            if owns and controller and controller[0] == kind.resource.kind:
                yield kind, controller[1]
            elif adopts:
                for adopter in caches.adopters(kind.resource, obj):
                    yield kind, (own[0], adopter["metadata"]["name"])
        if resource == PERSISTENT_VOLUMES and (bound := claim_key(obj)):
            yield CLAIM, bound
        yield from _keys_of_others(caches, resource, obj, own)


@cache
def _kinds_concerned(resource: Resource) -> tuple[tuple[Kind, bool, bool], ...]:
    """Return the kinds that a change of a resource may concern, and whether they own and adopt such objects."""
    rows = (
        (
            kind,
            resource == kind.children or any(resource == related.resource for related in kind.related),
            any(resource == adoption.children for adoption in kind.adoptions),
        )
        for kind in KINDS
    )
    return tuple(row for row in rows if row[0].resource == resource or row[1] or row[2])


def _keys_of_others(caches: Caches, resource: Resource, obj: Json, own: Key) -> Iterator[Work]:
    """Yields the work items of Services and budgets."""
    if resource in (SERVICES, POD_DISRUPTION_BUDGETS):
        yield resource, own
    elif resource == ENDPOINT_SLICES and (service := owner_key(obj, SERVICES)):
        yield SERVICES, service
    elif resource == PODS:
        for near in caches.in_namespace(SERVICES, own[0]):
            selector = near["spec"].get("selector")
            if selector and matches({"matchLabels": selector}, obj["metadata"].get("labels")):
                yield SERVICES, (own[0], near["metadata"]["name"])
    if resource in COUNTED:
        for budget in caches.in_namespace(POD_DISRUPTION_BUDGETS, own[0]):
            yield POD_DISRUPTION_BUDGETS, (own[0], budget["metadata"]["name"])


def work_queue(metrics: WorkQueueMetrics | None = None) -> WorkQueue[Work]:
    """Namespaces take turns, and one may keep all workers but one busy."""
    backoff, limit = Backoff(cap=10.0), spare_worker(WORKERS)
    return WorkQueue(backoff, tenant=lambda work: work[1][0], tenant_limit=limit, metrics=metrics)


async def work(
    edge: Edge,
    queue: WorkQueue[Work],
    faults: Faults,
    reconciliations: ReconcileMetrics | None = None,
    at_work: AtWork | None = None,
) -> None:
    """Bring one key's object to rest after the other, until cancelled."""
    while True:
        item = await queue.get()
        began, failed = time.perf_counter(), True
        try:
            wait = await _sync_with_mark(edge, item, at_work)
        except SetAside as problem:
            # Its release is a change of the object, which leads here again.
            queue.forget(item)
            _log.warning("%s", problem)
            await _say(edge, item, SET_ASIDE, str(problem))
        except ApiError as error:
            _log.warning("%s: %s; again in %.1f s", _text(item), error, queue.retry(item))
        except Exception as error:  # noqa: BLE001 - one object's surprise must not stop the others
            faults.count("controllers", _kind(item))
            _log.exception("%s cannot be worked on; again in %.1f s", _text(item), queue.retry(item))
            what = f"{type(error).__name__}: {error}"[:512]
            await _say(edge, item, "ControllerError", f"The controller cannot work on this object: {what}")
        else:
            failed = False
            queue.forget(item)
            if wait == NEXT_BATCH:
                queue.add(item)
            elif wait is not None:
                queue.add_after(item, min(max(wait, SHORTEST_WAIT), LONGEST_WAIT))
            elif edge.view.get(_resource(item[0]), *item[1]) is None:
                # A deadline may lie a day ahead: until then each deleted Job would leave its timer.
                queue.cancel(item)
        finally:
            queue.finish(item)
            if reconciliations is not None:
                seconds = time.perf_counter() - began
                reconciliations.count(_kind(item).lower(), seconds, failed=failed)


async def _sync_with_mark(edge: Edge, item: Work, at_work: AtWork | None) -> float | None:
    """Sync with the object's mark set. Raises SetAside."""
    obj = edge.view.get(_resource(item[0]), *item[1])
    if obj is None or at_work is None:
        return await _sync(edge, item)
    async with at_work.around(_resource(item[0]), obj):
        return await _sync(edge, item)


async def _sync(edge: Edge, item: Work) -> float | None:
    kind, key = item
    if isinstance(kind, Kind):
        return await sync(edge, kind, key)
    return await (sync_budget(edge, key) if kind == POD_DISRUPTION_BUDGETS else sync_service(edge, key))


async def _say(edge: Edge, item: Work, reason: str, message: str) -> None:
    """Report to readers of the object why nothing comes of it."""
    kind, key = item
    obj = edge.view.get(_resource(kind), *key)
    if obj is None:
        return
    edge.record(obj, Event(reason, message, "Warning"))
    await say_failure(edge, obj, reason, message)


def _kind(item: Work) -> str:
    return _resource(item[0]).kind


def _resource(kind: Kind | Resource) -> Resource:
    return kind.resource if isinstance(kind, Kind) else kind


def _text(item: Work) -> str:
    return f"{_kind(item)} {'/'.join(item[1])}"
