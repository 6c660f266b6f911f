"""A log from its archive: every entity's newest state, or that of an earlier time, in an empty log.

`steelyard restore` calls it. Written records say so in a header, so that a rebuilding that was cut short goes on
where it was, and nothing else is ever written over.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import orjson

from steelyard.broker.log import EVENTS, STATE, Log, Message
from steelyard.broker.partition import find_partition
from steelyard.broker.scan import topic_pieces
from steelyard.services.aggregator.messages import FORGOTTEN
from steelyard.services.backup.archive import Archive, Contents
from steelyard.services.backup.record_files import Entry
from steelyard.services.backup.states import Reading, states
from steelyard_common.errors import Refused
from steelyard_schema.commands import command_time

RESTORED = "restored"
"""Header of a state that was written from an archive: up to which time that was read."""
RESTORED_FROM = "restored-from"
"""Header that accompanies it: epoch and offset of the last command that the entity had seen."""
BATCH, BATCH_BYTES = 500, 4 << 20


@dataclass
class Rebuilt:
    """Number of entities in the archive, of markers of forgotten ones, and of those that came after `until`."""

    entities: int = 0
    forgotten: int = 0
    undone: int = 0
    written: int = 0
    """Records that this call wrote: a rebuilding that is continued finds some there."""


def make_label(reading: Reading) -> str:
    """The value of the header RESTORED."""
    return "newest" if reading.until is None else command_time(reading.until)


async def check_empty(log: Log, label: str) -> None:
    """Raises Refused unless the log has nothing but what a rebuilding of the same label has written."""
    for partition in range(log.partitions):
        if await log.read(EVENTS, partition, 0, 1):
            raise Refused("the log is not empty: it has commands; nothing was changed")
    async for records in topic_pieces(log, STATE):
        for record in records:
            if record.headers.get(RESTORED) != label:
                raise Refused(f"the log is not empty: it has {record.key}, for one; nothing was changed")


async def rebuild(
    log: Log, archive: Archive, contents: Contents, reading: Reading, epoch: int, now: datetime
) -> Rebuilt:
    """Write the states to the log, as of `epoch`, which is to be the log's next. Raises Damaged.

    With a time, entities that were made later are ended by a tombstone: they are gone, and are not made again.
    """
    rebuilt = Rebuilt()
    writer = _Writer(log, epoch, make_label(reading), await log.ends(EVENTS))
    kept: set[str] = set()
    async for part in states(archive, contents, reading):
        for key, entry in part.items():
            _count(entry, rebuilt)
            kept.add(key)
            await writer.add(key, entry.record.value, entry.record.headers)
    if reading.until is not None:
        async for key, kind in _later(archive, contents, reading, kept):
            rebuilt.undone += 1
            await writer.add(
                key, None, {"id": "", "time": command_time(now), FORGOTTEN: command_time(now), "kind": kind}
            )
    await writer.flush()
    rebuilt.written = writer.written
    return rebuilt


async def survey(archive: Archive, contents: Contents, reading: Reading) -> Rebuilt:
    """Read all that `rebuild` would write, and write nothing. Raises Damaged."""
    rebuilt, kept = Rebuilt(), set[str]()
    async for part in states(archive, contents, reading):
        for key, entry in part.items():
            _count(entry, rebuilt)
            kept.add(key)
    if reading.until is not None:
        rebuilt.undone = len([key async for key in _later(archive, contents, reading, kept)])
    return rebuilt


def _count(entry: Entry, rebuilt: Rebuilt) -> None:
    if entry.record.value is None or FORGOTTEN in entry.record.headers:
        rebuilt.forgotten += 1
    else:
        rebuilt.entities += 1


async def _later(
    archive: Archive, contents: Contents, reading: Reading, kept: set[str]
) -> AsyncIterator[tuple[str, str]]:
    """Id and kind of entities that are in the archive, and were not at the time."""
    async for part in states(archive, contents, Reading(skip_damaged=reading.skip_damaged)):
        for key, entry in part.items():
            if key not in kept and entry.record.value is not None:
                kind = entry.record.headers.get("kind") or _kind(entry.record.value)
                yield key, kind


def _kind(value: bytes) -> str:
    try:
        return str(orjson.loads(value)["kind"])
    except (ValueError, KeyError, TypeError):
        return ""


class _Writer:
    """Writes states to a log, many at once."""

    def __init__(self, log: Log, epoch: int, label: str, events: Mapping[int, int]) -> None:
        self._log, self._epoch, self._label, self._events = log, epoch, label, events
        self._batch: list[Message] = []
        self._size = 0
        self.written = 0

    async def add(self, key: str, value: bytes | None, headers: Mapping[str, str]) -> None:
        partition = find_partition(key, self._log.partitions)
        # Whatever `workflows.events` holds at that time counts as applied.
        place = {
            "epoch": str(self._epoch),
            "partition": str(partition),
            "offset": str(self._events[partition] - 1),
            RESTORED: self._label,
        }
        if "epoch" in headers and "offset" in headers:
            place[RESTORED_FROM] = f"{headers['epoch']}:{headers['offset']}"
        self._batch.append(Message(STATE, key, value, {**headers, **place}, partition))
        self._size += len(value or b"")
        if len(self._batch) >= BATCH or self._size >= BATCH_BYTES:
            await self.flush()

    async def flush(self) -> None:
        # A log on servers is asked once for all of them: each question waits until its copy is current.
        known = await self._log.find_latest(STATE, {message.key for message in self._batch})
        # The others were written before this rebuilding was cut short.
        if new := [message for message in self._batch if message.key not in known]:
            self.written += len(await self._log.publish(new))
        self._batch, self._size = [], 0
