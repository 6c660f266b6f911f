"""Runs the operator: leader election, caches, workers, events, metrics. `steelyard service operator` calls it."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING

from steelyard.operator.caches import InformerCaches
from steelyard.operator.controller import Controller
from steelyard.operator.desired import Event
from steelyard.operator.edge import Key, Stale, SyncResult
from steelyard.operator.metrics import Metrics
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflow import workflows
from steelyard.telemetry.monitoring import Address, serve_metrics
from steelyard_common.awake import Sleeps, no_sleeps
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError
from steelyard_kube.events import EventRecorder
from steelyard_kube.leader import Candidate, LeaderElector, LeaseLost, until
from steelyard_kube.resource import TRAINING
from steelyard_kube.workqueue import WorkQueue, spare_worker

if TYPE_CHECKING:
    from steelyard.operator.ray.serving.server import ServedAddresses

_log = logging.getLogger(__name__)

LEASE = "steelyard-operator"
METRICS_SECONDS = 5.0
DAY = 86_400.0
"""Longest pause before a reconciliation: a timer cannot wait for the end of the calendar."""
SETTLE_SECONDS = 0.05
"""Pause after the first change of a replica, so that one reconciliation sees replicas that begin and end together."""
SETTLE_SECONDS_PER_REPLICA = 0.001
"""Further pause for each replica of the job, whose status grows with their number."""
TRAINING_KINDS = frozenset(resource.kind for resource in TRAINING)


async def run_operator(
    cluster: Cluster,
    settings: OperatorSettings,
    *,
    candidate: Candidate,
    stop: asyncio.Event,
    metrics: Address | None = None,
    listening: Callable[[str], None] = lambda url: None,
    sleeps: Callable[[], Sleeps] = no_sleeps,
) -> None:
    """Lead, and reconcile, until `stop`. Raises LeaseLost when the lease cannot be kept: the process should end.

    `listening` is called with the address of the metrics, where they are served. Time that the machine slept, as
    `sleeps` measures it, counts for no deadline.
    """
    operator = Operator(cluster, settings, candidate.clock.now, sleeps, candidate.rng)
    elector = LeaderElector(cluster, candidate, namespace=settings.lease_namespace, name=LEASE)
    async with AsyncExitStack() as stack:
        if metrics is not None:
            figures = operator.metrics.figures
            figures.leading.labels(LEASE).set_function(lambda: elector.leading)
            listening(await stack.enter_async_context(serve_metrics(metrics, figures, operator.missing)))
        if settings.ray.serves:
            from steelyard.operator.ray.serving.server import serving

            # In each operator, whether it leads or not: a webhook without an answer refuses all.
            operator.ray_served = await stack.enter_async_context(serving(cluster, settings.ray))
        await until(stop, elector.lead(operator.work))


class Operator:
    """Caches, work queue and workers of a leader."""

    def __init__(
        self,
        cluster: Cluster,
        settings: OperatorSettings,
        now: Callable[[], datetime],
        sleeps: Callable[[], Sleeps] = no_sleeps,
        rng: Random | None = None,
    ) -> None:
        self.metrics = Metrics()
        self._cluster = cluster
        self._settings = settings
        self._now = now
        self._queue: WorkQueue[Key] = WorkQueue(
            tenant=lambda key: key.namespace,
            tenant_limit=spare_worker(settings.workers),
            metrics=self.metrics.work_queue,
        )
        self._events = EventRecorder(cluster, component="steelyard-operator", now=now)
        self.ray_served: ServedAddresses | None = None
        """Addresses where this process serves what Ray clusters need, if it does."""
        self.ready = True
        """True where the process does its part: a leader once its caches are full, another always."""
        self._workflows = workflows(settings)
        self._caches = InformerCaches(cluster, self._workflows, settings, self)
        if rng is not None:
            self._caches.draw_from(rng)
        self._controller = Controller(cluster, self._caches, self, sleeps)

    async def missing(self) -> Sequence[str]:
        """Return why the process does not do its part: kinds that it cannot follow, and caches that are not full."""
        return [*self._caches.troubles(), *(() if self.ready else ("the caches are not full yet",))]

    async def work(self) -> None:
        """Fill the caches, then reconcile until cancelled."""
        self.metrics.leading.set(1)
        self.ready = False
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._caches.run())
                tasks.create_task(self._events.run())
                tasks.create_task(self._update_gauges())
                tasks.create_task(self._run_ray())
                await self._caches.wait_until_synced()
                self.ready = True
                for _ in range(self._settings.workers):
                    tasks.create_task(self._worker())
        finally:
            # The process may go on as a candidate: its metrics must not name two leaders.
            self.metrics.leading.set(0)
            self._queue.close()

    async def _run_ray(self) -> None:
        """Manage Ray clusters; where that is off, remove the webhooks that an earlier setting has made."""
        if not self._settings.ray.enabled:
            from steelyard.operator.ray.applying import remove_configurations

            await remove_configurations(self._cluster)
            return
        from steelyard.operator.ray.run import Surroundings, run_ray
        from steelyard.operator.ray.serving.server import ServedAddresses

        surroundings = Surroundings(self.ray_served or ServedAddresses(), self._now, self._events.record)
        await run_ray(self._cluster, self._settings.ray, self._settings.namespace, surroundings)

    # ---- changes that the caches report

    def note_change(self, key: Key) -> None:
        self._queue.add(key)

    def replica_changed(self, key: Key, replicas: int) -> None:
        # A thousand Pods that start together are one reconciliation, not a thousand: each writes the whole status.
        self._queue.add_after(key, SETTLE_SECONDS + replicas * SETTLE_SECONDS_PER_REPLICA)

    def pod_changed(self, key: Key, old: Json | None, new: Json) -> None:
        child_events = self._workflows[key.resource].child_events
        events = tuple(child_events.pod_trouble(old, new)) if child_events else ()
        # Looked up only for news: most changes of Pods call for no event.
        owner = self._caches.resource(key.resource, key.namespace, key.name) if events else None
        if owner:
            for event in events:
                self.record_event(owner, event)

    # ---- the workers

    async def _worker(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._reconcile(key)
            finally:
                self._queue.finish(key)

    async def _reconcile(self, key: Key) -> None:
        kind, began = key.resource.kind, time.perf_counter()
        failed = False
        try:
            synced = await self._controller.sync(key, self._now())
        # Not a failure: the cache was behind the API, and the next attempt decides on newer objects.
        except Stale as stale:
            _log.debug("%s %s/%s: %s", kind, key.namespace, key.name, stale)
            self._retry(key, "stale")
        except ApiError as error:
            _log.warning("%s %s/%s: trying again: %s", kind, key.namespace, key.name, error)
            self._retry(key, "error")
            failed = True
        except Exception:  # noqa: BLE001 - the outermost edge: one resource's defect must not stop the others
            _log.exception("%s %s/%s: unexpected error; trying again", kind, key.namespace, key.name)
            self._retry(key, "defect")
            failed = True
        else:
            self._queue.forget(key)
            self._requeue(key, synced)
        seconds = time.perf_counter() - began
        self.metrics.seconds.labels(kind).observe(seconds)
        self.metrics.reconciliations.count(kind.lower(), seconds, failed=failed)

    def _retry(self, key: Key, result: str) -> None:
        self.metrics.syncs.labels(key.resource.kind, result).inc()
        self._queue.retry(key)

    def _requeue(self, key: Key, synced: SyncResult) -> None:
        self.metrics.syncs.labels(key.resource.kind, "done").inc()
        if synced.requeue_at:
            # At least 50 ms: a time that has just passed would otherwise reconcile in a busy loop until the cache
            # follows.
            seconds = (synced.requeue_at - self._now()).total_seconds()
            self._queue.add_after(key, min(max(0.05, seconds), DAY))
        if synced.more:  # the cache shows the write already, so that no watch announces it
            self._queue.add(key)

    # ---- what the edge records

    def record_write(self, verb: str, owner: Json, obj: Json) -> None:
        self.metrics.writes.labels(verb).inc()
        if owner["kind"] in TRAINING_KINDS:
            self.metrics.training.record_write(verb, owner, obj)

    def record_event(self, resource: Json, event: Event) -> None:
        self._events.record(resource, event.type, event.reason, event.message)

    async def _update_gauges(self) -> None:
        while True:
            self.metrics.queue.set(len(self._queue))
            self.metrics.set_resource_counts(self._caches.state_counts())
            await asyncio.sleep(METRICS_SECONDS)


__all__ = ["LeaseLost", "Operator", "run_operator"]
