"""The archive of `workflows.state` in the backup's store: segments of the log, and snapshots of every entity's state.

    archive/segments/<epoch>/<partition>/<first>-<last>.gz    what the log held from offset `first` to `last`
    archive/snapshots/<number>/<random>/<shard>-<n>.gz        states, by the partition of their key
    archive/snapshots/<number>/manifest.json                  written last: the snapshot counts

Every object is created once and never changed. A segment begins where the one before it ends, so that a missing one is
noticed; two writers may leave overlapping ones, which say the same. Who goes on writing reads from the names how far
the archive has come: there is no other memory of it that a crash could leave behind or ahead.
"""

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from steelyard.broker.log import Record
from steelyard.services.backup.record_files import Damaged, Entry, decode, encode
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, Store, display_name

_log = logging.getLogger(__name__)
SEGMENTS = "archive/segments/"
SNAPSHOTS = "archive/snapshots/"


@dataclass(frozen=True, order=True)
class Segment:
    """Name of a segment: it holds all that the log had between two offsets, both included."""

    epoch: int
    partition: int
    first: int
    last: int

    @property
    def key(self) -> str:
        return f"{SEGMENTS}{self.epoch:010d}/{self.partition:05d}/{self.first:016d}-{self.last:016d}.gz"


class ShardFile(BaseModel):
    """A file of a snapshot."""

    model_config = ConfigDict(frozen=True)

    key: str
    shard: int
    entities: int
    sha256: str


class Snapshot(BaseModel):
    """The manifest of a snapshot. All segments of earlier epochs, and those before `positions`, are in it."""

    model_config = ConfigDict(frozen=True)

    number: int
    made: datetime
    newest: datetime
    """Latest time at which a record in it, or in one before it, was written."""
    log: str
    epoch: int
    partitions: int
    positions: dict[int, int]
    files: list[ShardFile]

    @property
    def entities(self) -> int:
        return sum(file.entities for file in self.files)


@dataclass(frozen=True)
class Contents:
    """Names of what the archive holds: segments in order, and complete snapshots, the newest last."""

    segments: Sequence[Segment]
    snapshots: Sequence[Snapshot]

    @property
    def epoch(self) -> int:
        """The newest epoch; 0 where nothing is there."""
        epochs = [segment.epoch for segment in self.segments] + [shot.epoch for shot in self.snapshots]
        return max(epochs, default=0)

    def base(self, until: datetime | None = None) -> Snapshot | None:
        """The newest snapshot, or the newest one written up to a time."""
        fitting = [shot for shot in self.snapshots if until is None or shot.newest <= until]
        return fitting[-1] if fitting else None


class Archive:
    """The archive in one store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def contents(self, damaged: list[str] | None = None) -> Contents:
        """List the archive. Raises Damaged for a manifest that cannot be read, or adds what is wrong to `damaged`."""
        segments = [
            segment
            async for info in self.store.list(SEGMENTS)
            if (segment := find_segment(info.key)) is not None
        ]
        snapshots: list[Snapshot] = []
        async for info in self.store.list(SNAPSHOTS):
            if info.key.endswith("/manifest.json"):
                try:
                    snapshots.append(await self._manifest(info.key))
                except ObjectMissing:
                    continue  # removed meanwhile
                except Damaged as error:
                    if damaged is None:
                        raise
                    damaged.append(str(error))
        return Contents(sorted(segments), sorted(snapshots, key=lambda snapshot: snapshot.number))

    async def positions(self, epoch: int) -> Mapping[int, int]:
        """Offsets at which a writer of this epoch goes on; partitions without files are left out."""
        damaged: list[str] = []
        at = archive_ends(await self.contents(damaged), epoch)
        for fault in damaged:
            # Without that snapshot the archive begins later: what is missing is read from the log again.
            _log.error("%s", fault)
        return at

    async def write(self, log: str, partitions: int, segment: Segment, records: Sequence[Record]) -> None:
        """Create a segment, unless it is there already. Raises Damaged for files that cannot be read."""
        head = {"log": log, "partitions": partitions, **vars(segment)}
        entries = [Entry(segment.epoch, record) for record in records]
        data = await asyncio.to_thread(encode, head, entries)
        try:
            await self.store.create(segment.key, data)
        except ObjectExists:
            # Written by another sink, or by this one before it lost the answer. A record that one has and the other
            # has not was replaced by a later record of its key.
            await self.read(segment)

    async def read(self, segment: Segment) -> tuple[int, list[Entry]]:
        """Number of the log's partitions, and the records of a segment. Raises Damaged."""
        head, entries = await self._file(segment.key)
        if any(head.get(name) != value for name, value in vars(segment).items()):
            raise Damaged(
                f"{display_name(self.store.url, segment.key)}: is damaged: it is another segment's content"
            )
        return int(head["partitions"]), entries

    async def read_shard(self, file: ShardFile) -> list[Entry]:
        """Records of one file of a snapshot. Raises Damaged."""
        try:
            data = await self.store.get(file.key)
        except ObjectMissing as error:
            raise Damaged(f"{display_name(self.store.url, file.key)}: is missing") from error
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise Damaged(
                f"{display_name(self.store.url, file.key)}: is damaged: its SHA-256 is not that of the manifest"
            )
        return (await asyncio.to_thread(decode, data, display_name(self.store.url, file.key)))[1]

    async def write_shard(
        self, number: int, nonce: str, shard: int, part: int, entries: Sequence[Entry]
    ) -> ShardFile:
        """Create one file of a snapshot."""
        key = f"{SNAPSHOTS}{number:08d}/{nonce}/{shard:05d}-{part:05d}.gz"
        data = await asyncio.to_thread(encode, {"shard": shard}, entries)
        await self.store.create(key, data)
        return ShardFile(key=key, shard=shard, entities=len(entries), sha256=hashlib.sha256(data).hexdigest())

    async def complete(self, snapshot: Snapshot) -> bool:
        """Let a snapshot count; False where another one of its number was completed first."""
        content = snapshot.model_dump_json().encode()
        data = {"sha256": hashlib.sha256(content).hexdigest(), "manifest": content.decode()}
        try:
            await self.store.create(f"{SNAPSHOTS}{snapshot.number:08d}/manifest.json", orjson.dumps(data))
        except ObjectExists:
            return False
        return True

    async def _manifest(self, key: str) -> Snapshot:
        name = display_name(self.store.url, key)
        try:
            data = orjson.loads(await self.store.get(key))
            content = data["manifest"]
            if hashlib.sha256(content.encode()).hexdigest() != data["sha256"]:
                raise Damaged(f"{name}: is damaged: its content has another SHA-256 than it says")
            return Snapshot.model_validate_json(content)
        except (ValidationError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"{name}: is damaged: it is not a manifest of a snapshot") from error

    async def _file(self, key: str) -> tuple[Json, list[Entry]]:
        name = display_name(self.store.url, key)
        try:
            data = await self.store.get(key)
        except ObjectMissing as error:
            raise Damaged(f"{name}: is missing") from error
        return await asyncio.to_thread(decode, data, name)


def find_segment(key: str) -> Segment | None:
    """The segment that an object's key names; None for another object."""
    parts = key.removeprefix(SEGMENTS).split("/")
    try:
        epoch, partition, name = parts
        first, _, last = name.removesuffix(".gz").partition("-")
        segment = Segment(int(epoch), int(partition), int(first), int(last))
    except ValueError:
        return None
    return segment if segment.key == key else None


def archive_ends(contents: Contents, epoch: int) -> dict[int, int]:
    """The offset up to which the archive holds each partition of a log's epoch without a gap."""
    base = contents.base()
    at = dict(base.positions) if base is not None and base.epoch == epoch else {}
    for segment in contents.segments:
        if segment.epoch == epoch and segment.first <= at.get(segment.partition, 0):
            at[segment.partition] = max(at.get(segment.partition, 0), segment.last + 1)
    return at
