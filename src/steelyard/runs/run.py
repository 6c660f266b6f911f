"""One run from the prompt file to its report: prepare, call, verify, score, render. Each step is kept before the next.

The command line calls `run`, and so do runs of judge models. Whatever it ends by, running it again goes on.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

from steelyard.errors import UsageError
from steelyard.evaluation.caps import Caps
from steelyard.evaluation.errors import EvaluationFailed
from steelyard.evaluation.lean import seldom_collecting, spare_pandas
from steelyard.evaluation.manifest import Manifest, read_manifest
from steelyard.evaluation.plan import Plan
from steelyard.evaluation.verify import verify
from steelyard.runs.calls import call_all
from steelyard.runs.context import Interrupted, Outcome, RunFailed, World
from steelyard.runs.folder import INPUTS_FILE, open_run
from steelyard.runs.lm_eval.tasks import check_asked_whole
from steelyard.runs.plan import api_key, check_urls, new_epoch, plan_of
from steelyard.runs.probe import prepared
from steelyard.runs.prompts.inputs import first_rows, prepare
from steelyard.runs.prompts.render import check_rows
from steelyard.runs.request import RunRequest
from steelyard.runs.resolve import Asked, ask, check_grouping, check_unchanged, set_aside
from steelyard.runs.rubric_names import check_names, check_verdicts
from steelyard.runs.spending.accounts import MODEL, accounts, check_prices, others_of, spending
from steelyard.storage.store import ObjectMissing, StorageError, StorageFull
from steelyard.types import JsonValue

__all__ = ["CAP_REACHED", "Interrupted", "Outcome", "RunFailed", "World", "run"]

CAP_REACHED = "CapReached"


async def run(
    request: RunRequest,
    folder: Path | None = None,
    world: World | None = None,
    sign_key: Path | None = None,
    *,
    fresh: bool = False,
) -> Outcome:
    """Bring the run in `folder` (by default one named after what is asked) to its end.

    With `fresh`, a run that is there already is set aside, and every row asked again.
    UsageError, EvaluationFailed, RunFailed, ReportFailed and Interrupted say why it cannot be.
    """
    spare_pandas()
    world = world or World()
    try:
        asked = await asyncio.to_thread(ask, request, folder)
        if fresh and (aside := await asyncio.to_thread(set_aside, asked)) is not None:
            world.listener.step(f"the run that was there is now {aside}")
        with seldom_collecting():
            return await _run(asked, world.limited(request.limits.max_time), sign_key)
    except StorageFull as error:
        raise RunFailed(f"{error}. Make room and run the same command again: it goes on") from error
    except StorageError as error:
        raise RunFailed(str(error)) from error
    except OSError as error:
        raise RunFailed(
            f"{error.filename or folder or request.source.location}: {error.strerror or error}"
        ) from error


async def _run(asked: Asked, world: World, sign_key: Path | None) -> Outcome:
    check_urls(asked.request)
    check_names(asked.request.rubrics)
    check_verdicts(asked.request)
    check_asked_whole(asked.request)
    check_grouping(asked)
    check_prices(asked.request)
    if sign_key is not None:  # a key that is none is told before the calls are paid
        from steelyard.report.attest import signing_key

        await asyncio.to_thread(signing_key, sign_key)
    if (
        asked.folder.verified and asked.request.rubrics
    ):  # `run.yaml` is to name no rubric that cannot score it
        from steelyard.runs.scores import check_rubrics

        await asyncio.to_thread(check_rubrics, asked.request, asked.columns)
    key = None if asked.folder.verified else api_key(asked.request, world.environment)
    plan = plan_of(asked.request, asked.identity, asked.columns, key)
    plan = replace(plan, caps=await asyncio.to_thread(_budget, asked, plan.caps, world))
    await _settle_folder(asked, plan)
    try:
        manifest, resumed = await _answers(asked, plan, world)
    except EvaluationFailed as error:
        if error.code == CAP_REACHED:
            return Outcome(asked.folder, None, stopped=error.message, spending=await _spending(asked))
        raise
    judge_errors, stopped = await _judge(asked, world)
    spent = await _spending(asked)
    if stopped is not None:
        return Outcome(asked.folder, None, stopped=stopped, spending=spent)
    headlines: tuple[tuple[str, str], ...] = ()
    if asked.request.rubrics:
        from steelyard.runs.scores import score

        world.listener.step("scoring")
        made = await score(asked.folder, asked.request, sign_key)
        if made.warning:
            world.listener.warning(made.warning)
        headlines = made.headlines
    return Outcome(asked.folder, manifest, resumed, headlines, spending=spent, judge_errors=judge_errors)


def _budget(asked: Asked, caps: Caps, world: World) -> Caps:
    """The caps beside what others took from them: the judges of earlier attempts, and whoever asks for this run."""
    others = world.others + others_of(accounts(asked.folder, asked.request), MODEL)
    left = None if world.ends_at is None else max(0.0, world.ends_at - world.clock())
    return replace(caps, others=others, seconds_left=left)


async def _spending(asked: Asked) -> dict[str, JsonValue]:
    return spending(await asyncio.to_thread(accounts, asked.folder, asked.request))


async def _answers(asked: Asked, plan: Plan, world: World) -> tuple[Manifest, int]:
    """The verified output, and how many of its rows were there before."""
    try:
        manifest = await read_manifest(asked.folder.outputs)
    except ObjectMissing:
        resumed = await call_all(asked, await prepared(asked, plan, world), world)
        return await _verified(asked, plan, world), resumed
    except ValueError as error:
        raise UsageError(f"{asked.folder.manifest}: is damaged: {error}") from error
    world.listener.begins(asked.folder, asked.total, asked.total)
    return manifest, asked.total


async def _judge(asked: Asked, world: World) -> tuple[int, str | None]:
    """How many answers got no verdict, and which cap the judges stopped at."""
    if not asked.request.judges:
        return 0, None
    from steelyard.runs.judge.judge import judge

    judged = await judge(open_run(asked.folder.path), asked.request.judges, world)
    return judged.errors, judged.stopped


async def _settle_folder(asked: Asked, plan: Plan) -> None:
    """`run.yaml` and the dataset, before anything is called; UsageError when the folder holds another run."""
    folder = asked.folder
    if not await asyncio.to_thread(check_unchanged, asked):
        few = await asyncio.to_thread(first_rows, asked.rows, asked.source)
        check_rows(plan.request, few, asked.request.source.location)
        path = await asyncio.to_thread(prepare, asked.rows, asked.source, folder)
        try:
            await folder.inputs.put_file(INPUTS_FILE, path)
        finally:
            path.unlink(missing_ok=True)
    await folder.write(asked.request)


async def _verified(asked: Asked, plan: Plan, world: World) -> Manifest:
    if world.stop.is_set():
        raise Interrupted(f"stopped; every row is answered, to go on: steelyard eval run {asked.folder.path}")
    world.listener.step("verifying")
    epoch = await new_epoch(asked.folder.outputs, world.now())
    return await verify(plan, asked.folder.inputs, asked.folder.outputs, epoch)
