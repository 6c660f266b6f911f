"""One entity from the archive: its last content, also after it was forgotten. The API's administrators ask for it."""

import asyncio
from collections.abc import Sequence

import orjson

from steelyard.broker.log import Record
from steelyard.broker.partition import find_partition
from steelyard.services.aggregator.messages import DELETED_FROM, FORGOTTEN
from steelyard.services.backup.archive import Archive, Segment, Snapshot
from steelyard.services.backup.record_files import Entry
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import Store
from steelyard_schema.status import TERMINAL, failure_status

AT_ONCE = 16
"""Segments that are fetched together: a store answers each after a while."""


class Backup:
    """Archives, as the API asks them for one entity."""

    def __init__(self, *stores: Store) -> None:
        """Stores that hold an archive; the first that has the entity counts."""
        self._archives = [Archive(store) for store in stores]

    async def last_content(self, id: str, latest: Record) -> Json | None:
        """An entity as it was before it was deleted; None where no archive has it any more.

        `latest` is its newest record: of one that is not forgotten yet, that has all. Raises Damaged.
        """
        if _has_content(Entry(0, latest)):
            return living(Entry(0, latest))
        for archive in self._archives:
            entry = await last_entry(archive, id)
            if entry is not None:
                return living(entry, forgotten=True)
        return None


def living(entry: Entry, *, forgotten: bool = False) -> Json:
    """Content of an entity with the status that it had before it was deleted.

    One that was deleted while it ran has ended badly: its work is not taken up again. Of one that was `forgotten` the
    archive may lack that it was deleted, where no sink ran in between.
    """
    content: Json = orjson.loads(entry.record.value or b"{}")
    deleted = content["status"] == "Deleted"
    before = entry.record.headers.get(DELETED_FROM, "") if deleted else content["status"]
    ended = before in TERMINAL
    if deleted or (forgotten and not ended):
        content["status"] = before if ended else failure_status(content["kind"])
        content.pop("reason", None)
        content.pop("message", None)
        if not ended:
            content |= {"reason": "Restored", "message": "was deleted before it had ended, and restored"}
    return content


async def last_entry(archive: Archive, id: str) -> Entry | None:
    """The newest record of a key that has content."""
    contents = await archive.contents()
    later: list[Segment] = list(contents.segments)
    for snapshot in reversed(contents.snapshots):
        known = await _in_snapshot(archive, snapshot, id)
        after = [segment for segment in later if _is_after(segment, snapshot)]
        if (entry := await _in_segments(archive, after, id)) is not None:
            return entry
        if known is not None:
            return known
        # What the snapshot does not have as living may have lived before it.
        later = [segment for segment in later if not _is_whole_after(segment, snapshot)]
    return await _in_segments(archive, later, id)


def _is_after(segment: Segment, snapshot: Snapshot) -> bool:
    if segment.epoch == snapshot.epoch:
        return segment.last >= snapshot.positions.get(segment.partition, 0)
    return segment.epoch > snapshot.epoch


def _is_whole_after(segment: Segment, snapshot: Snapshot) -> bool:
    if segment.epoch == snapshot.epoch:
        return segment.first >= snapshot.positions.get(segment.partition, 0)
    return segment.epoch > snapshot.epoch


async def _in_snapshot(archive: Archive, snapshot: Snapshot, id: str) -> Entry | None:
    shard = find_partition(id, snapshot.partitions)
    for file in snapshot.files:
        if file.shard == shard:
            for entry in await archive.read_shard(file):
                if entry.record.key == id and _has_content(entry):
                    return entry
    return None


async def _in_segments(archive: Archive, segments: Sequence[Segment], id: str) -> Entry | None:
    newest: Entry | None = None
    counts: dict[int, int] = {}
    for segment in segments:
        if segment.epoch not in counts:
            counts[segment.epoch] = (await archive.read(segment))[0]
    mine = [segment for segment in segments if segment.partition == find_partition(id, counts[segment.epoch])]
    for start in range(0, len(mine), AT_ONCE):
        for _, entries in await asyncio.gather(*map(archive.read, mine[start : start + AT_ONCE])):
            for entry in entries:
                newer = newest is None or entry.place > newest.place
                if newer and entry.record.key == id and _has_content(entry):
                    newest = entry
    return newest


def _has_content(entry: Entry) -> bool:
    return entry.record.value is not None and FORGOTTEN not in entry.record.headers
