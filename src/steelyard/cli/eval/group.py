"""The group `steelyard eval`: each command is a module of its own, and imports what it needs when it is called."""

import os

import typer

from steelyard.cli.eval import compare, export, mock, run, score, show
from steelyard.cli.extras import needs

eval_app = typer.Typer(
    help="Evaluate any OpenAI-compatible endpoint. `mock` is one to try the commands on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@eval_app.callback()
def _evaluations() -> None:
    # Arrow's own allocator keeps what it once had: 60 MB more, of which the commands need nothing.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


for command in (run.run, score.score, show.show, compare.compare, export.export, mock.mock):
    eval_app.command()(needs("eval")(command))
