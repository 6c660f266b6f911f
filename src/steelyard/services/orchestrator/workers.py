"""Workers of the leading orchestrator: each takes entities from the work queue, and reconciles one at a time.

`leader.py` makes them and fills the queue.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

from steelyard.broker.log import Log
from steelyard.broker.quarantine.dead_letters import describe_error
from steelyard.broker.quarantine.marks import Aside
from steelyard.services.leadership import Leadership, ensure_leader
from steelyard.services.orchestrator.edge import NotYet
from steelyard.services.orchestrator.metrics import OrchestratorMetrics
from steelyard_common.errors import is_engine_failure
from steelyard_kube.errors import ApiError
from steelyard_kube.leader import Clock
from steelyard_kube.workqueue import WorkQueue

_log = logging.getLogger(__name__)

RESOURCES = "resources"
"""Name under which entities whose reconciliation fails are put in quarantine."""
RECONCILER = "orchestrator"
"""Name of the workers in the figures of reconciliations."""
DEFECTS = 5
"""Failures in a row, with growing pauses, after which an entity is put in quarantine; it is still tried at times."""


class Quarantine:
    """Entities at which the orchestrator failed, for an administrator to see."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._opened: Aside | None = None

    async def ids(self) -> frozenset[str]:
        """Return the entities in quarantine, those of earlier leaders among them."""
        return (await self._aside()).keys

    async def put(self, id: str, error: Exception) -> None:
        """Put an entity in quarantine. It is tried again when it changes, at each comparison and at the next start."""
        _log.error("%s: is put in quarantine", id, exc_info=error)
        await (await self._aside()).put(id, describe_error(error))

    async def clear(self, id: str) -> None:
        """Take back the mark of an entity that was reconciled after all."""
        if self._opened is not None:
            await self._opened.clear(id)

    async def _aside(self) -> Aside:
        if self._opened is None:
            self._opened = await Aside.open(self._log, RESOURCES)
        return self._opened


class Workers:
    """Takes entities from a work queue, and reconciles them. `work` is run by as many tasks as there are workers."""

    def __init__(
        self,
        queue: WorkQueue[str],
        reconcile: Callable[[str, datetime], Awaitable[float | None]],
        quarantine: Quarantine,
        *,
        clock: Clock,
        leadership: Leadership,
        metrics: OrchestratorMetrics,
    ) -> None:
        """`reconcile` returns the seconds after which to requeue the entity, if any. It raises ApiError, NotYet."""
        self._queue = queue
        self._reconcile = reconcile
        self._quarantine = quarantine
        self._clock = clock
        self._leadership = leadership
        self._metrics = metrics

    async def work(self) -> None:
        """Take entities until cancelled. Raises the errors of engines, and that of a leadership that has ended."""
        while True:
            id = await self._queue.get()
            try:
                await self._attempt(id)
            finally:
                self._queue.finish(id)

    async def _attempt(self, id: str) -> None:
        began, failed = self._clock.monotonic(), True
        try:
            await ensure_leader(self._leadership)
            requeue_after = await self._reconcile(id, self._clock.now())
        except (ApiError, NotYet) as error:
            # Once per series of failures: an API server that is away for an hour would fill the log.
            level = logging.WARNING if not self._queue.failures(id) else logging.DEBUG
            _log.log(level, "%s: trying again: %s", id, error)
            self._retry(id)
        except Exception as error:
            # The outermost edge: a defect that one entity meets must not stop the others.
            if is_engine_failure(error):
                raise
            # One failure may be a moment's; as many in a row are the entity's own, and an administrator has to know.
            if self._queue.failures(id) == DEFECTS:
                await self._quarantine.put(id, error)
            else:
                _log.error("%s: a defect; trying again", id, exc_info=error)
            self._retry(id)
        else:
            failed = False
            self._queue.forget(id)
            await self._quarantine.clear(id)
            if requeue_after is not None:
                self._queue.add_after(id, requeue_after)
        seconds = self._clock.monotonic() - began
        self._metrics.reconciliations.count(RECONCILER, seconds, failed=failed)

    def _retry(self, id: str) -> None:
        self._metrics.retries.inc()
        self._queue.retry(id)
