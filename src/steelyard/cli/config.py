"""`steelyard config`: the engines that the settings name, tried and made ready before anything is started on them."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from steelyard.cli.connection import FolderOption
from steelyard.cli.extras import needs
from steelyard.cli.log import SettingsOption

if TYPE_CHECKING:
    from steelyard.local.config import Check
    from steelyard.settings import Settings

config = typer.Typer(help="Check the engines of the settings, and make them ready.", no_args_is_help=True)


@config.command()
@needs("local")
def check(state_dir: FolderOption = None, settings: SettingsOption = None) -> None:
    """Try every engine, and name the settings that are missing.

    The engines are log, view, accounts, storage, backup and, where the settings name one, the mirror; the keys of
    secrets and Kubernetes are tried, too. All are tried from where the command runs, which may be a Pod.

    Prints what each one is and can do. Exit status 3 when one of them cannot be used.
    """
    import asyncio

    from steelyard.cli.connection import choose_state_dir
    from steelyard.local.config import check_engines, check_surroundings

    async def try_all() -> bool:
        good, loaded, state = True, _load(state_dir, settings), choose_state_dir(state_dir)
        # The name is printed before the trial, because the answer takes seconds where a server is down.
        for checks in (check_engines(loaded, _show_name), check_surroundings(loaded, state, _show_name)):
            async for seen in checks:
                _show_result(seen)
                good = good and not seen.fault
        return good

    if not asyncio.run(try_all()):
        raise typer.Exit(3)


@config.command()
@needs("local")
def init(state_dir: FolderOption = None, settings: SettingsOption = None) -> None:
    """Make the topics, tables and indexes that servers need.

    The servers are those that the settings name; what an earlier version has made is migrated. Nothing is lost: run
    again, it changes nothing. Files need no preparation.
    """
    import asyncio

    from steelyard.accounts.database import AccountsDatabaseError
    from steelyard.local.config import prepare_engines
    from steelyard.views.view import ViewError
    from steelyard_common.errors import SteelyardError

    async def prepare_all() -> int:
        count = 0
        async for prepared in prepare_engines(_load(state_dir, settings)):
            _show_name(prepared.engine, prepared.address)
            _show_result(prepared)
            count += 1
        return count

    try:
        if not asyncio.run(prepare_all()):
            typer.echo(
                "nothing to make: the settings name no Kafka, MongoDB or PostgreSQL, and the first start makes"
                " everything else"
            )
    except (AccountsDatabaseError, ViewError) as error:
        raise SteelyardError(str(error)) from error


def _load(state_dir: Path | None, settings: Path | None) -> "Settings":
    from steelyard.cli.connection import choose_state_dir
    from steelyard.settings import load

    return load(settings, choose_state_dir(state_dir).path)


def _show_name(engine: str, address: str) -> None:
    typer.echo(f"{engine:<9} {address}")


def _show_result(seen: "Check") -> None:
    typer.echo(f"{'':<9} {f'CANNOT BE USED: {seen.fault}' if seen.fault else ', '.join(seen.facts)}")
