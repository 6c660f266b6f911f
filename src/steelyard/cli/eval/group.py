"""The group `steelyard eval`: each command is a module of its own, and imports what it needs when it is called."""

import os

import typer

from steelyard.cli.eval import compare, export, run, score, show

eval_app = typer.Typer(
    help="Evaluate any OpenAI-compatible endpoint: run, score, show, compare, export.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@eval_app.callback()
def _evaluations() -> None:
    # Arrow's own allocator keeps what it once had: 60 MB more, of which the commands need nothing.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


eval_app.command()(run.run)
eval_app.command()(score.score)
eval_app.command()(show.show)
eval_app.command()(compare.compare)
eval_app.command()(export.export)
