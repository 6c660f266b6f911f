"""The sink of the archive: `workflows.state` into segments, one per partition and minute, and a daily snapshot.

It is started along with the sink of single entities, by the platform's process or by `steelyard service backup-sink`.
Several may run at once. One that dies anywhere leaves whole segments, and the next goes on after the last of them.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from steelyard.broker.consume import BATCH, rest_until_changed
from steelyard.broker.log import STATE, Log, Record
from steelyard.broker.scan import pieces
from steelyard.services.backup.archive import Archive, Segment
from steelyard.services.backup.settings import BackupSettings
from steelyard.services.backup.snapshots import keep_snapshots
from steelyard_evaluation.storage.store import Store

SEGMENT_BYTES = 4 << 20
"""Bytes of values from which on a segment is not made any longer."""
Clock = Callable[[], datetime]
Monotonic = Callable[[], float]
CHECK_SECONDS = 600.0
"""Time between two checks whether a snapshot is due: each lists the archive. The first comes after a tenth of it."""


async def run_archive_sink(
    log: Log,
    store: Store,
    settings: BackupSettings,
    *,
    stop: asyncio.Event,
    clock: Clock = lambda: datetime.now(UTC),
    monotonic: Monotonic = time.monotonic,
) -> None:
    """Write the archive until `stop`, and then the records that it still lacks."""
    archive = Archive(store)
    ends = await log.ends(STATE)
    positions = await archive.positions(log.epoch)
    at = {partition: positions.get(partition, 0) for partition in ends}
    waiting = {partition: _Waiting(archive, log, partition, at[partition]) for partition in ends}
    next_check = monotonic() + CHECK_SECONDS / 10
    async with rest_until_changed(log, stop) as rest:
        version = log.version()
        while not stop.is_set():
            moved = False
            for partition, records in (await log.read_each(STATE, at, BATCH)).items():
                at[partition] = records[-1].offset + 1
                await waiting[partition].add(records, monotonic())
                moved = True
                await asyncio.sleep(0)
            for part in waiting.values():
                # By a clock that cannot be set: one that is set back would hold a change for hours.
                if part.records and monotonic() - part.since >= settings.segment_seconds:
                    await part.write()
            if moved:
                version = log.version()
                continue
            if monotonic() >= next_check:
                next_check = monotonic() + CHECK_SECONDS
                await keep_snapshots(archive, log, settings, clock())
            version = await rest(version)
    for part in waiting.values():
        await part.write()


async def archive_rest(log: Log, store: Store) -> None:
    """Write what the archive lacks of all that the log has now, beside a sink that may run."""
    archive, ends = Archive(store), await log.ends(STATE)
    positions = await archive.positions(log.epoch)
    for partition, end in ends.items():
        first = positions.get(partition, 0)
        part = _Waiting(archive, log, partition, first)
        async for records in pieces(log, STATE, partition, first, end):
            await part.add(records, 0.0)
        await part.write()


@dataclass
class _Waiting:
    """Records of one partition that are in no segment yet. `first` is where their segment begins."""

    archive: Archive
    log: Log
    partition: int
    first: int
    records: list[Record] = field(default_factory=list)
    since: float = 0.0
    size: int = 0

    async def add(self, records: Sequence[Record], now: float) -> None:
        for record in records:
            # By the minute in which the log wrote them: all readers of the same backlog cut it in the same places.
            if self.records and (_minute(record) != _minute(self.records[0]) or self.size >= SEGMENT_BYTES):
                await self.write()
            if not self.records:
                self.since = now
            self.records.append(record)
            self.size += len(record.value or b"")

    async def write(self) -> None:
        if not self.records:
            return
        segment = Segment(self.log.epoch, self.partition, self.first, self.records[-1].offset)
        await self.archive.write(self.log.id, self.log.partitions, segment, self.records)
        self.first, self.records, self.size = segment.last + 1, [], 0


def _minute(record: Record) -> datetime:
    return record.written.replace(second=0, microsecond=0)
