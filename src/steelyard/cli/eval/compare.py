"""`steelyard eval compare`: runs over the same rows beside the first of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.errors import UsageError

if TYPE_CHECKING:
    from steelyard.report.comparison.runs import Against, Compared

FORMS = ("table", "json")
MOST_LISTED = 20


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN OTHER...", help="Folders of runs; the others stand against the first."),
    ],
    form: Annotated[str, typer.Option("-o", "--form", metavar="FORM", help="table or json.")] = "table",
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write a page (.html) that stands alone, too."),
    ] = None,
    rubric: Annotated[str | None, typer.Option(help="By default the one that leads the first run.")] = None,
    cluster_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Rows of one value depend on each other; by default as scored."),
    ] = None,
) -> None:
    """Compare runs row by row: differences with intervals, p values, and which rows changed.

    All runs have to be of the same data, scored by the same rubric; prompts, models and settings may differ.
    """
    if form not in FORMS:
        raise UsageError(f"-o {form}: should be {' or '.join(FORMS)}")
    from steelyard.runs.compare import compare_runs, page

    compared = compare_runs(runs, rubric, cluster_by)
    if output is not None:
        _write(output, page(compared, runs[0]))
    typer.echo(_json(compared) if form == "json" else _table(compared))
    if output is not None:
        typer.echo(f"page: {output}", err=True)


def _write(path: Path, page: bytes) -> None:
    scratch = path.with_name(f".#{path.name}")
    try:
        scratch.write_bytes(page)
        scratch.replace(path)
    except OSError as error:
        raise UsageError(f"--output {path}: {(error.strerror or str(error)).lower()}") from error
    finally:
        scratch.unlink(missing_ok=True)


def _json(compared: "Compared") -> str:
    from steelyard.report.comparison.runs import compared_numbers
    from steelyard.report.page.page import numbers_json

    return numbers_json(compared_numbers(compared)).decode().rstrip()


def _table(compared: "Compared") -> str:
    from steelyard.report.comparison.runs import limits, overview

    table = overview(compared)
    rows = [tuple(column for column in table.columns), *(tuple(map(str, row)) for row in table.rows)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(table.columns))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    for each in compared.others:
        lines += ["", *_told(compared, each)]
    return "\n".join([*lines, "", *(f"note: {limit}" for limit in limits(compared))])


def _told(compared: "Compared", each: "Against") -> list[str]:
    from steelyard.report.comparison.runs import sentence, verdict

    found = each.comparison
    lines = [f"{sentence(each, compared.first, compared.unit)}: {verdict(each)}."]
    lines.append(f"  {found.chance.method}; interval of {found.difference.method}")
    lines += [f"  asked otherwise: {what}" for what in each.side.differs]
    for changes in found.changes:
        if changes.total:
            more = f", … ({changes.total - MOST_LISTED:,} more)" if changes.total > MOST_LISTED else ""
            listed = ", ".join(map(str, changes.indexes[:MOST_LISTED]))
            lines.append(f"  {changes.kind} ({changes.total:,}): rows {listed}{more}")
    return lines
