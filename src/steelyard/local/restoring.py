"""A platform from its backup: `steelyard restore` calls this, on the engines of one state folder where nothing runs."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from steelyard.accounts.secrets import SecretKeys
from steelyard.broker.log import STATE, Log
from steelyard.local.account_copies import restore_accounts
from steelyard.local.engines import open_engines, outlets
from steelyard.local.file_copies import restore_files
from steelyard.services.backup.archive import Archive, Contents
from steelyard.services.backup.rebuild import Rebuilt, check_empty, make_label, rebuild, survey
from steelyard.services.backup.states import Progress, Reading
from steelyard.services.identity import accept, inspect, next_epoch
from steelyard.services.sinks.view import run_view_sink
from steelyard.settings import Settings
from steelyard.views.fields import FILTERS
from steelyard.views.view import Query, View
from steelyard_common.errors import Refused, SteelyardError
from steelyard_evaluation.storage.store import StorageError, Store, open_store


@dataclass(frozen=True)
class Restoration:
    """Result of a restore, or with `dry_run` what it would be."""

    rebuilt: Rebuilt
    newest: datetime | None
    damaged: list[str]
    log: str = ""
    epoch: int = 0
    resent: int = 0
    accounts_are_new: bool = False
    accounts: int | None = None
    """Restored accounts; None where the accounts database keeps its own, or there is no copy."""
    files: int = 0
    """Files that the storage lacked."""


@dataclass(frozen=True)
class Sources:
    """Sources of a restore: the backup, keys that decrypt its accounts, and a storage whose files are copied."""

    backup: Store
    files: Store | None = None
    keys: Callable[[], SecretKeys | None] = lambda: None
    """Called where accounts are restored, and only there: it may make a file of keys."""


async def restore_platform(
    settings: Settings,
    now: datetime,
    *,
    until: datetime | None = None,
    dry_run: bool = False,
    skip_damaged: bool = False,
    progress: Progress = lambda done, all: None,
    sources: Sources | None = None,
) -> Restoration:
    """Rebuild the log's state and the view from the backup. Raises Refused where log or view is not empty, Damaged.

    An accounts database without accounts gets those of the backup. `sources`: by default the backup of the settings.
    """
    sources = sources or Sources(open_store(settings.backup))
    archive, reading = Archive(sources.backup), Reading(until, skip_damaged, progress)
    contents = await read_contents(archive, reading)
    if dry_run:
        rebuilt = await survey(archive, contents, reading)
        return Restoration(rebuilt, reading.newest, reading.damaged)
    async with open_engines(settings) as opened:
        log, known = opened.log, outlets(opened, settings)
        await check_empty(log, make_label(reading))
        await check_view(opened.view, log)
        accounts = await restore_accounts(opened.accounts_database, sources.backup, sources.keys, until)
        files = await restore_files(sources.files, opened.store) if sources.files else 0
        inspection = await inspect(log, known)
        # The archive may have seen a later epoch than any of the others, where all of them were lost.
        if contents.epoch >= next_epoch(log, inspection):
            await log.begin_epoch(contents.epoch)
            inspection = await inspect(log, known)
        epoch = next_epoch(log, inspection)
        rebuilt = await rebuild(log, archive, contents, reading, epoch, now)
        resent = await accept(log, known, opened.accounts_database.outbox)
        await fill_view(log, opened.view)
        lost = accounts is None and inspection.origins[known.accounts[0]] is None
        return Restoration(
            rebuilt, reading.newest, reading.damaged, log.id, log.epoch, resent, lost, accounts, files
        )


async def read_contents(archive: Archive, reading: Reading) -> Contents:
    """The archive's contents. Raises SteelyardError where there is no archive."""
    try:
        contents = await archive.contents(reading.damaged if reading.skip_damaged else None)
    except StorageError as error:
        raise SteelyardError(f"backup: {error}") from error
    if not contents.segments and not contents.snapshots:
        raise SteelyardError(f"backup {archive.store.url}: there is no archive of entities in it")
    return contents


async def fill_view(log: Log, view: View) -> None:
    """Write all that the log has to the view."""
    stop, ends = asyncio.Event(), await log.ends(STATE)
    async with asyncio.TaskGroup() as group:
        group.create_task(run_view_sink(log, view, stop=stop))
        version = view.version()
        while dict(await view.positions(log.epoch)) != dict(ends):
            version = await view.wait_for_change(version, 1.0)
        stop.set()


async def check_view(view: View, log: Log) -> None:
    """Raises Refused where the view has an entity, unless it was written from this log, which is being filled."""
    origin = await view.origin()
    if origin is not None and origin.log == log.id:
        return  # an earlier call was cut short while it built the view
    for kind in FILTERS:
        for stored in await view.query(Query(kind, limit=1)):
            raise Refused(
                f"the view is not empty: it has {stored.id}, for one; nothing was changed. It can always be "
                "built again: move it away"
            )
