"""`steelyard safetycase scores`: the scores that methods have given, of one safety case or of all."""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import OutputOption, PlatformOptions, one_id
from steelyard.cli.option_groups import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.client import Client
    from steelyard.schema.score import Score


@with_options
def scores(
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Safety cases: ids, beginnings of ids, or names. Default: all."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            "-w",
            help="Field to match, as field=value[,value...]: name, method, methodName, dataset, evaluation, "
            "inferenceService or model. May be repeated.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of scores. Default: all.")] = None,
    output: OutputOption = "table",
    *,
    platform: PlatformOptions,
) -> None:
    """Show the scores of safety cases.

    Those that are named come in their order; without names, all cases, the newest first.
    """
    from steelyard.cli.entities import filters_of
    from steelyard.cli.output import check_form, now, rendered

    check_form(output)
    with platform.connect() as client:
        filters = filters_of([], where or [])
        named = [one_id(client, "safetycases", text) for text in ids or []]
        if named and not filters:
            matching = _scores_of(client, named)[:limit]
        else:
            narrowed = {**filters, "analysis": named} if named else filters
            matching = list(client.safetycases.query_scores(**narrowed, limit=limit))
    if output == "table":
        typer.echo(_table(matching))
        return
    typer.echo(rendered([score.dump() for score in matching], output, "scores", single=False, now=now()))


def _scores_of(client: "Client", ids: "Sequence[str]") -> "list[Score]":
    """Return the scores of the safety cases, one after the other.

    No query is used: it leaves out what is public and belongs to other accounts.
    """
    return [score for id in ids for score in client.safetycases.scores(id)]


def _table(scores: "Sequence[Score]") -> str:
    from steelyard.cli.output import columns

    rows = [("SAFETY CASE", "SCORE", "VALUE", "TITLE", "MEANING")]
    rows += [
        (score.analysis[:8], score.name, score.quantityString, score.title, score.text) for score in scores
    ]
    return columns(rows) if scores else "no safety case that matches has scores"
