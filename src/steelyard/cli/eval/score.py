"""`steelyard eval score`: scores the answers of a run by further rubrics. It calls judges, never the model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.eval.options import (
    CapOptions,
    JudgeOptions,
    RunArgument,
    ScoringOptions,
    SignKeyOption,
    Texts,
    list_given,
)
from steelyard.cli.option_groups import with_options

if TYPE_CHECKING:
    from steelyard_evaluation.runs.folder import Run
    from steelyard_evaluation.runs.request import RunRequest
    from steelyard_evaluation.runs.scores import ScoringResult


@with_options
def score(
    run: RunArgument,
    rubric: Annotated[
        Texts,
        typer.Option(
            metavar="RUBRIC",
            help="How to score, in addition to the rubrics that scored the run before. May be repeated.",
        ),
    ] = None,
    only: Annotated[
        bool,
        typer.Option("--only", help="Score only by the rubrics named here; the first one leads the report."),
    ] = False,
    *,
    scoring: ScoringOptions,
    judge: JudgeOptions,
    caps: CapOptions,
    sign_key: SignKeyOption = None,
) -> None:
    """Score a run by further rubrics, and make its report again. Only judges are called."""
    import asyncio

    from steelyard.cli.eval.wording import headline_lines
    from steelyard_evaluation.runs.folder import open_run
    from steelyard_evaluation.runs.rubric_names import check_names

    opened = open_run(run)
    opened.request, request = _request(opened, rubric or (), only, list_given(scoring, judge, caps))
    check_names(request.rubrics)  # before a judge is paid
    scored = asyncio.run(_judge_and_score(opened, request, bool(judge.judge_model), sign_key))
    if scored.warning:
        typer.echo(f"warning: {scored.warning}", err=True)
    typer.echo("\n".join([*headline_lines(scored.headlines), f"report: {opened.folder.page}"]))


def _request(
    run: "Run", rubrics: Sequence[str], only: bool, options: Mapping[str, Any]
) -> "tuple[RunRequest, RunRequest]":
    """The request for the judges, and the one for the scores, which says how to combine them."""
    from steelyard.cli.eval.request import Flags, check_judging, make_judges, with_budget
    from steelyard_common.errors import UsageError
    from steelyard_evaluation.runs.request import RubricSpec

    flags = Flags(options)
    check_judging(flags)
    before = () if only else run.request.rubrics
    more = [RubricSpec(name) for name in rubrics if RubricSpec(name) not in before]
    request = replace(run.request, rubrics=(*before, *dict.fromkeys(more)))
    if "judge_model" in options:
        request = replace(request, **make_judges(flags, request))
    request = with_budget(flags, request)
    if not request.rubrics:
        raise UsageError("--rubric: is missing; it should say how to score, such as exact-match")
    combined: dict[str, Any] = {
        name: tuple(value) for name, value in flags.take(reducers="reducer", group_by="group_by").items()
    }
    return request, replace(request, **combined, **flags.take(cluster_by="cluster_by"))


async def _judge_and_score(
    run: "Run", request: "RunRequest", judging: bool, sign_key: Path | None
) -> "ScoringResult":
    from steelyard_evaluation.runs.scores import score_again

    if judging:
        from steelyard_evaluation.runs.context import EXIT_CAP, RunContext
        from steelyard_evaluation.runs.judge.judge import judge

        judged = await judge(run, request.judges, RunContext())
        if judged.stopped:
            from steelyard.cli.eval.next_command import line_to_judge_on

            typer.echo(f"stopped: {judged.stopped}\n{line_to_judge_on(run.folder, request)}")
            raise typer.Exit(EXIT_CAP)
    return await score_again(run.folder, request, sign_key)
