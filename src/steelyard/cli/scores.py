"""`steelyard safetycase scores`: the scores that methods have given, of one safety case or of all."""

import tempfile
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import OutputOption, PlatformOptions, make_filters, one_id
from steelyard.cli.option_groups import with_options
from steelyard_common.types import Json
from steelyard_common.whole_files import TooLarge, parse_json, read_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.client import Client
    from steelyard_schema.score import Score

MOST_CASES = 1000
"""Maximum number of safety cases whose scores are asked for at once: what a filter takes."""
MOST_REPORTS = 100
"""Maximum number of reports whose numbers a list reads: no query has them, each report's are a file of its own."""
AT_ONCE = 8
"""Reports whose numbers are read at the same time."""
_NO_NUMBERS = (TooLarge, AttributeError, LookupError, TypeError, ValueError)
"""Errors by a broken or too large report.json: programs of others may have made it."""


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
    from steelyard.cli.output import check_form, now, render

    check_form(output)
    with platform.connect() as client:
        filters = make_filters([], where or [])
        named = [one_id(client, "safetycases", text) for text in ids or []]
        if named and not filters:
            matching = _list_scores(client, named)[:limit]
        else:
            narrowed = {**filters, "analysis": named} if named else filters
            matching = list(client.safetycases.query_scores(**narrowed, limit=limit))
    if output == "table":
        typer.echo(_table(matching))
        return
    typer.echo(render([score.dump() for score in matching], output, "scores", single=False, now=now()))


def main_scores(client: "Client", plural: str, ids: "Sequence[str]") -> dict[str, str]:
    """Return the main score of each safety case or report that has one, as text, by its id; none of other kinds."""
    if plural == "reports":
        return _main_metrics(client, ids)
    cases = list(ids)[:MOST_CASES] if plural == "safetycases" else []
    scores = client.safetycases.query_scores(analysis=cases) if cases else ()
    return {score.analysis: score.quantityString for score in scores if score.priority == "primary"}


def _main_metrics(client: "Client", ids: "Sequence[str]") -> dict[str, str]:
    """Return the first metric of each report, or why it is not shown."""
    from concurrent.futures import ThreadPoolExecutor

    from steelyard.client.errors import ClientError

    def main_metric(id: str) -> str:
        try:
            metrics = _numbers(client, id).get("metrics") or [None]
            return _metric_text(metrics[0]) if metrics[0] else ""
        except (ClientError, *_NO_NUMBERS):
            return "cannot be read"

    read = list(ids)[:MOST_REPORTS]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return dict.fromkeys(ids, "not read") | dict(zip(read, threads.map(main_metric, read), strict=True))


def score_lines(client: "Client", plural: str, id: str) -> "list[str]":
    """Return a line for each score of a safety case, or for each metric of a report after its headline.

    Who may see an entity may not always read its files, and they may be gone: then the line says why.
    """
    from steelyard.client.errors import ClientError

    try:
        return _read_lines(client, plural, id)
    except ClientError as error:
        return [f"cannot be read: {error}"]
    except TooLarge as error:
        return [f"cannot be read: report.json {error}"]
    except _NO_NUMBERS:
        return ["cannot be read: report.json does not hold the numbers of a report"]


def _read_lines(client: "Client", plural: str, id: str) -> "list[str]":
    if plural == "safetycases":
        return [
            f"{score.title}: {score.quantityString}. {score.text}" for score in client.safetycases.scores(id)
        ]
    if plural != "reports":
        return []
    return metric_lines(_numbers(client, id))


def _numbers(client: "Client", report: str) -> Json:
    """Return the headline and the metrics of a report; nothing without metrics. Raises ClientError, _NO_NUMBERS."""
    with tempfile.TemporaryDirectory() as folder:
        files = client.reports.download(report, folder, paths=["report.json"])
        if not files:
            return {}
        with files[0].open("rb") as file:
            content = read_whole(file)
    numbers = parse_json(content)
    if not isinstance(numbers, dict):
        raise TypeError
    return numbers


def metric_lines(numbers: Json) -> "list[str]":
    """Return the headline of a report's numbers, and a line for each metric."""
    lines = [str(numbers["headline"])] if numbers.get("headline") else []
    for metric in numbers.get("metrics", ()):
        low, high = (metric.get(name) for name in ("low", "high"))
        interval = f" (95 % interval {low:.4g} to {high:.4g})" if None not in (low, high) else ""
        lines.append(f"{_metric_text(metric)}{interval}")
    return lines


def _metric_text(metric: Json) -> str:
    value = "none" if metric["value"] is None else f"{metric['value']:.4g}"
    return f"{metric['title']}: {value}"


def _list_scores(client: "Client", ids: "Sequence[str]") -> "list[Score]":
    """Return the scores of the safety cases, one after the other.

    No query is used: it leaves out public entities of other accounts.
    """
    return [score for id in ids for score in client.safetycases.scores(id)]


def _table(scores: "Sequence[Score]") -> str:
    from steelyard.cli.output import columns

    rows = [("SAFETY CASE", "SCORE", "VALUE", "TITLE", "MEANING")]
    rows += [
        (score.analysis[:8], score.name, score.quantityString, score.title, score.text) for score in scores
    ]
    return columns(rows) if scores else "no safety case that matches has scores"
