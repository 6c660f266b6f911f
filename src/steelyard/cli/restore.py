"""`steelyard restore`: a platform whose log and view are lost, rebuilt from its backup."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import FolderOption
from steelyard.cli.extras import needs
from steelyard.cli.log import SettingsOption, YesOption
from steelyard.cli.plain_text import terminal
from steelyard_common.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from steelyard.local.restoring import Restoration
    from steelyard.services.backup.states import Progress

UntilOption = Annotated[
    str | None,
    typer.Option(
        help="Restore everything as it was at this time, such as 2030-01-31T12:00:00Z. Default: the newest."
    ),
]


@needs("local")
def restore(
    state_dir: FolderOption = None,
    settings: SettingsOption = None,
    until: UntilOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read the whole backup, say what is in it, and change nothing.")
    ] = False,
    skip_damaged: Annotated[
        bool,
        typer.Option(
            "--skip-damaged", help="Go on without files that are damaged or missing, and name them."
        ),
    ] = False,
    source: Annotated[
        str, typer.Option("--from", help="URL of the backup to read. Default: the backup of the settings.")
    ] = "",
    files: Annotated[
        str,
        typer.Option(
            help="URL of a copy of the storage, such as the mirror's: files that are missing are copied."
        ),
    ] = "",
    yes: YesOption = False,
) -> None:
    """Rebuild all entities and the view from the backup. It is for a log and a view that were lost.

    Nothing is written over: where the log or the view has anything, the command refuses. Nothing may run meanwhile.
    Where the accounts database is empty, the accounts that steelyard backup write has copied are restored, too.
    One deleted entity is brought back by steelyard backup restore.
    """
    import asyncio
    from datetime import UTC, datetime

    from steelyard.cli.connection import choose_state_dir
    from steelyard.cli.log import confirm
    from steelyard.engines.addresses import without_password
    from steelyard.local.acceptance import keep_stopped
    from steelyard.local.files import prepare
    from steelyard.local.restoring import Sources, restore_platform
    from steelyard.local.secret_keys import secret_keys
    from steelyard.settings import load
    from steelyard_evaluation.storage.store import open_store

    when = _time(until) if until else None
    state = choose_state_dir(state_dir)
    loaded = load(settings, state.path)
    backup = source or loaded.backup
    sources = Sources(
        open_store(backup), open_store(files) if files else None, lambda: secret_keys(state, loaded)
    )
    if not dry_run:
        prepare(state)
    with nullcontext() if dry_run else keep_stopped(state):
        if not dry_run:
            log, view = without_password(loaded.log), without_password(loaded.view)
            confirm(f"Restore {log} and {view} from {backup}?", yes)
        with show_progress() as progress:
            done = asyncio.run(
                restore_platform(
                    loaded,
                    datetime.now(UTC),
                    until=when,
                    dry_run=dry_run,
                    skip_damaged=skip_damaged,
                    progress=progress,
                    sources=sources,
                )
            )
    _show(done, dry_run)


def _time(text: str) -> "datetime":
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--until {text}: is not a time such as 2030-01-31T12:00:00Z") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


@contextmanager
def show_progress() -> "Iterator[Progress]":
    """A bar on a terminal; elsewhere nothing is shown."""
    from rich.console import Console
    from rich.progress import Progress as Bars

    if not Console(file=terminal(sys.stderr)).is_terminal:
        yield lambda done, all: None
        return
    with Bars(console=Console(file=terminal(sys.stderr)), transient=True) as bars:
        task = bars.add_task("reading the backup", total=None)

        def advance(done: int, all: int) -> None:
            bars.update(task, completed=done, total=all)

        yield advance


def _show(done: "Restoration", dry_run: bool) -> None:
    rebuilt = done.rebuilt
    verb = "in the backup" if dry_run else "restored"
    typer.echo(f"{rebuilt.entities} entities {verb}, {rebuilt.forgotten} forgotten ones known as such")
    if done.newest is not None:
        typer.echo(f"the newest change in the backup is of {done.newest.isoformat(timespec='seconds')}")
    if rebuilt.undone:
        word = "would be" if dry_run else "are"
        typer.echo(f"{rebuilt.undone} entities that were made later {word} left out")
    for fault in done.damaged:
        typer.echo(f"skipped: {fault}")
    if dry_run:
        typer.echo("nothing was changed")
        return
    typer.echo(f"the log {done.log[:8]} is accepted from epoch {done.epoch} on, and the view is built")
    if done.accounts is not None:
        typer.echo(f"{done.accounts} accounts restored, with their tokens and secrets")
    if done.files:
        typer.echo(f"{done.files} files of the storage copied")
    if done.resent:
        typer.echo(
            f"{done.resent} creates that were acknowledged and are not in the backup will be sent again"
        )
    if done.accounts_are_new:
        typer.echo(
            "the accounts database is empty, and the backup has no copy of accounts: steelyard backup write"
        )
