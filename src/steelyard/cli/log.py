"""`steelyard log`: the event log of one state folder, where its identity is in doubt."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import FolderOption
from steelyard.cli.extras import needs
from steelyard_common.errors import UsageError

if TYPE_CHECKING:
    from steelyard.local.acceptance import AcceptedLog, Report
    from steelyard.local.state import StateDir
    from steelyard.settings import Settings

log = typer.Typer(
    help="Check the event log, accept it, or rebuild it from the backup.",
    no_args_is_help=True,
)
SettingsOption = Annotated[
    Path | None,
    typer.Option("--settings", help="Settings file (steelyard.toml), if `steelyard up` uses one."),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


@log.command()
@needs("local")
def status(state_dir: FolderOption = None, settings: SettingsOption = None) -> None:
    """Show which of the platform's files belong to the log.

    Exit status 3 when one of them does not.
    """
    import asyncio

    from steelyard.local.acceptance import report
    from steelyard.local.engines import advice, check_files

    state, loaded = _load(state_dir, settings)
    how_to_go_on = advice(state, settings)
    asyncio.run(check_files(loaded, how_to_go_on))
    seen = asyncio.run(report(loaded, how_to_go_on))
    _show(seen)
    if seen.inspection.faults:
        raise typer.Exit(3)


@log.command()
@needs("local")
def accept(state_dir: FolderOption = None, settings: SettingsOption = None, yes: YesOption = False) -> None:
    """Go on with the log as it is: another one, older or empty.

    Entities that the log does not know leave the view, and their running work is ended; the backup keeps them. Nothing
    may run meanwhile: call steelyard down first.
    """
    import asyncio

    from steelyard.local.acceptance import accept_log, keep_stopped, report
    from steelyard.local.engines import advice

    state, loaded = _load(state_dir, settings)
    # The locks of all processes are held until the end: no process starts on a log that is being accepted.
    with keep_stopped(state):
        seen = asyncio.run(report(loaded, advice(state, settings)))
        _show(seen)
        if seen.missing:
            typer.echo(
                f"{seen.missing} entities of the backup are not in this log: they leave the view, and their work ends"
            )
        confirm("Accept this log?", yes)
        _accept(asyncio.run(accept_log(loaded)))


@log.command()
@needs("local")
def restore(state_dir: FolderOption = None, settings: SettingsOption = None, yes: YesOption = False) -> None:
    """Write to the log what it lacks from the backup, and accept it.

    A lost log is created again. Nothing may run meanwhile: call steelyard down first.
    """
    import asyncio
    from datetime import UTC, datetime

    from steelyard.local.acceptance import keep_stopped, report, restore_log
    from steelyard.local.engines import advice

    state, loaded = _load(state_dir, settings)
    with keep_stopped(state):
        _show(asyncio.run(report(loaded, advice(state, settings))))
        confirm("Restore this log from the backup?", yes)
        _accept(asyncio.run(restore_log(loaded, datetime.now(UTC))))


def confirm(question: str, yes: bool) -> None:
    """Go on only when a person has agreed. Raises UsageError where no person can be asked."""
    if yes:
        return
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        raise UsageError(
            "nothing was changed: the question was not answered; --yes continues without asking"
        ) from None
    if not agreed:
        typer.echo("nothing was changed")
        raise typer.Exit(1)


def _load(folder: Path | None, settings: Path | None) -> "tuple[StateDir, Settings]":
    from steelyard.cli.connection import choose_state_dir
    from steelyard.local.state import explain_no_state_folder
    from steelyard.settings import load
    from steelyard_common.errors import UsageError

    state = choose_state_dir(folder)
    if (why := explain_no_state_folder(state)) is not None:
        raise UsageError(f"--state-dir {state.path}: {why}")
    return state, load(settings, state.path)


def _show(seen: "Report") -> None:
    typer.echo(f"log {seen.address}: id {seen.id}, epoch {seen.epoch}")
    for name, origin in seen.inspection.origins.items():
        fault = seen.inspection.faults.get(name)
        word = f"REFUSED: {fault}" if fault else "is new" if origin is None else "belongs to this log"
        typer.echo(f"  {name}: {word}")


def _accept(done: "AcceptedLog") -> None:
    if done.restored is not None:
        typer.echo(f"written to the log from the backup: {done.restored.entities} entities")
        for key in done.restored.unreadable:
            typer.echo(f"  left out, as it is not a readable entity: {key}")
    typer.echo(f"the log {done.id[:8]} is accepted from epoch {done.epoch} on")
    if done.resent:
        typer.echo(f"{done.resent} creates that were acknowledged and are not in the log will be sent again")
