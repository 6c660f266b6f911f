"""One run from the prompt file to its report: prepare, call, verify, score, render. Each step is kept before the next.

The command line calls `run`, and so do runs of judge models. Whatever it ends by, running it again goes on.
"""

import asyncio
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from steelyard.discovery import UrlDiscovery
from steelyard.errors import SteelyardError
from steelyard.evaluation.attempt import World as EngineWorld
from steelyard.evaluation.engine import Stores, evaluate
from steelyard.evaluation.errors import EvaluationFailed
from steelyard.evaluation.manifest import Manifest, read_manifest
from steelyard.evaluation.plan import Plan
from steelyard.evaluation.progress import Progress
from steelyard.evaluation.verify import verify
from steelyard.runs.asked import Asked, ask, check_unchanged
from steelyard.runs.folder import INPUTS_FILE, RunFolder
from steelyard.runs.inputs import prepare
from steelyard.runs.plans import api_key, new_epoch, plan_of
from steelyard.runs.request import RunRequest
from steelyard.storage.store import ObjectMissing, StorageError, StorageFull

Json = Any
CAP_REACHED = "CapReached"
_LOOK_SECONDS = 0.25
_IMPORT_AFTER_SECONDS = 0.3
EXIT_COMPLETE, EXIT_ROW_ERRORS, EXIT_CAP, EXIT_INTERRUPTED = 0, 3, 4, 130


class RunFailed(SteelyardError):
    """The run cannot go on now; what was answered is kept."""


class Interrupted(SteelyardError):
    """Somebody asked to stop; what was answered is kept."""

    exit_code = EXIT_INTERRUPTED


class Listener(Protocol):
    """Where a run says what happens."""

    def begins(self, folder: RunFolder, total: int, done: int) -> None: ...
    def progress(self, snapshot: Mapping[str, Json]) -> None: ...
    def step(self, text: str) -> None: ...
    def warning(self, text: str) -> None: ...


class Silence:
    """A listener that says nothing."""

    def begins(self, folder: RunFolder, total: int, done: int) -> None:
        return None

    def progress(self, snapshot: Mapping[str, Json]) -> None:
        return None

    def step(self, text: str) -> None:
        return None

    def warning(self, text: str) -> None:
        return None


@dataclass(frozen=True)
class World:
    """What a run takes from outside."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    chance: Callable[[], float] = random.random
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    listener: Listener = field(default_factory=Silence)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to stop as soon as what was answered is kept."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended, other than by an error."""

    folder: RunFolder
    manifest: Manifest | None
    """None when it stopped at a cap."""
    resumed: int = 0
    """Rows that were there already."""
    headline: str | None = None
    stopped: str | None = None
    """Which cap was reached, in a sentence."""

    @property
    def exit_code(self) -> int:
        if self.manifest is None:
            return EXIT_CAP
        return EXIT_ROW_ERRORS if self.manifest.rows.errors else EXIT_COMPLETE


async def run(
    request: RunRequest, folder: Path | None = None, world: World | None = None, sign_key: Path | None = None
) -> Outcome:
    """Bring the run in `folder` (by default one named after what is asked) to its end.

    UsageError, EvaluationFailed, RunFailed, ReportFailed and Interrupted say why it cannot be.
    """
    world = world or World()
    try:
        asked = await asyncio.to_thread(ask, request, folder)
        return await _run(asked, world, sign_key)
    except StorageFull as error:
        raise RunFailed(f"{error}. Make room and run the same command again: it goes on") from error
    except StorageError as error:
        raise RunFailed(str(error)) from error


async def _run(asked: Asked, world: World, sign_key: Path | None) -> Outcome:
    key = api_key(asked.request, world.environment)
    plan = plan_of(asked.request, asked.identity, asked.columns, key)
    await _settle_folder(asked)
    resumed = asked.total
    try:
        manifest = await read_manifest(asked.folder.outputs)
        world.listener.begins(asked.folder, asked.total, asked.total)
    except ObjectMissing:
        try:
            resumed = await _until_stopped(_evaluate(asked, plan, world), asked.folder, world)
        except EvaluationFailed as error:
            if error.code == CAP_REACHED:
                return Outcome(asked.folder, None, stopped=error.message)
            raise
        world.listener.step("verifying")
        epoch = await new_epoch(asked.folder.outputs, world.now())
        manifest = await verify(plan, asked.folder.inputs, asked.folder.outputs, epoch)
    headline = None
    if asked.request.rubrics:
        from steelyard.runs.scores import score

        world.listener.step("scoring")
        headline = await score(asked.folder, asked.request, sign_key)
    return Outcome(asked.folder, manifest, resumed, headline)


async def _settle_folder(asked: Asked) -> None:
    """`run.yaml` and the dataset, before anything is called; UsageError when the folder holds another run."""
    folder = asked.folder
    if not await asyncio.to_thread(check_unchanged, asked):
        path = await asyncio.to_thread(prepare, asked.rows, asked.request.source, folder)
        try:
            await folder.inputs.put_file(INPUTS_FILE, path)
        finally:
            path.unlink(missing_ok=True)
    await folder.write(asked.request)


async def _evaluate(asked: Asked, plan: Plan, world: World) -> int:
    """Every row asked and durable; how many were so before."""
    stores = Stores(asked.folder.inputs, asked.folder.outputs)
    sides: list[asyncio.Task[None]] = []

    def watch(progress: Progress) -> None:
        world.listener.begins(asked.folder, progress.total, progress.done)
        sides.append(asyncio.create_task(_watch(progress, world.listener)))

    engine = EngineWorld(world.now, world.chance, _Log(world.listener), identity_port=None, watch=watch)
    epoch = await new_epoch(stores.output, world.now())
    if asked.request.rubrics:
        sides.append(asyncio.create_task(_warm_up()))
    try:
        summary = await evaluate(plan, stores, UrlDiscovery(asked.request.urls), epoch, engine)
    finally:
        for side in sides:
            side.cancel()
    return summary.resumed


async def _until_stopped(work: Any, folder: RunFolder, world: World) -> int:
    """The result of `work`; Interrupted once the world says stop and what was answered is kept."""
    task: asyncio.Task[int] = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(world.stop.wait())
    await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
    raise Interrupted(f"stopped; to go on: steelyard eval run {folder.path}")


async def _watch(progress: Progress, listener: Listener) -> None:
    """Tell how far it is, until cancelled; and once more then."""
    try:
        while True:
            listener.progress(progress.snapshot())
            await asyncio.sleep(_LOOK_SECONDS)
    finally:
        listener.progress(progress.snapshot())


async def _warm_up() -> None:
    """Import what scoring needs while calls wait for their answers."""
    await asyncio.sleep(_IMPORT_AFTER_SECONDS)
    await asyncio.to_thread(__import__, "steelyard.runs.scores")


@dataclass(frozen=True)
class _Log:
    """The engine's log for a person: what it warns of."""

    listener: Listener

    def info(self, message: str, **fields: str | int | float | bool | None) -> None:
        return None

    def warning(self, message: str, **fields: str | int | float | bool | None) -> None:
        told = ", ".join(f"{name} {value}" for name, value in fields.items())
        self.listener.warning(f"{message}: {told}" if told else message)
