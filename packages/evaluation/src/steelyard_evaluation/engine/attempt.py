"""The tasks of one attempt: the feeder, the workers, the upkeep of replicas, parts and progress; and how they end."""

import asyncio
import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from yarl import URL

from steelyard_common.discovery import IDENTITY_PORT, Discovery, Identity, unpin
from steelyard_common.errors import leaves
from steelyard_evaluation.engine.backlog import Backlog, Work
from steelyard_evaluation.engine.call import Client, Failure
from steelyard_evaluation.engine.caps import ReachedCap
from steelyard_evaluation.engine.clients import get_json, open_client
from steelyard_evaluation.engine.endings import answer_or_failure
from steelyard_evaluation.engine.errors import EvaluationFailed, Fenced
from steelyard_evaluation.engine.feed import feed
from steelyard_evaluation.engine.meter import Meter, NoMeter
from steelyard_evaluation.engine.output import Writer
from steelyard_evaluation.engine.plan import Plan
from steelyard_evaluation.engine.pool import Pool, Replica, Stopped
from steelyard_evaluation.engine.progress import Progress
from steelyard_evaluation.engine.replicas import Absence, EventLog, Replicas
from steelyard_evaluation.engine.retry import RetryPolicy
from steelyard_evaluation.engine.rowset import RowSet
from steelyard_evaluation.engine.settle import Settler
from steelyard_evaluation.engine.source import Source

CLOSED = "ServiceRefuses"
"""Reason of an end where every replica refuses every call for good."""
RESERVED = 128
"""Files that are kept for all but calls: the dataset, parts of the output, logs, libraries."""
MOST = 1 << 16


@dataclass(frozen=True)
class Environment:
    """Environment of an evaluation: time, randomness, a log, and the port at which replicas name their
    session.
    """

    now: Callable[[], datetime]
    jitter: Callable[[], float]
    log: EventLog
    identity_port: int | None = IDENTITY_PORT
    """None where replicas have no identity: without a cluster."""
    absence: Absence = field(default_factory=Absence)
    meter: Meter = field(default_factory=NoMeter)
    watch: Callable[[Progress], None] = lambda _: None
    """Gets the progress when an attempt begins: its `snapshot()` may be taken whenever."""


class Attempt:
    """One attempt at the rows that are not `finished`."""

    def __init__(
        self,
        plan: Plan,
        source: Source,
        finished: RowSet,
        writer: Writer,
        progress: Progress,
        environment: Environment,
    ) -> None:
        self._plan = plan
        self._source = source
        self._finished = finished
        self._writer = writer
        self._progress = progress
        self._environment = environment
        self._backlog = Backlog()
        policy = RetryPolicy(
            plan.client.transientErrorRetryLimit,
            plan.client.transientErrorRetryDelaySeconds,
            plan.wait_for_server,
        )
        self._pool = Pool(plan.concurrency, policy, environment.jitter, self._open, connection_room())
        self._settler = Settler(
            plan, policy, self._backlog, writer, progress, environment.jitter, environment.meter
        )
        # Held by one call at a time until the first answer shows what a call uses: a cap is an average over
        # answers.
        self._alone = asyncio.Lock()
        self._identity: Identity | None = None
        self._workers = 0
        self._absent_since: float | None = None
        """Start of the last absence that was logged: each absence is logged once."""
        self._clock: asyncio.TimerHandle | None = None
        self._cap_clock: asyncio.TimerHandle | None = None
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        progress.pool = self._pool

    async def run(self, discovery: Discovery) -> None:
        """Call, until every row is durable. Whatever ends it early, answers are written first."""
        try:
            if self._environment.identity_port is not None:
                self._identity = Identity(get_json, self._plan.session, self._environment.identity_port)
            await self._call_all(discovery)
            # All rows are settled, though not all written: the attempt ends when they are durable.
            await self._writer.drain()
            if self._progress.done < self._progress.total:
                self._progress.stopped = self._backlog.stopped
            await self._progress.write()
            progress = self._progress
            if progress.stopped is not None:
                message = f"{progress.stopped.message}; {progress.done} of {progress.total} rows are done"
                permanent = progress.stopped.cap == "service"
                raise EvaluationFailed(progress.stopped.code, message, permanent=permanent)
        # Answers are paid for: whatever ended the attempt, those in memory are written before it raises.
        except BaseExceptionGroup as group:
            await self._keep_answers(error := next(leaves(group)))
            raise error from None
        except asyncio.CancelledError as error:
            await self._keep_answers(error)
            raise
        finally:
            for clock in filter(None, (self._clock, self._cap_clock)):
                clock.cancel()
            await self._pool.close()

    async def _call_all(self, discovery: Discovery) -> None:
        absence = self._environment.absence if self._plan.referenced else None
        replicas = Replicas(discovery, self._identity, self._pool, self._environment.log, absence)
        self._watch_caps()
        async with asyncio.TaskGroup() as group:
            sides = [
                group.create_task(feed(self._source, self._plan, self._finished, self._backlog)),
                group.create_task(self._progress.keep()),
                group.create_task(self._writer.flush_often()),
                group.create_task(self._writer.keep_journal()),
                group.create_task(_raise_from(self._failure)),
                group.create_task(_raise_from(self._writer.failure)),
                group.create_task(replicas.keep(grown=lambda: self._staff(group))),
            ]
            # Workers end by themselves: the backlog gives them None, and the pool stops those that wait for a
            # replica. The other tasks have no end of their own.
            await self._backlog.finished.wait()
            self._pool.stop()
            for side in sides:
                side.cancel()

    def _staff(self, group: asyncio.TaskGroup) -> None:
        """Start as many workers as the pool can take calls; those of vanished replicas wait for others."""
        for _ in range(self._workers, self._pool.capacity):
            group.create_task(self._work())
            self._workers += 1

    async def _work(self) -> None:
        # A worker takes the row before a replica: so rows that wait for another try are never behind a busy
        # replica.
        while (work := await self._backlog.take()) is not None:
            if work.unsendable is not None:
                self._settler.unsendable(work)
                continue
            try:
                if self._settler.unmeasured:
                    async with self._alone:  # the first call says what a call uses; then more may go at once
                        await self._call(work)
                else:
                    await self._call(work)
            except Stopped:
                return
            if self._writer.behind:
                await self._writer.caught_up()

    async def _call(self, work: Work) -> None:
        """Ask one row once, and settle what came of it; Stopped where no more calls are made."""
        loop, progress = asyncio.get_running_loop(), self._progress
        replica = await self._pool.acquire()
        if self._settler.capped and self._settler.check_caps(unsent=1):
            # Another call reached the cap while this one waited for a replica: sent now, it would go beyond it.
            self._pool.give_back(replica)
            raise Stopped
        # Entered before the first byte is sent: a call whose answer never comes is counted as in flight, and may be
        # paid.
        progress.calls[work] = sent_at = loop.time()
        work.attempts += 1
        # Counted before it is sent: a process that dies in between counts one call too many as paid, never one too few.
        self._environment.meter.note_sent()
        outcome = await replica.client.call(work.body)
        # A server that shuts down ends its answers with status 200: they would count as whole.
        if isinstance(outcome, bytes):
            outcome = answer_or_failure(outcome)
        del progress.calls[work]
        progress.durations.append(loop.time() - sent_at)
        failures = work.first_failures or {}
        self._pool.release(replica, outcome, sent_at, failures.get(replica.address))
        if isinstance(outcome, Failure):
            work.first_failures = {replica.address: loop.time()} | failures
            self._check_pool(outcome, replica)
        elif self._clock is None:
            # The time limit runs from the first call served: before, the session was only starting.
            seconds = self._plan.client.totalTimeoutSeconds
            error = EvaluationFailed(
                "Timeout", f"not done {seconds} s after the first call was served", permanent=True
            )
            self._clock = loop.call_later(seconds, self._fail, error)
        self._settler.settle(work, replica.address, outcome)

    def _watch_caps(self) -> None:
        """Check the caps at the start: the use of earlier attempts counts, so a cap may be reached before the
        first call.
        """
        if self._settler.capped:
            self._settler.check_caps()
        caps = self._plan.caps
        if (seconds := caps.max_seconds) is not None:
            left = seconds if caps.seconds_left is None else caps.seconds_left
            self._cap_clock = asyncio.get_running_loop().call_later(
                left, self._backlog.stop, ReachedCap("seconds", f"the cap of {seconds:g} s is reached")
            )

    def _check_pool(self, last: Failure, replica: Replica) -> None:
        # Refused connections are counted by time and other failures by number: a server that loads its model
        # refuses every connection for minutes, and costs nothing.
        said = self._settler.without_key(last.full_message)
        if self._pool.closed:
            message = f"every call is refused, and waiting would not help: {said}"
            self._fail(EvaluationFailed(CLOSED, message, permanent=True))
        elif self._pool.unreachable:
            self._check_absence(last, replica)
        elif self._pool.exhausted:
            limit = self._plan.client.transientErrorRetryLimit
            message = f"every replica failed more than {limit} times in a row; the last: {said}"
            self._fail(EvaluationFailed("ReplicasFailing", message, permanent=False))

    def _check_absence(self, last: Failure, replica: Replica) -> None:
        """A server that restarts, or loads its model, refuses connections for minutes."""
        seconds = self._plan.wait_for_server
        if self._pool.exhausted:
            message = f"no connection for {seconds:g} s; the last try: {last.message}"
            self._fail(EvaluationFailed("ReplicasFailing", message, permanent=False))
        elif replica.unreachable_since != self._absent_since:
            self._absent_since = replica.unreachable_since
            text = f"no server listens at {unpin(replica.address)[0]}; waiting for it up to {seconds:g} s"
            self._environment.log.warning(text, reason=last.message)

    def _fail(self, error: EvaluationFailed) -> None:
        # Several workers can fail in the same turn of the loop; the first reason is the one that is reported.
        if not self._failure.done():
            self._failure.set_exception(error)

    def _open(self, address: str) -> Client:
        identity = self._identity
        base, host = unpin(address)

        def at(path: str) -> Client:
            return open_client(
                URL(f"{base}/{path}"),
                self._plan.client.requestTimeoutSeconds,
                verify=None if identity is None else (lambda: identity.check(address)),
                headers=self._plan.headers,
                host=host,
            )

        return at(self._plan.endpoint) if self._plan.around is None else self._plan.around(at)

    async def _keep_answers(self, error: BaseException) -> None:
        # Another attempt goes on with the output, or the storage takes nothing: more writes could only do harm.
        if isinstance(error, Fenced) or self._writer.failure.done():
            await self._writer.abandon()
            return
        try:
            await self._writer.drain()
            await self._progress.write()
        except Exception as second:  # noqa: BLE001 - the first error is the reason; this one only costs rows
            self._environment.log.warning("the last answers could not be kept", reason=str(second))


async def _raise_from(failure: "asyncio.Future[None]") -> None:
    """Wait for `failure` to fail, without cancelling it when this task is cancelled."""
    await asyncio.wait([failure])
    failure.result()


def connection_room() -> int:
    """Raise this process's limit of open files, and return the number of calls that it leaves room for.

    Every call in flight takes one of them.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        # Many systems begin with 1,024 for the sake of programs that use select(); asyncio does not.
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    return max(1, (allowed if soft == resource.RLIM_INFINITY else soft) - RESERVED)
