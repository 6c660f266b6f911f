"""The group `steelyard eval`: each command is a module of its own, and imports what it needs when it is called."""

import typer

from steelyard.cli.eval import export, run, score, show

eval_app = typer.Typer(
    help="Evaluate any OpenAI-compatible endpoint: run, score, show, compare, export.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
eval_app.command()(run.run)
eval_app.command()(score.score)
eval_app.command()(show.show)
eval_app.command()(export.export)
