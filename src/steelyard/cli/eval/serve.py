"""A run with a server of its own: started before the first row is asked, kept running meanwhile, ended with the run."""

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from steelyard.local.serving.plan import plan_server
from steelyard.local.serving.server import Server
from steelyard.local.serving.weights import describe_volume
from steelyard.runners.table import choose
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.context import Interrupted, RunContext, RunFailed, RunResult
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.request import RunRequest, ServeSpec
from steelyard_evaluation.runs.resolve import ResolvedRequest, resolve
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.runs.served import ServedModel, check_model

T = TypeVar("T")


async def run_served(
    request: RunRequest, folder: Path | None, sign_key: Path | None, *, fresh: bool, context: RunContext
) -> RunResult:
    """Bring a run to its end with a server of the model that it names. ServerFailed says why there is none."""
    assert request.serve is not None
    resolved = await asyncio.to_thread(resolve, request, folder)
    serve = request.serve
    if _is_answered(resolved.folder, request) and not fresh:
        await asyncio.to_thread(_check_unchanged, resolved, serve, request.model)
        return await run(request, folder, context, sign_key)
    plan = plan_server(
        Path(serve.folder),
        runner=serve.runner,
        name=request.model,
        gpus=serve.gpus,
        arguments=serve.arguments,
    )
    # Digests of large weights take minutes: they are read while the server starts.
    reading = asyncio.ensure_future(
        asyncio.to_thread(describe_volume, plan.model, request.model, context.stop.is_set)
    )
    server = Server(plan, context.listener.step, context.listener.warning)
    try:
        # Before the start, which may take minutes: a run of other weights is refused at once.
        if not fresh and resolved.folder.begun:
            check_model(resolved, [await _volume(reading)])
        await _unless_stopped(server.start(), context.stop)
        served = ServedModel([await _volume(reading)], [plan.record.json()])
        if plan.url not in request.urls:  # another program has the usual port
            request = replace(request, same_model_at=(plan.url,))
        return await _while_kept(server, run(request, folder, context, sign_key, fresh=fresh, served=served))
    finally:
        await server.stop()
        await _cancel(reading)


async def _volume(reading: "asyncio.Future[dict[str, JsonValue]]") -> dict[str, JsonValue]:
    """Wait for the digests of the model's files. Raises Interrupted, RunFailed."""
    try:
        return await reading
    except InterruptedError:
        raise Interrupted("stopped while the model was read; nothing was asked") from None
    except OSError as error:
        raise RunFailed(f"{error.filename}: {error.strerror}; the model cannot be read") from error


def _check_unchanged(resolved: ResolvedRequest, serve: ServeSpec, name: str) -> None:
    """Raise UsageError where the answers are of other weights than lie in the folder now; it may also be gone."""
    if Path(serve.folder).exists():
        _, model = choose(Path(serve.folder), serve.runner)
        check_model(resolved, [describe_volume(model, name)])


def _is_answered(folder: RunFolder, request: RunRequest) -> bool:
    """Return whether every answer is there, so that nothing needs the server; judges may be the same model."""
    return folder.verified and not request.judges


async def _unless_stopped(start: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Wait for the start. Raises Interrupted once the user stops it."""
    starting, stopping = asyncio.ensure_future(start), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            raise Interrupted("stopped while the server was starting; nothing was asked")
        starting.result()
    finally:
        await _cancel(starting)
        await _cancel(stopping)


async def _while_kept(server: Server, work: Coroutine[Any, Any, T]) -> T:
    """Keep the server running until the work has ended; where it starts no more, end the work: its answers stay."""
    working, keeping = asyncio.ensure_future(work), asyncio.ensure_future(server.keep())
    try:
        await asyncio.wait([working, keeping], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            keeping.result()
        return await working
    finally:
        await _cancel(working)
        await _cancel(keeping)


async def _cancel(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    # Whatever the task ended by, it is being thrown away: its own error was raised where it mattered.
    with contextlib.suppress(BaseException):
        await task
