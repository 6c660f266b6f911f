"""`steelyard eval score`: scores what was answered by another rubric. No call is made."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.eval.arguments import RunArgument


def score(
    run: RunArgument,
    rubric: Annotated[
        list[str],
        typer.Option(metavar="RUBRIC", help="How to score; the first one leads. In place of those before."),
    ],
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
    sign_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Ed25519 key (PEM) that signs the attestation.")
    ] = None,
) -> None:
    """Score a run again, by other rubrics and without a call, and make its report anew."""
    import asyncio
    from dataclasses import replace

    from steelyard.runs.folder import open_run
    from steelyard.runs.request import RubricSpec
    from steelyard.runs.scores import score_again

    done = open_run(run)
    request = replace(done.request, rubrics=tuple(map(RubricSpec, rubric)))
    if reducer:
        request = replace(request, reducers=tuple(reducer))
    if group_by:
        request = replace(request, group_by=tuple(group_by))
    if cluster_by:
        request = replace(request, cluster_by=cluster_by)
    headline = asyncio.run(score_again(done.folder, request, sign_key))
    typer.echo(f"{headline}\nreport: {done.folder.page}")
