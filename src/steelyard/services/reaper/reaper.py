"""The reaper: removes entities that ended long ago.

Entities that were Deleted 7 days ago are forgotten, by a command that the aggregator judges: one that was restored
meanwhile stays. Commands are kept 14 days, outcomes an hour; markers of forgotten entities become tombstones after 14
days, by a second ForgetEntity of the same entity, so that `workflows.state` has one writer. Before that the entity's
files go (`files.py`). What is left of uploads that came to nothing goes, too (`uploads.py`). Started by the platform's
process or by `steelyard service reaper`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from steelyard.broker.log import EVENTS, OUTCOMES, STATE, Log, Message, Record
from steelyard.broker.quarantine.dead_letters import describe_error
from steelyard.broker.quarantine.marks import Aside
from steelyard.broker.scan import topic_pieces
from steelyard.services.aggregator.messages import FORGOTTEN, State, read_state
from steelyard.services.backup.archive import Archive
from steelyard.services.horizon import raise_horizon
from steelyard.services.reaper.files import FileMetrics, ForgottenFiles, read_marker
from steelyard.services.reaper.uploads import discard_leftovers
from steelyard.services.status_commands import command_id
from steelyard_common.errors import is_engine_failure
from steelyard_common.types import mapping
from steelyard_evaluation.storage.store import StorageError, Store
from steelyard_schema.commands import ForgetData, ForgetEntity, command_time
from steelyard_schema.retention import DELETED_FOR

_log = logging.getLogger(__name__)
CONSUMER = "reaper"
"""Name under which entities that cannot be read are put in quarantine."""
UPLOADS = "uploads"
"""Name under which entities whose leftovers cannot be removed are put in quarantine."""
FILES = "forgotten-files"
"""Name under which forgotten entities whose files cannot be removed are put in quarantine."""
INTERVAL_SECONDS = 600.0
DELETED = b'"Deleted"'
"""Stands in the JSON of every entity that may be due."""
COMMANDS_FOR = timedelta(days=14)
OUTCOMES_FOR = timedelta(hours=1)
Clock = Callable[[], datetime]


async def run_reaper(
    log: Log,
    store: Store,
    *,
    backup: Store | None = None,
    stop: asyncio.Event,
    clock: Clock = lambda: datetime.now(UTC),
    metrics: FileMetrics | None = None,
) -> None:
    """Checks all states at once, and then every ten minutes, until `stop`. No tombstone goes that the archive in
    `backup` lacks."""
    aside, uploads_aside = await Aside.open(log, CONSUMER), await Aside.open(log, UPLOADS)
    files_aside = await Aside.open(log, FILES)
    files = ForgottenFiles(log, store, metrics) if metrics else ForgottenFiles(log, store)
    while not stop.is_set():
        await reap(log, clock(), aside, await _archive_offsets(log, backup), files)
        try:
            await files.remove(clock(), files_aside)
            await discard_leftovers(store, log, clock(), uploads_aside)
        except StorageError as error:
            _log.warning("cannot remove files of forgotten entities and of uploads: %s", error)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(INTERVAL_SECONDS):
                await stop.wait()


async def reap(
    log: Log,
    now: datetime,
    aside: Aside | None = None,
    archived: Mapping[int, int] | None = None,
    files: ForgottenFiles | None = None,
) -> int:
    """Check all states once; return how many commands were given.

    The horizon is in the log before any tombstone goes. What cannot be read is put aside, in `aside`. `archived` says
    up to which offset the backup has each partition; None where no backup is kept. `files` keeps the markers of
    entities whose files are not gone.
    """
    aside = aside or await Aside.open(log, CONSUMER)
    count = 0
    bound = now - COMMANDS_FOR
    tombstones: list[Record] = []
    async for records in topic_pieces(log, STATE):
        if files is not None:
            files.note(records, now)
        commands = [
            command
            for record in records
            # A marker is the only thing that says that there are files to remove.
            if not (files is not None and read_marker(record) is not None and record.key not in files.gone)
            if (command := await _due(record, now, aside)) is not None
        ]
        if commands:
            await log.publish(commands)
        count += len(commands)
        tombstones += [replace(record, headers={}) for record in records if record.value is None]
    if archived is not None:
        bound = min([bound, *(record.written for record in tombstones if _unread(record, archived))])
    if horizon := raise_horizon(tombstones, bound):
        await log.publish(horizon)
    await log.expire(EVENTS, now - COMMANDS_FOR)
    await log.expire(OUTCOMES, now - OUTCOMES_FOR)
    await log.expire(STATE, bound)
    return count


async def _archive_offsets(log: Log, backup: Store | None) -> Mapping[int, int] | None:
    """Offsets up to which the backup has the state; empty, so that nothing expires, where it does not answer."""
    if backup is None:
        return None
    try:
        return await Archive(backup).positions(log.epoch)
    except StorageError as error:
        _log.warning("cannot look how far the backup is, and keep all tombstones: %s", error)
        return {}


def _unread(record: Record, archived: Mapping[int, int]) -> bool:
    """Return whether the backup has yet to read a record: without its tombstone, it would keep the entity for ever."""
    return record.offset >= archived.get(record.partition, 0)


async def _due(record: Record, now: datetime, aside: Aside) -> Message | None:
    """Command for which a record is due. A record at which `due` fails is put aside until a later pass succeeds."""
    try:
        command = due(record, now)
    except Exception as error:
        if is_engine_failure(error):
            raise
        await aside.put(record.key, describe_error(error))
        return None
    await aside.clear(record.key)
    return command


def due(record: Record, now: datetime) -> Message | None:
    """Return the command for which a state record is due."""
    if record.value is not None and FORGOTTEN not in record.headers and DELETED not in record.value:
        return None  # nine of ten: parsing a million entities would take twenty seconds
    state = read_state(record)
    if state is None or state.buried:
        return None
    if state.content is None:
        since = datetime.fromisoformat(state.headers[FORGOTTEN])
        return _forget(record, state, now) if now - since >= COMMANDS_FOR else None
    since = datetime.fromisoformat(state.content.get("lastTransitionTime") or state.content["creationTime"])
    if state.content["status"] == "Deleted" and now - since >= DELETED_FOR:
        return _forget(record, state, now)
    return None


def _forget(record: Record, state: State, now: datetime) -> Message:
    content = state.content or {"kind": state.headers.get("kind", "Dataset")}
    revision = mapping(content, "metadata").get("revision")
    data = ForgetData(
        id=record.key,
        kind=content["kind"],
        expectedStatus=content.get("status"),
        expectedRevision=revision,
    )
    # The id depends on the state alone, so that a command that is sent again counts once.
    id = command_id("forget", record.key, record.headers["epoch"], record.headers["offset"])
    headers = {"id": id, "source": "reaper", "time": command_time(now)}
    return Message(EVENTS, record.key, ForgetEntity(data=data).dump_json(), headers)
