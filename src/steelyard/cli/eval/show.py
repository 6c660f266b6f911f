"""`steelyard eval show`: the summary of a run, its row errors, its wrong answers, or one row with its history."""

from typing import Annotated

import typer

from steelyard.cli.eval.options import RunArgument


def show(
    run: RunArgument,
    row: Annotated[
        int | None,
        typer.Option(metavar="INDEX", help="Show one row: its prompt, answers, scores and failed calls."),
    ] = None,
    failures: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Show the first N rows with a wrong answer, and what each rubric says of it.",
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="With --failures: do not shorten long values.")
    ] = False,
    errors: Annotated[
        bool, typer.Option("--errors", help="Show the rows without an answer, and why.")
    ] = False,
) -> None:
    """Show the summary of a run, or what an option names."""
    from steelyard.cli.eval import run_text
    from steelyard_evaluation.runs.folder import RunFolder, open_run

    asks = row is not None or failures is not None or errors
    # Rows can be shown of a run that is done alone; opening another one says so.
    if not asks and not RunFolder(run).verified:
        typer.echo(run_text.state_text(RunFolder(run)))
        return
    done = open_run(run)
    done.check()
    if row is not None:
        text = run_text.row(done, row)
    elif failures is not None:
        text = run_text.failures(done, failures, full=full)
    elif errors:
        text = run_text.errors(done)
    else:
        text = run_text.summary(done)
    typer.echo(text)
