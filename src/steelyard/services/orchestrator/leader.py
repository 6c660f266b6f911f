"""The orchestrator that leads: its tasks, and what they share.

The consumer writes claims and nothing else. The scheduler admits. Workers take entities from a keyed queue and make or
delete their resources. Once a minute all of it is compared, so that nothing depends on having seen a change.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from steelyard.accounts.database import Claim, Claims
from steelyard.accounts.quotas import Rates
from steelyard.broker.follow import follow
from steelyard.broker.log import STATE, Log, Message, Record
from steelyard.broker.quarantine.dead_letters import described
from steelyard.broker.quarantine.marks import Aside
from steelyard.errors import is_engine_failure
from steelyard.kube.cluster import Cluster
from steelyard.kube.errors import ApiError
from steelyard.kube.leader import Candidate
from steelyard.kube.workqueue import Backoff, WorkQueue, spare_worker
from steelyard.schema.names import namespace_of
from steelyard.schema.status import TERMINAL
from steelyard.services.leadership import Leading, surely
from steelyard.services.orchestrator.admission import Limits
from steelyard.services.orchestrator.cache import ResourceCache, finished
from steelyard.services.orchestrator.claims import Allocation, change_of, position_of
from steelyard.services.orchestrator.comparison import (
    Level,
    expired_upload,
    is_unsettled,
    is_unwanted,
    unheard,
)
from steelyard.services.orchestrator.edge import Edge, Known, NotYet
from steelyard.services.orchestrator.isolation import each_apart
from steelyard.services.orchestrator.metrics import OrchestratorMetrics
from steelyard.services.orchestrator.observed import World
from steelyard.services.orchestrator.scheduler import Scheduler, known_claims
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard.services.status_commands import Status, status_command
from steelyard.types import Json

_log = logging.getLogger(__name__)

NO_RATES = Rates()
CONSUMER = "orchestrator"
"""Under this name it puts aside what it cannot take."""
RESOURCES = "resources"
"""The same, where it is the look at an entity's resource that fails."""
DEFECTS = 5
"""Failures in a row, with growing pauses, after which an entity is put aside; it is tried on, now and then."""
STRAYS = 200
"""Entities of one question to the claims, and between two turns of others."""
FINISHED_FACTOR = 15
"""A resource that had finished when it was deleted is missed later: the news of its end may be on its way."""


@dataclass(frozen=True)
class Means:
    """What an orchestrator works with."""

    log: Log
    claims: Claims
    cluster: Cluster
    settings: OrchestratorSettings
    limits: Limits
    allocation: Allocation
    metrics: OrchestratorMetrics
    candidate: Candidate
    new_id: Callable[[], str]
    """Ids of commands: no two are equal, also over restarts."""
    rates: Rates = NO_RATES

    def now(self) -> datetime:
        return self.candidate.clock.now()


class Leader:
    """From an election to its end. It begins with nothing but what the log, the claims and Kubernetes hold."""

    def __init__(self, means: Means, leading: Leading) -> None:
        self._means = means
        self._leading = leading
        self._world = World(means.settings.retell_seconds)
        self._queue: WorkQueue[str] = WorkQueue(
            Backoff(cap=10.0),
            tenant=self._namespace,
            tenant_limit=spare_worker(means.settings.workers),
        )
        self._cache = ResourceCache(means.cluster, self._resource_changed)
        known = Known(self._claim, self._newest, self._say, self._release, self._pause)
        self._edge = Edge(means.cluster, self._cache, known, means.settings)
        self._scheduler = Scheduler(
            means.claims,
            self._world,
            means.limits,
            means.settings.backfill_seconds,
            means.metrics,
            means.rates,
        )
        self._caught_up = asyncio.Event()
        self._due = asyncio.Event()  # a pass of the scheduler
        self._together = asyncio.Lock()  # the claims and what the leader knows of them change together
        self._said: dict[str, tuple[tuple[int, int], Status]] = {}  # what was said last, at which position
        self._unheard: dict[str, Level] = {}  # of the last comparison: what resources say and entities do not
        self._gone: dict[str, float] = {}  # whose resource has gone, and until when it is not made again
        self._epoch = 0
        self._aside: Aside | None = None

    async def work(self) -> None:
        """Until cancelled. Raises what the log or the claims raise."""
        self._epoch = await self._means.claims.lead(self._means.candidate.identity, self._means.now())
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow())
                tasks.create_task(self._cache.run())
                await self._caught_up.wait()
                await self._cache.synced()
                await self._begin()
                tasks.create_task(self._schedule())
                tasks.create_task(self._compare())
                for _ in range(self._means.settings.workers):
                    tasks.create_task(self._worker())
        finally:
            self._queue.close()

    async def _begin(self) -> None:
        """What is unfinished, but for what the log no longer knows: it was made anew, or nobody led for so long that
        what was forgotten meanwhile has left no trace.
        """
        async with self._together:
            await each_apart(await self._means.claims.unfinished(), self._begin_with, self._put_aside)

    async def _begin_with(self, claim: Claim) -> None:
        if await self._in_log(claim.id):
            self._world.see(claim.id, claim)
        else:
            await self._means.claims.apply([(claim.id, None)], self._means.log.epoch, {}, self._epoch)

    async def _put_aside(self, claim: Claim, error: Exception) -> None:
        await self._put_id_aside(claim.id, error)

    async def _put_id_aside(self, id: str, error: Exception) -> None:
        """Put an entity aside; it is tried again at its next change, at each comparison and at the next start."""
        _log.error("%s: is put in quarantine", id, exc_info=error)
        await (await self._opened_aside()).put(id, described(error))

    async def _opened_aside(self) -> Aside:
        if self._aside is None:
            self._aside = await Aside.open(self._means.log, RESOURCES)
        return self._aside

    # ---- the consumer: the two methods of an outlet

    async def _follow(self) -> None:
        await follow(
            self._means.log,
            STATE,
            self,
            consumer=CONSUMER,
            stop=asyncio.Event(),
            caught_up=self._caught_up.set,
        )

    async def positions(self, epoch: int) -> Mapping[int, int]:
        return await self._means.claims.positions(epoch)

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        """States into claims; and to those who act on them, once all that was there at the start is read."""
        changes = dict(change_of(each, self._means.allocation) for each in records)
        async with self._together:
            await self._means.claims.apply(list(changes.items()), epoch, positions, self._epoch)
            if self._caught_up.is_set():
                newest = await known_claims(self._means.claims, changes)
                for id in changes:
                    self._see(id, newest.get(id))

    def _see(self, id: str, claim: Claim | None) -> None:
        if self._world.see(id, claim):
            self._due.set()
        if claim is None or claim.status in TERMINAL:
            self._said.pop(id, None)
            self._gone.pop(id, None)
            if self._cache.of(id) or id in self._world.held:
                self._queue.add(id)

    # ---- the scheduler

    async def _schedule(self) -> None:
        while True:
            await self._unless_engine_fails(self._pass)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._means.settings.retell_seconds):
                    await self._due.wait()

    async def _unless_engine_fails(self, work: Callable[[], Awaitable[None]]) -> None:
        """One round of a task that goes on for ever: what it meets but did not foresee ends the round alone."""
        try:
            await work()
        except Exception as error:
            if is_engine_failure(error):
                raise
            self._means.metrics.retries.inc()
            _log.critical("a defect; trying again", exc_info=error)

    async def _pass(self) -> None:
        self._due.clear()
        async with self._together:
            await surely(self._leading)
            now = self._means.now()
            admitted, told = await self._scheduler.turn(now, self._epoch)
            await self._means.log.publish(
                [_command(claim, said, now, self._means.new_id()) for claim, said in told]
            )
        for id in admitted:
            self._queue.add(id)
        if admitted:
            self._due.set()  # what was kept for them is free for others
        for _, said in told:
            if said.status != "Created":
                self._means.metrics.failed.labels(said.reason or "").inc()

    # ---- the workers

    def _namespace(self, id: str) -> str:
        """The namespace of the entity's account, as far as anything of it is known here."""
        if account := self._world.account(id):
            return namespace_of(account)
        return next((resource["metadata"]["namespace"] for resource in self._cache.of(id)), "")

    def _resource_changed(self, id: str, gone: Json | None) -> None:
        if gone is None:
            self._gone.pop(id, None)
            self._queue.add(id)
            return
        pause = self._means.settings.recreate_seconds * (FINISHED_FACTOR if finished(gone) else 1)
        self._gone[id] = self._monotonic() + pause
        self._queue.add_after(id, pause)

    def _pause(self, id: str) -> float:
        """Whoever asks, an event or the comparison: the pause is over when its time is."""
        left = self._gone.get(id, 0.0) - self._monotonic()
        if left > 0:
            return left
        self._gone.pop(id, None)
        return 0.0

    def _monotonic(self) -> float:
        return self._means.candidate.clock.monotonic()

    async def _worker(self) -> None:
        while True:
            id = await self._queue.get()
            try:
                await self._look(id)
            finally:
                self._queue.done(id)

    async def _look(self, id: str) -> None:
        try:
            await surely(self._leading)
            again = await self._edge.look(id, self._means.now())
        except (ApiError, NotYet) as error:
            level = logging.WARNING if not self._queue.failures(id) else logging.DEBUG
            _log.log(level, "%s: trying again: %s", id, error)
            self._retry(id)
        except Exception as error:  # the outermost edge: one entity's surprise must not stop the others
            if is_engine_failure(error):
                raise
            if self._queue.failures(id) == DEFECTS:
                await self._put_id_aside(id, error)
            else:
                _log.error("%s: a defect; trying again", id, exc_info=error)
            self._retry(id)
        else:
            self._queue.forget(id)
            if self._aside is not None:
                await self._aside.clear(id)
            if again is not None:
                self._queue.add_after(id, again)

    def _retry(self, id: str) -> None:
        self._means.metrics.retries.inc()
        self._queue.retry(id)

    # ---- what the workers ask and tell

    async def _claim(self, id: str) -> Claim | None:
        return (await self._means.claims.known([id])).get(id)

    async def _newest(self, claim: Claim) -> bool:
        latest = await self._means.log.latest(STATE, claim.id)
        return latest is not None and bool(latest.value) and position_of(latest) <= claim.position

    async def _in_log(self, id: str) -> bool:
        latest = await self._means.log.latest(STATE, id)
        return latest is not None and latest.value is not None

    async def _say(self, claim: Claim, said: Status) -> None:
        if self._said.get(claim.id) == (claim.position, said):
            return  # its state has not moved since it was told
        now, metrics = self._means.now(), self._means.metrics
        await self._means.log.publish([_command(claim, said, now, self._means.new_id())])
        self._said[claim.id] = (claim.position, said)
        if said.status == "Admitted":
            metrics.admitted.labels(claim.kind).inc()
            metrics.seconds.labels(claim.kind).observe((now - claim.created).total_seconds())
        elif said.status != "Created":
            metrics.failed.labels(said.reason or "").inc()

    async def _release(self, id: str) -> None:
        async with self._together:
            await self._means.claims.release(id, self._means.now(), self._epoch)
            self._world.release(id)
        self._due.set()

    # ---- the comparison

    async def _compare(self) -> None:
        while True:
            await self._unless_engine_fails(self.compare)
            await asyncio.sleep(self._means.settings.reconcile_seconds)

    async def compare(self) -> None:
        """Claims with resources, waiters with what they wait for, uploads with their time."""
        means, now = self._means, self._means.now()

        before, self._unheard = self._unheard, {}

        async def look(claim: Claim) -> Message | None:
            if is_unsettled(claim, self._cache):
                self._queue.add(claim.id)
            if level := unheard(claim, self._cache):
                self._unheard[claim.id] = level
                if before.get(claim.id) == level:  # it was so a comparison ago: it is not on its way
                    return level.said
            return expired_upload(claim, now, means.settings.upload_seconds)

        async def look_for_strays(ids: Sequence[str]) -> None:
            known = await means.claims.known(ids)
            for id in ids:
                if is_unwanted(known.get(id), now, means.settings.keep_seconds):
                    self._queue.add(id)

        due = await each_apart(await means.claims.unfinished(), look, self._put_aside)
        ids = list(self._cache.entities())
        for start in range(0, len(ids), STRAYS):
            await look_for_strays(ids[start : start + STRAYS])
            await asyncio.sleep(0)
        await surely(self._leading)
        await means.log.publish([message for message in due if message is not None])
        self._gone = {id: end for id, end in self._gone.items() if end > self._monotonic()}
        async with self._together:
            self._world.look_again()
        self._due.set()


def _command(claim: Claim, said: Status, now: datetime, command: str) -> Message:
    return status_command(claim.id, claim.kind, said, source="orchestrator", time=now, command=command)
