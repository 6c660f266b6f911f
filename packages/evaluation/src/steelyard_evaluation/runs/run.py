"""One run from the prompt file to its report: answers, judges, scores. Each step is kept before the next begins.

The command line calls `run`. However it ends, running it again goes on from there.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

from steelyard_evaluation.engine.lean import seldom_collecting, spare_pandas
from steelyard_evaluation.runs.asked_rows import check_asked_rows
from steelyard_evaluation.runs.collect import check_request, collect, read_spending, storage_failures
from steelyard_evaluation.runs.context import Interrupted, RunContext, RunFailed, RunResult
from steelyard_evaluation.runs.folder import open_run
from steelyard_evaluation.runs.request import RunRequest
from steelyard_evaluation.runs.resolve import ResolvedRequest, resolve, set_aside
from steelyard_evaluation.runs.served import ServedModel, ask_session, with_model

__all__ = ["Interrupted", "RunContext", "RunFailed", "RunResult", "run"]


async def run(
    request: RunRequest,
    folder: Path | None = None,
    context: RunContext | None = None,
    sign_key: Path | None = None,
    *,
    fresh: bool = False,
    served: ServedModel | None = None,
) -> RunResult:
    """Bring the run in `folder` (by default one named after the request) to its end.

    With `fresh`, a run that is there already is set aside, and every row asked again. `served` goes into the record.
    UsageError, EvaluationFailed, RunFailed, ReportFailed and Interrupted say why it cannot be.
    """
    spare_pandas()
    context = context or RunContext()
    with storage_failures(str(folder or request.source.location)):
        resolved = await asyncio.to_thread(resolve, request, folder)
        if fresh and (aside := await asyncio.to_thread(set_aside, resolved)) is not None:
            context.listener.step(f"the run that was there is now {aside}")
        # A verified run makes no more calls, so the endpoint need not be there.
        if served is None and not resolved.folder.verified:
            served = await ask_session(resolved.request, context.environment)
        resolved = with_model(resolved, served)
        with seldom_collecting():
            return await _run(resolved, context.with_deadline(request.limits.max_time), sign_key)


async def _run(resolved: ResolvedRequest, context: RunContext, sign_key: Path | None) -> RunResult:
    await check_request(resolved, sign_key)
    if not resolved.folder.verified:
        for text in await asyncio.to_thread(check_asked_rows, resolved):
            context.listener.warning(text)
    result = await collect(resolved, context)
    if result.manifest is None:
        return result
    if resolved.request.prompt.api != "loglikelihood":
        from steelyard_evaluation.report.silence import measure_silence  # the first call need not wait for it

        silence = await asyncio.to_thread(measure_silence, open_run(resolved.folder.path).files)
        if silence.sentence is not None:
            context.listener.warning(silence.sentence)
    judge_errors = 0
    if resolved.request.judges:
        from steelyard_evaluation.runs.judge.judge import judge

        opened = open_run(resolved.folder.path)
        opened.request = resolved.request
        judged = await judge(opened, resolved.request.judges, context)
        judge_errors = judged.errors
        if judged.stopped is not None:
            spent = await read_spending(resolved)
            return RunResult(resolved.folder, None, stopped=judged.stopped, spending=spent)
    spent = await read_spending(resolved)
    headlines: tuple[tuple[str, str], ...] = ()
    if resolved.request.rubrics:
        from steelyard_evaluation.runs.scores import score

        context.listener.step("scoring")
        scored = await score(resolved.folder, resolved.request, sign_key)
        if scored.warning:
            context.listener.warning(scored.warning)
        headlines = scored.headlines
        await resolved.folder.write(resolved.request)
    return replace(result, headlines=headlines, spending=spent, judge_errors=judge_errors)
