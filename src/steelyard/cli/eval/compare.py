"""`steelyard eval compare`: compares runs over the same rows with the first of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard_common.durable import rename_durably
from steelyard_common.errors import UsageError

if TYPE_CHECKING:
    from steelyard_evaluation.report.comparison.runs import ComparedRuns, RunComparison

FORMS = ("table", "json")
MOST_LISTED = 20


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN OTHER...", help="Folders of runs; the others are compared with the first."
        ),
    ],
    form: Annotated[
        str, typer.Option("-o", "--form", metavar="FORM", help="Form of the output: table or json.")
    ] = "table",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="Also write the comparison as a self-contained HTML page."
        ),
    ] = None,
    rubric: Annotated[
        str | None, typer.Option(help="Rubric to compare. Default: the one that leads the first run.")
    ] = None,
    cluster_by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that says which rows are not independent. Default: as the runs were scored.",
        ),
    ] = None,
) -> None:
    """Compare runs row by row. It shows differences with intervals, p values, and which rows changed.

    All runs must be over the same data and scored by the same rubric; prompts, models and settings may differ.
    """
    if form not in FORMS:
        raise UsageError(f"-o {form}: should be {' or '.join(FORMS)}")
    from steelyard_evaluation.runs.compare import compare_runs, page

    compared = compare_runs(runs, rubric, cluster_by)
    # The page comes before the text: a path that cannot be written is reported before results scroll by.
    if output is not None:
        _write(output, page(compared, runs[0]))
    typer.echo(_json(compared) if form == "json" else _table(compared))
    if output is not None:
        typer.echo(f"page: {output}", err=True)


def _write(path: Path, page: bytes) -> None:
    if not path.name:
        raise UsageError(f"--output {path}: is a folder; it should be a file")
    scratch = path.with_name(f".#{path.name}")
    try:
        scratch.write_bytes(page)
        rename_durably(scratch, path)
    except OSError as error:
        raise UsageError(f"--output {path}: {(error.strerror or str(error)).lower()}") from error
    finally:
        scratch.unlink(missing_ok=True)


def _json(compared: "ComparedRuns") -> str:
    from steelyard_evaluation.report.comparison.runs import comparison_json
    from steelyard_evaluation.report.page.page import numbers_json

    return numbers_json(comparison_json(compared)).decode().rstrip()


def _table(compared: "ComparedRuns") -> str:
    from steelyard.cli.output import columns
    from steelyard_evaluation.report.comparison.runs import limits, overview

    table = overview(compared)
    rows = [tuple(column for column in table.columns), *(tuple(map(str, row)) for row in table.rows)]
    lines = [f"rubric: {compared.rubric}", columns(rows)]
    for other in compared.others:
        lines += ["", *_lines(compared, other)]
    return "\n".join([*lines, "", *(f"note: {limit}" for limit in limits(compared))])


def _lines(compared: "ComparedRuns", other: "RunComparison") -> list[str]:
    from steelyard_evaluation.report.comparison.runs import KINDS, chance_sentence, sentence

    result = other.comparison
    lines = [f"{sentence(compared, other)}: {chance_sentence(compared, other)}."]
    lines.append(f"  {result.p_value.method}; interval of {result.difference.method}")
    lines += [f"  different request: {what}" for what in other.side.differs]
    for changes in result.changes:
        if changes.total:
            more = f", … ({changes.total - MOST_LISTED:,} more)" if changes.total > MOST_LISTED else ""
            listed = ", ".join(map(str, changes.indexes[:MOST_LISTED]))
            noun = "row" if changes.total == 1 else "rows"
            lines.append(f"  {KINDS[changes.kind][0]} ({changes.total:,}): {noun} {listed}{more}")
    return lines
