"""`steelyard eval score`: scores what was answered by another rubric. No call is made, but of judges that it names."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.eval.arguments import RunArgument


def score(
    run: RunArgument,
    rubric: Annotated[
        list[str] | None,
        typer.Option(metavar="RUBRIC", help="How to score; the first one leads. In place of those before."),
    ] = None,
    reducer: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Over replications: mean, majority, best, pass@k."),
    ] = None,
    group_by: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Scores by this column, too.")
    ] = None,
    cluster_by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Rows of one value depend on each other.")
    ] = None,
    judge_model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A model that judges each answer (this calls); again for more."),
    ] = None,
    judge_url: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Where the judges are; by default where the model is."),
    ] = None,
    judge_criteria: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What makes an answer right: text, or @FILE.")
    ] = None,
    judge_prompt: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The judges' prompt: Jinja of question, response, target, criteria."
        ),
    ] = None,
    sign_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Ed25519 key (PEM) that signs the attestation.")
    ] = None,
) -> None:
    """Score a run again, by other rubrics, and make its report anew. Only judges are called."""
    import asyncio
    from dataclasses import replace

    from steelyard.cli.eval.asking import Flags, judges_of
    from steelyard.errors import UsageError
    from steelyard.runs.folder import open_run
    from steelyard.runs.request import RubricSpec
    from steelyard.runs.scores import score_again
    from steelyard.runs.world import RunFailed

    done = open_run(run)
    request = replace(done.request, rubrics=tuple(map(RubricSpec, rubric or ())))
    judging = {
        "judge_model": judge_model,
        "judge_url": judge_url,
        "judge_criteria": judge_criteria,
        "judge_prompt": judge_prompt,
    }
    given = {name: value for name, value in judging.items() if value}
    if judge_model:
        request = replace(request, **judges_of(Flags(given), request))
    elif given:
        raise UsageError(f"--{min(given).replace('_', '-')}: needs --judge-model")
    if not request.rubrics:
        raise UsageError("--rubric: is missing; it should say how to score, such as exact-match")
    if reducer:
        request = replace(request, reducers=tuple(reducer))
    if group_by:
        request = replace(request, group_by=tuple(group_by))
    if cluster_by:
        request = replace(request, cluster_by=cluster_by)

    async def judge_and_score() -> str:
        if judge_model:
            from steelyard.runs.judge import judge
            from steelyard.runs.world import World

            judged = await judge(done, request.judges, World())
            if judged.stopped:
                raise RunFailed(f"{judged.stopped}; run the same command again to go on")
        return await score_again(done.folder, request, sign_key)

    headline = asyncio.run(judge_and_score())
    typer.echo(f"{headline}\nreport: {done.folder.page}")
