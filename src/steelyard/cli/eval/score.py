"""`steelyard eval score`: scores what was answered by another rubric. No call is made, but of judges that it names."""

from typing import Annotated

import typer

from steelyard.cli.eval.options import (
    ClusterOption,
    GroupOption,
    JudgeAgainstOption,
    JudgeCriteriaOption,
    JudgeKeyOption,
    JudgeModelOption,
    JudgePromptOption,
    JudgeTimesOption,
    JudgeUrlOption,
    MaxCostOption,
    MaxTimeOption,
    MaxTokensOption,
    PricesOption,
    ReducerOption,
    RunArgument,
    SignKeyOption,
)


def score(
    run: RunArgument,
    rubric: Annotated[
        list[str] | None,
        typer.Option(metavar="RUBRIC", help="How to score, beside the rubrics that scored it before."),
    ] = None,
    only: Annotated[
        bool, typer.Option("--only", help="By the rubrics named here alone; the first one leads.")
    ] = False,
    reducer: ReducerOption = None,
    group_by: GroupOption = None,
    cluster_by: ClusterOption = None,
    judge_model: JudgeModelOption = None,
    judge_url: JudgeUrlOption = None,
    judge_criteria: JudgeCriteriaOption = None,
    judge_prompt: JudgePromptOption = None,
    judge_against: JudgeAgainstOption = None,
    judge_times: JudgeTimesOption = None,
    judge_api_key_env: JudgeKeyOption = None,
    max_tokens_total: MaxTokensOption = None,
    max_cost: MaxCostOption = None,
    prices: PricesOption = None,
    max_time: MaxTimeOption = None,
    sign_key: SignKeyOption = None,
) -> None:
    """Score a run by further rubrics, and make its report anew. Only judges are called."""
    import asyncio
    from dataclasses import replace

    from steelyard.cli.eval.request import Flags, budgeted, check_judging, judges_of
    from steelyard.cli.eval.wording import headline_lines
    from steelyard.errors import UsageError
    from steelyard.runs.context import EXIT_CAP
    from steelyard.runs.folder import open_run
    from steelyard.runs.request import RubricSpec
    from steelyard.runs.rubric_names import check_names
    from steelyard.runs.scores import Made, score_again

    done = open_run(run)
    before = () if only else done.request.rubrics
    more = [RubricSpec(name) for name in rubric or () if RubricSpec(name) not in before]
    request = replace(done.request, rubrics=(*before, *dict.fromkeys(more)))
    judging = {
        "judge_model": judge_model,
        "judge_url": judge_url,
        "judge_criteria": judge_criteria,
        "judge_prompt": judge_prompt,
        "judge_against": judge_against,
        "judge_times": judge_times,
        "judge_api_key_env": judge_api_key_env,
    }
    caps = {
        "max_tokens_total": max_tokens_total,
        "max_cost": max_cost,
        "prices": prices,
        "max_time": max_time,
    }
    given = {name: value for name, value in (judging | caps).items() if value}
    flags = Flags(given)
    check_judging(flags)
    if judge_model:
        request = replace(request, **judges_of(flags, request))
    done.request = request = budgeted(flags, request)
    if not request.rubrics:
        raise UsageError("--rubric: is missing; it should say how to score, such as exact-match")
    check_names(request.rubrics)  # before a judge is paid
    if reducer:
        request = replace(request, reducers=tuple(reducer))
    if group_by:
        request = replace(request, group_by=tuple(group_by))
    if cluster_by:
        request = replace(request, cluster_by=cluster_by)

    async def judge_and_score() -> Made:
        if judge_model:
            from steelyard.runs.context import RunContext
            from steelyard.runs.judge.judge import judge

            judged = await judge(done, request.judges, RunContext())
            if judged.stopped:
                typer.echo(f"stopped: {judged.stopped}\nto go on: the same command with a higher cap")
                raise typer.Exit(EXIT_CAP)
        return await score_again(done.folder, request, sign_key)

    made = asyncio.run(judge_and_score())
    if made.warning:
        typer.echo(f"warning: {made.warning}", err=True)
    typer.echo("\n".join([*headline_lines(made.headlines), f"report: {done.folder.page}"]))
