"""The reaper: what is over for long enough goes.

Entities that were Deleted 7 days ago are forgotten, by a command that the aggregator judges: one that was restored
meanwhile stays. Commands are kept 14 days, outcomes an hour; markers of forgotten entities become tombstones after 14
days, by a second ForgetEntity of the same entity, so that `workflows.state` has one writer. What is left of uploads
that came to nothing goes, too (`uploads.py`). Started by the platform's process or by `steelyard service reaper`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from steelyard.broker.log import EVENTS, OUTCOMES, STATE, Log, Message, Record
from steelyard.schema.commands import ForgetData, ForgetEntity, command_time
from steelyard.services.horizon import raised
from steelyard.services.judge import FORGOTTEN, State, state_of
from steelyard.services.statuses import command_id
from steelyard.services.uploads import discard_leftovers
from steelyard.storage.store import StorageError, Store

_log = logging.getLogger(__name__)
LOOK_SECONDS = 600.0
DELETED_FOR = timedelta(days=7)
COMMANDS_FOR = timedelta(days=14)
OUTCOMES_FOR = timedelta(hours=1)
Clock = Callable[[], datetime]


async def run_reaper(
    log: Log, store: Store, *, stop: asyncio.Event, clock: Clock = lambda: datetime.now(UTC)
) -> None:
    """Looks at once, and then every ten minutes, until `stop`."""
    while not stop.is_set():
        await reap(log, clock())
        try:
            await discard_leftovers(store, log, clock())
        except StorageError as error:
            _log.warning("cannot look for leftovers of uploads: %s", error)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await stop.wait()


async def reap(log: Log, now: datetime) -> list[Message]:
    """One look; the commands that it gave."""
    commands: list[Message] = []
    horizon: list[Message] = []
    for partition in range(log.partitions):
        start = 0
        while records := await log.read(STATE, partition, start):
            start = records[-1].offset + 1
            commands += [each for record in records if (each := due(record, now)) is not None]
            horizon += raised(records, now - COMMANDS_FOR)
    if commands or horizon:
        await log.publish([*commands, *horizon])
    await log.expire(EVENTS, now - COMMANDS_FOR)
    await log.expire(OUTCOMES, now - OUTCOMES_FOR)
    await log.expire(STATE, now - COMMANDS_FOR)
    return commands


def due(record: Record, now: datetime) -> Message | None:
    """What a state record is due for."""
    state = state_of(record)
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
    revision = (content.get("metadata") or {}).get("revision")
    data = ForgetData(
        id=record.key,
        kind=content["kind"],
        expectedStatus=content.get("status"),
        expectedRevision=revision,
    )
    return _command(ForgetEntity(data=data), record, now)


def _command(command: ForgetEntity, record: Record, now: datetime) -> Message:
    """With an id that depends on the state alone: said twice of one state, it is one command."""
    id = command_id("forget", record.key, record.headers["epoch"], record.headers["offset"])
    headers = {"id": id, "source": "reaper", "time": command_time(now)}
    return Message(EVENTS, record.key, command.dump_json(), headers)
