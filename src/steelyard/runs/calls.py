"""The calls of a run: the engine on this machine, until every row is durable or somebody says stop.

While calls wait for their answers, what scoring needs is imported, and the rubrics are looked at: a wrong one is told
in the first second, not after the last row.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from steelyard.discovery import Discovery, UrlDiscovery
from steelyard.evaluation.attempt import World as EngineWorld
from steelyard.evaluation.engine import Stores, Summary, evaluate
from steelyard.evaluation.errors import EvaluationFailed, Fenced
from steelyard.evaluation.plan import Plan
from steelyard.evaluation.progress import Progress
from steelyard.runs.context import Interrupted, Listener, RunFailed, World
from steelyard.runs.plan import new_epoch
from steelyard.runs.refusals import Refusals
from steelyard.runs.request import RunRequest
from steelyard.runs.resolve import Asked
from steelyard.runs.spending.ledger import Ledger

LOOK_SECONDS = 0.25
DRAIN_SECONDS = 0.02
IMPORT_AFTER_SECONDS = 0.3


async def call_all(asked: Asked, plan: Plan, world: World) -> int:
    """Every row asked and durable; how many were so before.

    EvaluationFailed, RunFailed, UsageError and Interrupted say why it is not.
    """
    replicas = UrlDiscovery(asked.request.called)
    if not await replicas.addresses():  # the engine waits for a name that comes; a person has mistyped it
        raise RunFailed(f"{', '.join(asked.request.called)}: no such host is known; nothing was asked")
    calling = _Calling(asked, world, _Stoppable(replicas))
    try:
        return (await calling.run(plan)).resumed
    except Fenced as error:
        raise RunFailed(
            f"{asked.folder.path}: another command has taken this run over and goes on with it; this one ends"
        ) from error
    except EvaluationFailed as error:
        raise _told(error, asked) from error


def _told(error: EvaluationFailed, asked: Asked) -> Exception:
    """The engine's failure in the words of the command line, where there is more to say."""
    again = f"steelyard eval run {asked.folder.path}"
    match error.code:
        case "BadRequest":
            return RunFailed(
                f"{error.message}. What was answered is kept; to go on past such rows: {again} --bad-rows skip"
            )
        case "ReplicasFailing":
            urls = ", ".join(asked.request.called)
            return RunFailed(
                f"{urls}: {error.message}. Is it up? What was answered is kept; to go on: {again}"
            )
    return error


@dataclass
class _Stoppable:
    """Replicas until they are `closed`; then there are none, so that nothing more is sent."""

    inner: Discovery
    closed: bool = False

    async def addresses(self) -> frozenset[str]:
        return frozenset() if self.closed else await self.inner.addresses()


@dataclass
class _Calling:
    asked: Asked
    world: World
    replicas: _Stoppable
    progress: Progress | None = None
    refusals: Refusals | None = None
    _sides: list[asyncio.Task[None]] = field(default_factory=list)

    async def run(self, plan: Plan) -> Summary:
        stores = Stores(self.asked.folder.inputs, self.asked.folder.outputs)
        engine = EngineWorld(
            self.world.now,
            self.world.chance,
            _Log(self.world.listener),
            identity_port=None,
            watch=self._begin,
        )
        epoch = await new_epoch(stores.output, self.world.now())
        engine = replace(engine, meter=await asyncio.to_thread(Ledger, self.asked.folder, epoch))
        sampling = self.asked.request.prompt.sampling
        self.refusals = Refusals(self.asked.folder, epoch, shared=sampling.keys())
        calls = asyncio.ensure_future(evaluate(plan, stores, self.replicas, epoch, engine))
        stop = asyncio.ensure_future(self.world.stop.wait())
        wrong = asyncio.ensure_future(self._something_wrong())
        try:
            summary = await self._first(calls, stop, wrong)
            await self._check_refusals()
            return summary
        finally:
            for task in (stop, wrong, *self._sides):
                task.cancel()
            if not calls.done():
                await _end(calls)

    async def _first(
        self, calls: "asyncio.Task[Summary]", stop: "asyncio.Task[bool]", wrong: "asyncio.Task[None]"
    ) -> Summary:
        """The end of the calls, unless before somebody stops them or something turns out to be wrong."""
        await asyncio.wait([calls, stop, wrong], return_when=asyncio.FIRST_COMPLETED)
        if calls.done():
            return calls.result()
        if stop.done():
            await self._drain(calls)
        await _end(calls)
        if wrong.done():
            wrong.result()
        await self._check_refusals()
        raise Interrupted(f"stopped; to go on: steelyard eval run {self.asked.folder.path}")

    async def _something_wrong(self) -> None:
        """Ends when the calls should, for a reason that an error may tell."""
        await _look_at_rubrics(self.asked.request, self.asked.columns)
        while not await self._refused():  # noqa: ASYNC110 - the engine counts, and tells nobody
            await asyncio.sleep(LOOK_SECONDS)

    async def _refused(self) -> bool:
        """Whether the endpoint refuses every row, for whatever is in it."""
        refusals = self.refusals
        return (
            refusals is not None
            and refusals.nothing_else()
            and await asyncio.to_thread(refusals.said) is not None
        )

    async def _check_refusals(self) -> None:
        """RunFailed when there is nothing but refusals; then the folder is as it was before."""
        if self.refusals is not None and await self._refused():
            said = await asyncio.to_thread(self.refusals.said)
            await self.refusals.take_back()
            raise RunFailed(f"{', '.join(self.asked.request.called)}: {said}")

    def _begin(self, progress: Progress) -> None:
        self.progress = progress
        if self.refusals is not None:
            self.refusals.begins(progress)
        self.world.listener.begins(self.asked.folder, progress.total, progress.done)
        self._sides.append(asyncio.ensure_future(_watch(progress, self.world.listener)))

    async def _drain(self, calls: "asyncio.Task[Summary]") -> None:
        """Send nothing more, and wait for what is in flight: it is paid for."""
        self.replicas.closed = True
        if self.progress is None or self.progress.pool is None:
            return
        for address in self.progress.pool.addresses:
            self.progress.pool.drop(address)
        while self.progress.calls and not calls.done():
            await asyncio.wait([calls], timeout=DRAIN_SECONDS)


async def _end(calls: "asyncio.Task[Summary]") -> None:
    """Cancel: what was answered is written first. Raises what kept it from being so."""
    calls.cancel()
    await asyncio.wait([calls])
    if not calls.cancelled() and (error := calls.exception()) is not None:
        raise error


async def _watch(progress: Progress, listener: Listener) -> None:
    """Tell how far it is, until cancelled; and once more then."""
    try:
        while True:
            listener.progress(progress.snapshot())
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        listener.progress(progress.snapshot())


async def _look_at_rubrics(request: RunRequest, columns: Sequence[str]) -> None:
    """Import what scoring needs; UsageError for a rubric that could not score this run."""
    if not request.rubrics:
        return
    await asyncio.sleep(IMPORT_AFTER_SECONDS)
    check = await asyncio.to_thread(_import_check)
    await asyncio.to_thread(check, request, columns)


def _import_check() -> Callable[[RunRequest, Sequence[str]], None]:
    from steelyard.runs.scores import check_rubrics

    return check_rubrics


@dataclass(frozen=True)
class _Log:
    """The engine's log for a person: what it warns of."""

    listener: Listener

    def info(self, message: str, **fields: str | int | float | bool | None) -> None:
        return None

    def warning(self, message: str, **fields: str | int | float | bool | None) -> None:
        told = ", ".join(f"{name} {value}" for name, value in fields.items())
        self.listener.warning(f"{message}: {told}" if told else message)
