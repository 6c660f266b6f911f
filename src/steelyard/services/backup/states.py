"""The states that an archive stands for: the newest record of each key, from a snapshot and the segments after it.

A snapshot, a rebuilt log and one restored entity are all made from these.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from steelyard.broker.log import Record
from steelyard.broker.partition import find_partition
from steelyard.services.backup.archive import Archive, Contents, Segment, ShardFile, Snapshot, archive_ends
from steelyard.services.backup.record_files import Damaged, Entry
from steelyard_common.errors import UsageError
from steelyard_evaluation.storage.store import display_name

Progress = Callable[[int, int], None]
"""Function that is called with the files that are read, and all there are."""


@dataclass
class Reading:
    """One reading of an archive: up to which time, what to do about faults, and what it saw in addition to the
    states."""

    until: datetime | None = None
    skip_damaged: bool = False
    progress: Progress = lambda done, all: None
    newest: datetime | None = None
    positions: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """Offset up to which each partition was read, by epoch."""
    damaged: list[str] = field(default_factory=list)
    """Faults that were passed over."""
    done: int = 0

    def pass_over(self, error: Damaged) -> None:
        """Raise the error, or remember it where damaged files are skipped."""
        if not self.skip_damaged:
            raise error
        self.damaged.append(str(error))


async def states(
    archive: Archive, contents: Contents, reading: Reading
) -> AsyncIterator[Mapping[str, Entry]]:
    """The newest entry of each key, tombstones included, a part of the keys at a time.

    With `until`, as it stood before the first record of each partition that was written later. Raises Damaged, and
    UsageError where the archive does not reach back so far.
    """
    base = contents.base(reading.until)
    if reading.until is not None and base is None and not _from_the_start(contents):
        oldest = contents.snapshots[0].newest.isoformat() if contents.snapshots else "its first segment"
        raise UsageError(f"--until {reading.until.isoformat()}: the backup reaches back to {oldest} only")
    segments = [segment for segment in contents.segments if base is None or _after(segment, base)]
    total = len(segments) + (len(base.files) if base else 0)
    counts = await _partition_counts(archive, base, segments, reading)
    # Keys keep their partition as long as its count does: then one partition is read after the other, and no more
    # than one is in memory.
    shards: Sequence[int | None] = range(next(iter(counts))) if len(counts) == 1 else (None,)
    for shard in shards:
        part = _Part(archive, base, reading)
        files = [file for file in base.files if shard in (None, file.shard)] if base else []
        for file in files:
            await part.add_file(file)
            reading.progress(reading.done, total)
        for segment in segments:
            if shard in (None, segment.partition):
                await part.add_segment(segment)
                reading.progress(reading.done, total)
        for (epoch, partition), end in part.at.items():
            reading.positions[epoch][partition] = max(end, reading.positions[epoch].get(partition, 0))
        yield part.newest
    if base is not None:
        reading.newest = max(base.newest, reading.newest or base.newest)


class _Part:
    """The states of some of the keys, while they are read."""

    def __init__(self, archive: Archive, base: Snapshot | None, reading: Reading) -> None:
        self._archive, self._reading = archive, reading
        self.newest: dict[str, Entry] = {}
        self.at = {(base.epoch, partition): at for partition, at in base.positions.items()} if base else {}
        self._ended: set[int] = set()

    async def add_file(self, file: ShardFile) -> None:
        self._reading.done += 1
        try:
            self._take(await self._archive.read_shard(file))
        except Damaged as error:
            self._reading.pass_over(error)

    async def add_segment(self, segment: Segment) -> None:
        self._reading.done += 1
        place = (segment.epoch, segment.partition)
        start, until = self.at.get(place, 0), self._reading.until
        if segment.last < start or segment.partition in self._ended:
            return
        try:
            if segment.first > start:
                name = display_name(self._archive.store.url, segment.key)
                missing = Damaged(
                    f"{name}: the segment before it is missing: offsets {start} "
                    f"to {segment.first - 1} of partition {segment.partition}"
                )
                self._reading.pass_over(missing)
            _, entries = await self._archive.read(segment)
        except Damaged as error:
            self._reading.pass_over(error)
            return
        self.at[place] = segment.last + 1
        # Earlier ones were read from another segment; a tombstone among them may be out of the snapshot already.
        later = [entry for entry in entries if entry.record.offset >= start]
        for number, entry in enumerate(later):
            if until is not None and entry.record.written > until:
                self._ended.add(segment.partition)
                later = later[:number]
                break
        self._take(later)

    def _take(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            known, written = self.newest.get(entry.record.key), entry.record.written
            if known is None or known.place <= entry.place:
                self.newest[entry.record.key] = entry
            self._reading.newest = max(written, self._reading.newest or written)


def _after(segment: Segment, base: Snapshot) -> bool:
    """Return whether a segment has something that the snapshot has not."""
    if segment.epoch == base.epoch:
        return segment.last >= base.positions.get(segment.partition, 0)
    return segment.epoch > base.epoch


def _from_the_start(contents: Contents) -> bool:
    """Return whether no segment was removed: all of those of the first snapshot are there."""
    if not contents.snapshots:
        return True
    first = contents.snapshots[0]
    at = archive_ends(Contents(contents.segments, ()), first.epoch)
    return first.number == 1 and all(
        at.get(partition, 0) >= end for partition, end in first.positions.items()
    )


async def _partition_counts(
    archive: Archive, base: Snapshot | None, segments: Sequence[Segment], reading: Reading
) -> set[int]:
    """Every number of partitions that the logs had; the first readable segment of an epoch shows that of its log."""
    counts = {base.partitions} if base else set()
    for epoch in {segment.epoch for segment in segments} - ({base.epoch} if base else set()):
        for segment in segments:
            if segment.epoch == epoch:
                try:
                    counts.add((await archive.read(segment))[0])
                    break
                except Damaged as error:
                    reading.pass_over(error)
    return counts


def find_shard(record: Record, partitions: int) -> int:
    """The shard of a snapshot in which a key lies."""
    return find_partition(record.key, partitions)
