"""`steelyard eval show`: what came of a run; its row errors; its wrong answers; one row with its history."""

from typing import Annotated

import typer

from steelyard.cli.eval.options import RunArgument


def show(
    run: RunArgument,
    row: Annotated[
        int | None,
        typer.Option(metavar="INDEX", help="One row: what was asked, answered, scored, and tried."),
    ] = None,
    failures: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The first N wrong answers in full.")
    ] = None,
    errors: Annotated[bool, typer.Option("--errors", help="The rows without an answer, and why.")] = False,
) -> None:
    """Show a run: its summary, or what one of the options names."""
    from steelyard.cli.eval import run_text
    from steelyard.runs.folder import RunFolder, open_run

    if not RunFolder(run).verified:
        typer.echo(run_text.unfinished(RunFolder(run)))
        return
    done = open_run(run)
    if row is not None:
        text = run_text.row(done, row)
    elif failures is not None:
        text = run_text.failures(done, failures)
    elif errors:
        text = run_text.errors(done)
    else:
        text = run_text.summary(done)
    typer.echo(text)
