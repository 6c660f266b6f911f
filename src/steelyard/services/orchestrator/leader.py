"""The orchestrator that leads: its tasks, and what they share.

The consumer writes claims and nothing else. The scheduler admits. Workers take entities from a work queue and
make or delete their resources. Once a minute everything is compared: nothing depends on having seen a change.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from steelyard.accounts.claims import Claim, Claims
from steelyard.broker.follow import follow
from steelyard.broker.log import STATE, Log, Message, Record
from steelyard.services.leadership import Leadership, ensure_leader
from steelyard.services.orchestrator.cache import ResourceCache, is_finished
from steelyard.services.orchestrator.claim_parser import parse_claim, read_position
from steelyard.services.orchestrator.comparison import (
    UnreportedStatus,
    expiry_command,
    find_unreported,
    is_unsettled,
    is_unwanted,
)
from steelyard.services.orchestrator.desired import is_over
from steelyard.services.orchestrator.edge import Edge
from steelyard.services.orchestrator.isolation import run_isolated
from steelyard.services.orchestrator.metrics import OrchestratorMetrics
from steelyard.services.orchestrator.observed import ObservedClaims
from steelyard.services.orchestrator.reports import StatusReporter
from steelyard.services.orchestrator.rules import AdmissionRules
from steelyard.services.orchestrator.runs import (
    Follower,
    ObservedRuns,
    find_forgotten,
    list_followed,
    status_change,
)
from steelyard.services.orchestrator.scheduler import Scheduler, find_claims
from steelyard.services.orchestrator.secrets import SecretValues
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard.services.orchestrator.workers import Quarantine, Workers
from steelyard.services.status_commands import Status
from steelyard_common.errors import is_engine_failure
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.leader import Candidate
from steelyard_kube.workqueue import Backoff, WorkQueue, spare_worker
from steelyard_schema.names import account_namespace
from steelyard_schema.quota import Quota, StoredQuota
from steelyard_schema.status import TERMINAL

_log = logging.getLogger(__name__)

CONSUMER = "orchestrator"
"""Name under which records that cannot become claims are put in quarantine."""
STRAYS = 200
"""Number of entities whose claims are read at once, before other tasks have their turn."""
FINISHED_FACTOR = 15
"""Factor of the pause before a finished resource is made again: the news of its end may still be on its way."""


class Leader:
    """Leads from an election to its end. It starts with nothing but what the log, the claims and Kubernetes hold.

    The leader is the outlet of its consumer (`positions`, `apply`) and the `Entities` of its edge.
    """

    def __init__(  # noqa: PLR0913 (the parts of the platform that it connects)
        self,
        log: Log,
        claims: Claims,
        cluster: Cluster,
        settings: OrchestratorSettings,
        rules: AdmissionRules,
        *,
        candidate: Candidate,
        new_id: Callable[[], str],
        metrics: OrchestratorMetrics,
        leadership: Leadership,
        secrets: SecretValues | None = None,
    ) -> None:
        self._log = log
        self._claims = claims
        self._settings = settings
        self._allocation = rules.allocation
        self._candidate = candidate
        self._metrics = metrics
        self._leadership = leadership
        self._observed = ObservedClaims(settings.retell_seconds)
        self._runs = ObservedRuns()
        self._reporter = StatusReporter(log, metrics, new_id)
        self._queue: WorkQueue[str] = WorkQueue(
            Backoff(cap=10.0),
            tenant=self._namespace,
            tenant_limit=spare_worker(settings.workers),
            metrics=metrics.work_queue,
        )
        self._cache = ResourceCache(cluster, self._resource_changed)
        self._quarantine = Quarantine(log)
        self._edge = Edge(cluster, self._cache, self, settings, secrets)
        self._workers = Workers(
            self._queue,
            self._edge.reconcile,
            self._quarantine,
            clock=candidate.clock,
            leadership=leadership,
            metrics=metrics,
        )
        self._scheduler = Scheduler(
            claims,
            self._observed,
            rules.limits,
            settings.backfill_seconds,
            metrics,
            rules.rates,
            rules.creations,
            secrets=secrets,
        )
        self._revised = rules.revised
        self._quotas: dict[str, Quota] = {}
        self._caught_up = asyncio.Event()
        self._pass_due = asyncio.Event()
        self._lock = asyncio.Lock()  # claims in the database and observed claims change together
        self._unreported: dict[str, UnreportedStatus] = {}  # at the last comparison
        self._gone: dict[str, float] = {}  # entities whose resource has gone, and the end of their pause
        self._epoch = 0

    async def work(self) -> None:
        """Lead until cancelled. Raises the errors of the log and of the claims."""
        # The lease alone fences nothing: a leader that slept may still write. From now on the claims refuse its epoch.
        self._epoch = await self._claims.lead(self._candidate.identity, self._candidate.clock.now())
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow())
                tasks.create_task(self._cache.run())
                # Nothing is done before the log is read to its end and the cluster is listed: what a former leader
                # has done would be done again.
                await self._caught_up.wait()
                await self._cache.wait_until_listed()
                async with self._lock:
                    for claim in await self._claims.quotas():
                        self._note_quota(claim.id, claim)
                    unfinished = await self._claims.list_unfinished()
                    await run_isolated(unfinished, self._begin_with, self._put_aside)
                tasks.create_task(self._schedule())
                tasks.create_task(self._compare())
                # An earlier leader may have put them aside for a defect that this one no longer has.
                for id in await self._quarantine.ids():
                    self._queue.add(id)
                for _ in range(self._settings.workers):
                    tasks.create_task(self._workers.work())
        finally:
            self._queue.close()
            self._metrics.stop()

    async def _begin_with(self, claim: Claim) -> None:
        """Observe an unfinished claim."""
        latest = await self._log.latest(STATE, claim.id)
        if latest is not None and latest.value is not None:
            self._observed.update(claim.id, claim)
            self._runs.update(claim.id, claim)
        else:
            # The log was made again, or there was no leader for so long that a forgotten entity has left no trace.
            await self._claims.apply([(claim.id, None)], self._log.epoch, {}, self._epoch)

    async def _put_aside(self, claim: Claim, error: Exception) -> None:
        await self._quarantine.put(claim.id, error)

    # ---- the consumer

    async def _follow(self) -> None:
        await follow(
            self._log,
            STATE,
            self,
            consumer=CONSUMER,
            stop=asyncio.Event(),
            caught_up=self._caught_up.set,
        )

    async def positions(self, epoch: int) -> Mapping[int, int]:
        """Return the consumer's positions, which are stored with the claims."""
        return await self._claims.positions(epoch)

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        """Write states to the claims, and let the other tasks observe them once the log was read to its end."""
        changes = dict(parse_claim(record, self._allocation) for record in records)
        async with self._lock:
            await self._claims.apply(list(changes.items()), epoch, positions, self._epoch)
            # Before that, states are history: what an entity was is no reason to do anything.
            if self._caught_up.is_set():
                # Read back, because the database keeps admissions and leaves out changes that are old news.
                newest = await find_claims(self._claims, changes)
                for id in changes:
                    self._observe(id, newest.get(id))

    def _note_quota(self, id: str, claim: Claim | None) -> None:
        """Keep to the quotas as they are now, this one among them."""
        if claim is None:
            self._quotas.pop(id, None)
        else:
            self._quotas[id] = StoredQuota.model_validate_json(claim.json)
        if self._revised is not None:
            self._scheduler.revise(self._revised(self._quotas.values()))

    def _observe(self, id: str, claim: Claim | None) -> None:
        if id in self._quotas or (claim is not None and claim.kind == "Quota"):
            self._note_quota(id, claim)
            self._pass_due.set()
            return
        # Both are called, whatever the first one answers.
        if self._observed.update(id, claim) | self._runs.update(id, claim):
            self._pass_due.set()
        if claim is None or claim.status in TERMINAL:
            self._reporter.forget(id)
            self._gone.pop(id, None)
            # A resource or a claim is left over: it has to be removed or released, whatever ended the entity.
            if self._cache.find_resources(id) or id in self._observed.held:
                self._queue.add(id)

    # ---- the scheduler

    async def _schedule(self) -> None:
        while True:
            await self._run_round(self._pass)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.retell_seconds):
                    await self._pass_due.wait()

    async def _run_round(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run one round of an endless task. An unforeseen error ends the round alone; an engine's failure is raised."""
        try:
            await work()
        except Exception as error:
            if is_engine_failure(error):
                raise
            self._metrics.retries.inc()
            _log.critical("a defect; trying again", exc_info=error)

    async def _pass(self) -> None:
        # Cleared before the pass: a change that comes during it makes another one.
        self._pass_due.clear()
        async with self._lock:
            await ensure_leader(self._leadership)
            now = self._candidate.clock.now()
            admitted, reports = await self._scheduler.schedule(now, self._epoch)
            await self._reporter.report_all(reports, now)
            await self._follow_workflows(now)
        for id in admitted:
            self._queue.add(id)
        if admitted:
            self._pass_due.set()  # what was reserved for them is free for others

    async def _follow_workflows(self, now: datetime) -> None:
        """Publish the statuses of runs and submissions whose workflows have changed."""
        if not (changed := self._runs.take_changed()):
            return
        known = await find_claims(self._claims, list_followed(changed))
        forgotten = await find_forgotten(self._log, list_followed(changed) - known.keys())

        async def decide(follower: Follower) -> Message | None:
            return status_change(follower, known, forgotten, now)

        async def put_aside(follower: Follower, error: Exception) -> None:
            await self._put_aside(follower.claim, error)

        commands = await run_isolated(changed, decide, put_aside)
        await self._log.publish([command for command in commands if command is not None])

    # ---- what the workers and their edge ask for

    def _namespace(self, id: str) -> str:
        """Return the namespace of the entity's account; empty if nothing of the entity is known."""
        if account := self._observed.account(id):
            return account_namespace(account)
        return next((resource["metadata"]["namespace"] for resource in self._cache.find_resources(id)), "")

    def _resource_changed(self, id: str, resource: Json, gone: bool) -> None:
        account = self._observed.account(id)
        if account and resource["metadata"]["namespace"] != account_namespace(account):
            # It only claims to be the entity's: who may write in another namespace must not move the entity's pause.
            self._queue.add(id)
            return
        if not gone:
            self._gone.pop(id, None)
            self._queue.add(id)
            return
        factor = FINISHED_FACTOR if is_finished(resource) else 1
        # Not made again at once: its entity's end may still be on its way through the log.
        pause = self._settings.recreate_seconds * factor
        self._gone[id] = self._candidate.clock.monotonic() + pause
        self._queue.add_after(id, pause)

    async def claim(self, id: str) -> Claim | None:
        return (await self._claims.find_claims([id])).get(id)

    async def state_headers(self, claim: Claim) -> Mapping[str, str] | None:
        latest = await self._log.latest(STATE, claim.id)
        if latest is None or not latest.value or read_position(latest) > claim.position:
            return None
        return latest.headers

    async def report(self, claim: Claim, status: Status) -> None:
        await self._reporter.report(claim, status, self._candidate.clock.now())

    async def release(self, id: str) -> None:
        async with self._lock:
            await self._claims.release(id, self._candidate.clock.now(), self._epoch)
            self._observed.release(id)
        self._pass_due.set()

    async def ensure_leader(self) -> None:
        await ensure_leader(self._leadership)

    def recreate_pause(self, id: str) -> float:
        # An event, the comparison and a requeue all come here: the pause ends when its time is over, not before.
        left = self._gone.get(id, 0.0) - self._candidate.clock.monotonic()
        if left > 0:
            return left
        self._gone.pop(id, None)
        return 0.0

    # ---- the comparison

    async def _compare(self) -> None:
        while True:
            await self._run_round(self.compare)
            await asyncio.sleep(self._settings.reconcile_seconds)

    async def compare(self) -> None:
        """Compare claims with resources, waiting entities with their dependencies, and uploads with their deadline."""
        now = self._candidate.clock.now()
        before, self._unreported = self._unreported, {}

        async def compare_claim(claim: Claim) -> Message | None:
            if is_unsettled(claim, self._cache):
                self._queue.add(claim.id)
            if unreported := find_unreported(claim, self._cache):
                self._unreported[claim.id] = unreported
                # The informer's command may be on its way: only what has not changed since the last time is lost.
                if before.get(claim.id) == unreported:
                    return unreported.command
            return expiry_command(claim, now, self._settings.upload_seconds)

        commands = await run_isolated(await self._claims.list_unfinished(), compare_claim, self._put_aside)
        with_secrets = frozenset(await self._edge.note_secrets())
        ids = list(with_secrets.union(self._cache.entities()))
        # In chunks: thousands of rows at once would hold the event loop, and with it the lease's renewal.
        for start in range(0, len(ids), STRAYS):
            chunk = ids[start : start + STRAYS]
            known = await self._claims.find_claims(chunk)
            for id in chunk:
                claim = known.get(id)
                is_left = id in with_secrets and is_over(claim)
                if is_left or is_unwanted(claim, now, self._settings.keep_seconds):
                    self._queue.add(id)
            await asyncio.sleep(0)
        await ensure_leader(self._leadership)
        # Leadership is checked right before: the comparison may have taken long.
        await self._log.publish([command for command in commands if command is not None])
        monotonic = self._candidate.clock.monotonic()
        self._gone = {id: end for id, end in self._gone.items() if end > monotonic}
        async with self._lock:
            # Nothing may depend on having seen a change: once a minute all that waits is decided again.
            self._observed.mark_all_changed()
            self._runs.mark_all_changed()
        self._pass_due.set()
