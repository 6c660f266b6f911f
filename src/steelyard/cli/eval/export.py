"""`steelyard eval export`: the rows of a run in one file."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.eval.options import RunArgument


def export(
    run: RunArgument,
    output: Annotated[Path, typer.Option(metavar="FILE", help="File to write: .jsonl, .csv or .parquet.")],
) -> None:
    """Write prompts, answers and scores of a run into one file. It has one row per answer."""
    from steelyard.cli.eval.wording import count
    from steelyard_evaluation.runs.export import export as write
    from steelyard_evaluation.runs.folder import open_run

    rows = write(open_run(run), output)
    typer.echo(f"{output}: {count(rows, 'row')}")
