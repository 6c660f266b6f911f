"""`steelyard backup …`: one entity is brought back, and the backup is tried."""

from typing import Annotated

import typer

from steelyard.cli.connection import FolderOption, PlatformOptions
from steelyard.cli.extras import needs
from steelyard.cli.log import SettingsOption
from steelyard.cli.option_groups import with_options

backup = typer.Typer(
    help="Restore deleted entities, and test whether a restore works.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@backup.command("restore")
@with_options
def restore(
    id: Annotated[str, typer.Argument(help="The entity's whole id.")], *, platform: PlatformOptions
) -> None:
    """Restore an entity that was deleted or forgotten. Only administrators may.

    It gets the status that it had before it was deleted; one that was deleted while it ran has failed. The platform has
    to run.
    """
    with platform.connect() as client:
        done = client.backup.restore(id)
        typer.echo(f"{done.message}: {done.status}")


@backup.command("drill")
@needs("local")
def drill(state_dir: FolderOption = None, settings: SettingsOption = None) -> None:
    """Restore the backup into a scratch folder, as a trial. Its entities are compared with those of the view.

    The platform may run. Exit status 3 when an entity is missing or differs that the backup should have.
    """
    import asyncio

    from steelyard.cli.connection import choose_state_dir
    from steelyard.cli.restore import shown_progress
    from steelyard.local.drill import run_drill
    from steelyard.settings import load

    loaded = load(settings, choose_state_dir(state_dir).path)
    with shown_progress() as progress:
        drilled = asyncio.run(run_drill(loaded, progress))
    for line in drilled.lines():
        typer.echo(line)
    if drilled.faults:
        raise typer.Exit(3)
