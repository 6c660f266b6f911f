"""The group `steelyard train`: every command is a module of its own, and imports what it needs when it is called."""

from typing import Any

import typer
from typer.core import TyperCommand

from steelyard.cli.train import control, convert, describe, listing, logs, register, run

HELP = """Train on many workers, on this machine or on a cluster.

\b
steelyard train run train.py --workers 4            four workers on this machine, logs merged
steelyard train run train.py --workers 2 --detach   in the background
steelyard train logs -f NAME                        follow a job
steelyard train describe NAME                       what every replica does, and why one failed
steelyard train stop NAME                           end the Pods of a job; resume starts them again
"""


_UsageError: Any = typer.BadParameter.__base__  # click's, of which typer may have a copy of its own


class WithProgram(TyperCommand):
    """A command that runs another program: an option that it does not know is most likely that program's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            # click's NoSuchOption alone has it.
            if hasattr(error, "option_name"):
                error.message += (
                    f" (options of the script go after --: SCRIPT --workers 4 -- {error.option_name})"
                )
            raise


train_app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)
train_app.command(cls=WithProgram)(run.run)
train_app.command("list")(listing.list_)
train_app.command()(describe.describe)
train_app.command()(logs.logs)
train_app.command()(control.wait)
train_app.command()(control.stop)
train_app.command()(control.resume)
train_app.command()(control.delete)
train_app.command()(register.register)
train_app.command()(convert.convert)
