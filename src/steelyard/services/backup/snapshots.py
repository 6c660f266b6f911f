"""Snapshots of every entity's newest state, and the removal of what they make superfluous.

A snapshot is made of the one before it and the segments since then, and never of the log: an entity that a log has
lost stays in the backup. What an entity held is gone once it was forgotten, and all snapshots and segments from before
that are older than `keep_days`.
"""

import logging
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta

from steelyard.broker.log import Log
from steelyard.services.backup.archive import SNAPSHOTS, Archive, Contents, ShardFile, Snapshot
from steelyard.services.backup.record_files import Damaged, Entry
from steelyard.services.backup.settings import BackupSettings
from steelyard.services.backup.states import Reading, find_shard, states

FILE_BYTES = 16 << 20
"""Bytes of values of one file of a snapshot."""
_log = logging.getLogger(__name__)


async def keep_snapshots(archive: Archive, log: Log, settings: BackupSettings, now: datetime) -> None:
    """Make a snapshot where one is due, and remove files that are older than the backup reaches back."""
    pause = timedelta(hours=settings.snapshot_hours)
    try:
        contents = await archive.contents()
        newest = contents.base()
        # One from the future was made before the clock was set back; it must not delay the next one by so much.
        if not contents.segments or (newest is not None and newest.made <= now < newest.made + pause):
            return
        await make_snapshot(archive, contents, log.partitions, log.id, now)
    except Damaged as error:
        # Without it everything is still there: the segments stay as long as no later snapshot holds them.
        _log.error("no snapshot can be made: %s", error)
        return
    await remove_old(archive, timedelta(days=settings.keep_days), now)


async def make_snapshot(
    archive: Archive, contents: Contents, partitions: int, log: str, now: datetime
) -> Snapshot | None:
    """Write a snapshot of what the archive holds; None where another writer was first. Raises Damaged."""
    before = contents.base()
    number, nonce = (before.number if before else 0) + 1, secrets.token_hex(8)
    reading, files = Reading(), list[ShardFile]()
    async for part in states(archive, contents, reading):
        for shard, entries in _by_shard(part, partitions).items():
            files += await _write(archive, number, nonce, shard, entries, len(files))
    snapshot = Snapshot(
        number=number,
        made=now,
        newest=reading.newest or now,
        log=log,
        epoch=contents.epoch,
        partitions=partitions,
        positions=dict(reading.positions.get(contents.epoch, {})),
        files=files,
    )
    return snapshot if await archive.complete(snapshot) else None


async def _write(
    archive: Archive, number: int, nonce: str, shard: int, entries: list[Entry], part: int
) -> list[ShardFile]:
    files: list[ShardFile] = []
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += len(entry.record.value or b"")
        if size >= FILE_BYTES:
            files.append(await archive.write_shard(number, nonce, shard, part + len(files), batch))
            batch, size = [], 0
    if batch:
        files.append(await archive.write_shard(number, nonce, shard, part + len(files), batch))
    return files


def _by_shard(part: Mapping[str, Entry], partitions: int) -> dict[int, list[Entry]]:
    shards: dict[int, list[Entry]] = {}
    for key in sorted(part):
        entry = part[key]
        # A tombstone ends its key: nothing older is in later segments, so that it need not be repeated.
        if entry.record.value is not None:
            shards.setdefault(find_shard(entry.record, partitions), []).append(entry)
    return shards


async def remove_old(archive: Archive, keep: timedelta, now: datetime) -> int:
    """Remove snapshots and segments that no reading of the last `keep` needs; how many objects went."""
    contents = await archive.contents()
    # The newest of those that are old enough stays: what was there at any time since then is made from it.
    base = next((shot for shot in reversed(contents.snapshots) if shot.made <= now - keep), None)
    if base is None:
        return 0
    kept = {snapshot.number for snapshot in contents.snapshots if snapshot.number >= base.number}
    manifests = [
        f"{SNAPSHOTS}{snapshot.number:08d}/manifest.json"
        for snapshot in contents.snapshots
        if snapshot.number not in kept
    ]
    # Manifests first: a snapshot of which some files are gone must not count.
    gone = [*manifests]
    known = {
        file.key for snapshot in contents.snapshots if snapshot.number in kept for file in snapshot.files
    }
    newest = contents.snapshots[-1].number
    async for info in archive.store.list(SNAPSHOTS):
        number = info.key.removeprefix(SNAPSHOTS).partition("/")[0]
        unfinished = number.isdigit() and int(number) <= newest and info.key not in known
        if unfinished and not info.key.endswith("/manifest.json"):
            gone.append(info.key)
    gone += [
        segment.key
        for segment in contents.segments
        if segment.epoch < base.epoch
        or (segment.epoch == base.epoch and segment.last < base.positions.get(segment.partition, 0))
    ]
    for key in gone:
        await archive.store.delete(key)
    return len(gone)
