"""Judge models: each grades every answer of a verified run, in a run of its own within that run's folder.

RUN/judges/<name>/ is that run: resumable, stored, on the same engine. RUN/judged/ is the run's output once more with
the verdicts in it, laid out as an output is, for the rubric `judge.Verdict`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard_common.errors import UsageError
from steelyard_evaluation.engine.lean import seldom_collecting
from steelyard_evaluation.runs.collect import check_request, collect, storage_failures
from steelyard_evaluation.runs.context import RunContext
from steelyard_evaluation.runs.folder import Run
from steelyard_evaluation.runs.judge.output import write_judged
from steelyard_evaluation.runs.judge.questions import write_questions
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.judge.verdicts import Verdicts, read_verdicts
from steelyard_evaluation.runs.prompts.template import Template
from steelyard_evaluation.runs.request import PromptSpec, RunRequest, SourceSpec
from steelyard_evaluation.runs.resolve import ANOTHER_NAME, resolve
from steelyard_evaluation.runs.spending.accounts import accounts, check_prices, sum_others


@dataclass(frozen=True)
class JudgingResult:
    """The result of judging a run."""

    answers: int
    errors: int
    """Number of answers without a readable verdict of a judge; they are row errors."""
    stopped: str | None = None
    """The cap that was reached, in a sentence."""


async def judge(run: Run, specs: Sequence[JudgeSpec], context: RunContext) -> JudgingResult:
    """Let every judge grade every answer, with the errors of `runs.run`. Called again, it goes on."""
    check_specs(specs)
    request = replace(run.request, judges=tuple(specs))
    check_prices(request)
    context = context.with_deadline(run.request.limits.max_time)
    verdicts: list[Verdicts] = []
    # One after the other: they share the budget, and each has to know what the others took.
    for spec in specs:
        context.listener.step(f"judging by {spec.model} ({spec.name})")
        spent = await asyncio.to_thread(accounts, run.folder, request)
        stopped = await _ask(run, spec, replace(context, others=sum_others(spent, spec.name)))
        # Verdicts of some judges alone would make a report that seems complete.
        if stopped is not None:
            return JudgingResult(0, 0, stopped)
        verdicts.append(await asyncio.to_thread(read_verdicts, run.folder.judge(spec.name), run, spec))
    if not specs:
        return JudgingResult(0, 0)
    await write_judged(run, specs, verdicts)
    answers = max(len(of_judge) for of_judge in verdicts)
    return JudgingResult(answers, sum(of_judge.errors for of_judge in verdicts))


def check_specs(specs: Sequence[JudgeSpec]) -> None:
    """Raise UsageError for judges that cannot be asked."""
    names = [spec.name for spec in specs]
    for spec in specs:
        if names.count(spec.name) > 1:
            raise UsageError(
                f"judge {spec.name}: there are several of this name; each has a folder of its own"
            )
        if spec.times < 1:
            raise UsageError(f"judge {spec.name}, times: is {spec.times}; should be 1 or more")
        Template(spec.with_defaults().template, f"judge {spec.name}, template")


def request_to(spec: JudgeSpec, judged: RunRequest, questions: Path) -> RunRequest:
    """Return the request of the judge's own run, about the answers of the run that `judged` describes."""
    urls = spec.urls or judged.urls
    return RunRequest(
        source=SourceSpec(str(questions)),
        model=spec.model,
        urls=urls,
        same_model_at=judged.same_model_at if urls == judged.urls else (),
        prompt=PromptSpec(sampling=spec.sampling),
        api_key_env=spec.api_key_env,
        limits=replace(judged.limits, prices=spec.prices),
        # A judge that refuses one answer must not end the run: the answer has an error in place of a verdict.
        policy="Skip",
        replications=spec.times,
    )


async def _ask(run: Run, spec: JudgeSpec, context: RunContext) -> str | None:
    """Bring the judge's own run to its end; return the cap that stopped it, or None."""
    folder = run.folder.judge(spec.name)
    path = await asyncio.to_thread(write_questions, run, spec, folder)
    request = request_to(spec, run.request, path)
    try:
        with storage_failures(str(folder.path)), seldom_collecting():
            resolved = await asyncio.to_thread(resolve, request, folder.path)
            await check_request(resolved)
            return (await collect(resolved, context)).stopped
    except UsageError as error:
        hint = f"; {ANOTHER_NAME}" if folder.run_json.exists() else ""
        raise UsageError(f"judge {spec.name}: {error}{hint}") from error
