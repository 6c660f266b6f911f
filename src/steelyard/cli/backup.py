"""`steelyard backup …`: the backup is completed and tried, one entity is brought back, and what goes is listed."""

from typing import Annotated

import typer

from steelyard.cli.connection import FolderOption, PlatformOptions
from steelyard.cli.extras import needs
from steelyard.cli.log import SettingsOption
from steelyard.cli.option_groups import with_options

backup = typer.Typer(
    help="Complete or test the backup, restore deleted entities.",
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


@backup.command("write")
@needs("local")
def write(state_dir: FolderOption = None, settings: SettingsOption = None) -> None:
    """Complete the backup now, with a copy of the accounts.

    It gets the newest changes of entities; then the mirror is brought up to date, where there is one. The platform may
    run. Accounts are encrypted with the secret keys of the settings: keep a copy of these.
    """
    import asyncio
    from datetime import UTC, datetime

    from steelyard.cli.connection import choose_state_dir
    from steelyard.local.backing_up import write_backup
    from steelyard.settings import load

    state = choose_state_dir(state_dir)
    done = asyncio.run(write_backup(load(settings, state.path), state, datetime.now(UTC)))
    for line in done.lines():
        typer.echo(line)


@backup.command("drill")
@needs("local")
def drill(state_dir: FolderOption = None, settings: SettingsOption = None) -> None:
    """Restore the backup into a scratch folder, as a trial. Its entities are compared with those of the view.

    The platform may run. Exit status 3 when an entity is missing or differs that the backup should have.
    """
    import asyncio

    from steelyard.cli.connection import choose_state_dir
    from steelyard.cli.restore import show_progress
    from steelyard.local.drill import run_drill
    from steelyard.settings import load

    loaded = load(settings, choose_state_dir(state_dir).path)
    with show_progress() as progress:
        drilled = asyncio.run(run_drill(loaded, progress))
    for line in drilled.lines():
        typer.echo(line)
    if drilled.faults:
        raise typer.Exit(3)


@backup.command("forgotten")
@needs("local")
def list_forgotten(
    state_dir: FolderOption = None,
    settings: SettingsOption = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Form of the output: table or json.")
    ] = "table",
) -> None:
    """List deleted and forgotten entities, and when their files go. Until then they can be restored.

    The platform may run.
    """
    import asyncio
    import json

    from steelyard.cli.connection import choose_state_dir
    from steelyard.local.departing import read_departures
    from steelyard.services.reaper.departures import HEADINGS
    from steelyard.settings import load
    from steelyard_common.errors import UsageError

    if output not in ("table", "json"):
        raise UsageError(f"--output {output}: should be table or json")
    loaded = load(settings, choose_state_dir(state_dir).path)
    going = asyncio.run(read_departures(loaded))
    if output == "json":
        typer.echo(json.dumps([departure.dump() for departure in going], indent=2))
        return
    rows = [HEADINGS, *(departure.row() for departure in going)] if going else []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(map(str.ljust, row, widths)).rstrip())
    if not rows:
        typer.echo("nothing is deleted or forgotten")
