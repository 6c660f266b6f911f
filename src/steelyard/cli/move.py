"""`steelyard export` and `steelyard import`: an installation moves to other engines, or to another machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import FolderOption
from steelyard.cli.extras import needs
from steelyard.cli.log import SettingsOption

if TYPE_CHECKING:
    from steelyard.local.moving import TransferCounts


@needs("local")
def export(
    target: Annotated[Path, typer.Argument(help="New file whose name ends in .tar, or new folder.")],
    state_dir: FolderOption = None,
    settings: SettingsOption = None,
) -> None:
    """Write an installation to one file or folder. It holds entities, commands, files and accounts.

    Nothing may run meanwhile: call steelyard down first. The keys that sign tokens are in it: keep it secret.
    """
    import asyncio
    from datetime import UTC, datetime

    from steelyard.cli.connection import choose_state_dir
    from steelyard.local.acceptance import keep_stopped
    from steelyard.local.engines import advice, check_files
    from steelyard.local.moving import export_to
    from steelyard.local.state import explain_no_state_folder
    from steelyard.settings import load
    from steelyard_common.errors import UsageError

    state = choose_state_dir(state_dir)
    if (why := explain_no_state_folder(state)) is not None:
        raise UsageError(f"--state-dir {state.path}: {why}")
    loaded = load(settings, state.path)
    with keep_stopped(state):
        asyncio.run(check_files(loaded, advice(state, settings)))
        moved = asyncio.run(export_to(loaded, target, datetime.now(UTC), typer.echo))
    typer.echo(f"{target}: {_counts(moved)}")


@needs("local")
def import_(
    source: Annotated[Path, typer.Argument(help="File or folder that steelyard export has written.")],
    state_dir: FolderOption = None,
    settings: SettingsOption = None,
) -> None:
    """Fill the empty engines that the settings name from an export.

    The whole export is checked first. Where the log, the view, the storage or the accounts have anything, nothing is
    changed. Nothing may run meanwhile. Tokens stay good.
    """
    import asyncio
    from datetime import UTC, datetime

    from steelyard.cli.connection import choose_state_dir
    from steelyard.local.acceptance import keep_stopped
    from steelyard.local.files import prepare
    from steelyard.local.moving import import_from
    from steelyard.settings import load

    state = choose_state_dir(state_dir)
    loaded = load(settings, state.path)
    prepare(state)
    with keep_stopped(state):
        moved = asyncio.run(import_from(loaded, source, datetime.now(UTC), typer.echo))
    typer.echo(f"imported {_counts(moved)}")


def _counts(moved: "TransferCounts") -> str:
    return (
        f"{moved.entities} entities, {moved.commands} commands, {moved.objects} files of the storage, "
        f"{moved.accounts} accounts"
    )
