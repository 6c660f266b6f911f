"""The calls of a run: the engine on this machine, until every row is durable or the run is stopped.

Meanwhile refusals are counted: an endpoint that refuses every row alike ends the calls.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace

from steelyard_common.discovery import Discovery, UrlDiscovery
from steelyard_evaluation.engine.attempt import CLOSED, Environment
from steelyard_evaluation.engine.engine import Stores, Summary, evaluate
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.plan import Plan
from steelyard_evaluation.engine.progress import Progress
from steelyard_evaluation.runs.context import Interrupted, Listener, RunContext, RunFailed
from steelyard_evaluation.runs.plan import new_epoch
from steelyard_evaluation.runs.refusals import Refusals
from steelyard_evaluation.runs.resolve import ResolvedRequest
from steelyard_evaluation.runs.spending.spending_log import SpendingLog

POLL_SECONDS = 0.25
DRAIN_SECONDS = 0.02

_KEPT = "What was answered is kept"
"""First words of the advice on how to go on, which is of the moment and not recorded with a failure."""


async def call_all(resolved: ResolvedRequest, plan: Plan, context: RunContext) -> int:
    """Ask every row and make its answer durable; return the number of rows that earlier attempts had answered.

    EvaluationFailed, Fenced, RunFailed, UsageError and Interrupted say why it cannot be.
    """
    replicas = UrlDiscovery(resolved.request.base_urls)
    # The engine would wait for a host name to appear. On a command line it is more likely mistyped.
    if not await replicas.addresses():
        raise RunFailed(f"{', '.join(resolved.request.base_urls)}: no such host is known; nothing was asked")
    calling = _Calling(resolved, context, _Stoppable(replicas))
    try:
        return (await calling.run(plan)).resumed
    except EvaluationFailed as error:
        failure = _explain(error, resolved)
        if isinstance(failure, RunFailed):
            await asyncio.to_thread(_record_failure, failure, resolved)
        raise failure from error
    except RunFailed as error:
        await asyncio.to_thread(_record_failure, error, resolved)
        raise


def _record_failure(failure: RunFailed, resolved: ResolvedRequest) -> None:
    """Write down why the calls ended: nothing else in the folder says it. A full disk must not hide the failure."""
    with suppress(OSError):
        resolved.folder.failure.write_text(str(failure).partition(f" {_KEPT}")[0])


def _explain(error: EvaluationFailed, resolved: ResolvedRequest) -> Exception:
    """The engine's failure with the command that goes on after it."""
    again = f"steelyard eval run {resolved.folder.path}"
    match error.code:
        case "BadRequest":
            return RunFailed(f"{error.message}. {_KEPT}; to go on past such rows: {again} --bad-rows skip")
        case "ReplicasFailing":
            urls = ", ".join(resolved.request.base_urls)
            return RunFailed(f"{urls}: {error.message}. Is it up? {_KEPT}; to go on: {again}")
        case _ if error.code == CLOSED:
            urls = ", ".join(resolved.request.base_urls)
            return RunFailed(f"{urls}: {error.message}. {_KEPT}; to go on: {again}")
    return error


@dataclass
class _Stoppable:
    """Replicas that can be `closed`: from then on there are none, so that nothing more is sent."""

    inner: Discovery
    closed: bool = False

    async def addresses(self) -> frozenset[str]:
        return frozenset() if self.closed else await self.inner.addresses()


@dataclass
class _Calling:
    resolved: ResolvedRequest
    context: RunContext
    replicas: _Stoppable
    progress: Progress | None = None
    refusals: Refusals | None = None
    _sides: list[asyncio.Task[None]] = field(default_factory=list)

    async def run(self, plan: Plan) -> Summary:
        stores = Stores(self.resolved.folder.inputs, self.resolved.folder.outputs)
        engine = Environment(
            self.context.now,
            self.context.jitter,
            _Log(self.context.listener),
            # An endpoint outside the platform has no port that answers which session it belongs to; its URL is the
            # user's own choice.
            identity_port=None,
            watch=self._begin,
        )
        epoch = await new_epoch(stores.output, self.context.now())
        # After the epoch, which is in the name of the log: two commands that begin at once have a file each.
        engine = replace(engine, meter=await asyncio.to_thread(SpendingLog, self.resolved.folder, epoch))
        sampling = self.resolved.request.prompt.sampling
        self.refusals = Refusals(self.resolved.folder, epoch, shared=sampling.keys())
        calls = asyncio.ensure_future(evaluate(plan, stores, self.replicas, epoch, engine))
        stop = asyncio.ensure_future(self.context.stop.wait())
        wrong = asyncio.ensure_future(self._wait_for_fault())
        try:
            summary = await self._first(calls, stop, wrong)
            # Once more at the end: the last refusals may have come after the last check.
            await self._check_refusals()
            return summary
        except EvaluationFailed as error:
            # Nothing was answered, and the model may be what is wrong: the mended command begins again.
            if error.code == CLOSED and self.progress is not None and self.progress.done == 0:
                await self.refusals.take_back()
            raise
        finally:
            for task in (stop, wrong, *self._sides):
                task.cancel()
            # Also when this task itself is cancelled: answers that are paid for are written before anybody
            # goes.
            if not calls.done():
                await _end(calls)

    async def _first(
        self, calls: "asyncio.Task[Summary]", stop: "asyncio.Task[bool]", wrong: "asyncio.Task[None]"
    ) -> Summary:
        """The summary of the calls; Interrupted or the error of a check where one of these comes first."""
        await asyncio.wait([calls, stop, wrong], return_when=asyncio.FIRST_COMPLETED)
        if calls.done():
            return calls.result()
        # Ctrl-C drains: what is in flight is paid for. A wrong rubric or an endpoint that refuses everything
        # does not.
        if stop.done():
            await self._drain(calls)
        await _end(calls)
        if wrong.done():
            wrong.result()
        await self._check_refusals()
        raise Interrupted(f"stopped; to go on: steelyard eval run {self.resolved.folder.path}")

    async def _wait_for_fault(self) -> None:
        """Return, or raise a UsageError, as soon as the calls should end."""
        while not await self._refused():  # noqa: ASYNC110 - the engine counts and has no event for it
            await asyncio.sleep(POLL_SECONDS)

    async def _refused(self) -> bool:
        """Return whether the endpoint refuses every row alike."""
        refusals = self.refusals
        return (
            refusals is not None
            and refusals.nothing_else()
            and await asyncio.to_thread(refusals.explanation) is not None
        )

    async def _check_refusals(self) -> None:
        """Raise RunFailed when there is nothing but refusals; then the folder is as it was before."""
        if self.refusals is not None and await self._refused():
            explanation = await asyncio.to_thread(self.refusals.explanation)
            # Removed before the error is raised: the next command has to ask these rows again.
            await self.refusals.take_back()
            raise RunFailed(f"{', '.join(self.resolved.request.base_urls)}: {explanation}")

    def _begin(self, progress: Progress) -> None:
        self.progress = progress
        self.resolved.folder.failure.unlink(missing_ok=True)
        if self.refusals is not None:
            self.refusals.begins(progress)
        self.context.listener.begins(self.resolved.folder, progress.total, progress.done)
        self._sides.append(asyncio.ensure_future(_watch(progress, self.context.listener)))

    async def _drain(self, calls: "asyncio.Task[Summary]") -> None:
        """Send nothing more, and wait for the requests in flight: they are paid for."""
        self.replicas.closed = True
        if self.progress is None or self.progress.pool is None:
            return
        # The discovery is asked every few seconds only; dropped here, the replicas get nothing from now on.
        for address in self.progress.pool.addresses:
            self.progress.pool.drop(address)
        while self.progress.calls and not calls.done():
            await asyncio.wait([calls], timeout=DRAIN_SECONDS)


async def _end(calls: "asyncio.Task[Summary]") -> None:
    """Cancel the calls, which writes their answers first; raise the error that kept them from being written."""
    calls.cancel()
    await asyncio.wait([calls])
    if not calls.cancelled() and (error := calls.exception()) is not None:
        raise error


async def _watch(progress: Progress, listener: Listener) -> None:
    """Report progress until cancelled, and once more then."""
    try:
        while True:
            listener.progress(progress.snapshot())
            await asyncio.sleep(POLL_SECONDS)
    finally:
        # The last numbers are those that a person remembers; the periodic ones may be a quarter of a second
        # old.
        listener.progress(progress.snapshot())


@dataclass(frozen=True)
class _Log:
    """The engine's log; a person sees only its warnings."""

    listener: Listener

    def info(self, message: str, **fields: str | int | float | bool | None) -> None:
        return None

    def warning(self, message: str, **fields: str | int | float | bool | None) -> None:
        # The reason is a sentence of its own.
        details = ", ".join(
            str(value) if name == "reason" else f"{name} {value}" for name, value in fields.items()
        )
        self.listener.warning(f"{message}: {details}" if details else message)
