"""An installation as a package, and a package as an installation: `steelyard export` and `steelyard import`.

Whatever the engines of either side are, entities keep their ids, their content and their known history:
commands of the last fourteen days, markers of forgotten entities, quarantined messages. Files of the storage and
accounts, with the digests of their keys, move along. The new log has an id and an epoch of its own.
"""

import asyncio
import gzip
import shutil
import tempfile
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import orjson

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.broker.log import AGGREGATOR, DEAD, EVENTS, STATE, Log, Message, Record
from steelyard.broker.partition import find_partition
from steelyard.broker.quarantine.administration import list_entries
from steelyard.broker.quarantine.dead_letters import COMMANDS, list_waiting
from steelyard.broker.scan import pieces
from steelyard.local.engines import IMPORTED, Engines, open_engines, outlets
from steelyard.local.packages import Package, PackageWriter, read_package, write_package
from steelyard.local.restoring import check_view, fill_view
from steelyard.services.aggregator.messages import FORGOTTEN
from steelyard.services.backup.compressed import TooLargeUnpacked, unpack_gzip
from steelyard.services.backup.rebuild import check_empty
from steelyard.services.backup.record_files import Entry, decode, encode
from steelyard.services.identity import IDENTITY, accept, inspect, next_epoch
from steelyard.settings import Settings
from steelyard_common.errors import Refused
from steelyard_common.types import Json
from steelyard_evaluation.storage.checked import DigestMismatch, EntityDigests, check_digest
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.store import ObjectMissing, Store
from steelyard_schema.commands import command_time

TOPICS = (STATE, EVENTS, DEAD)
HELD = "log/held.gz"
"""File of the messages that wait in quarantines: in the new log they are commands that are not applied yet."""
BATCH = 500
FILE_RECORDS, FILE_BYTES = 20_000, 16 << 20
LABEL = "import"
ACCOUNTS = "accounts.json.gz"
ACCOUNTS_LIMIT = 256 << 20  # bytes that the accounts of a package have at most
Say = Callable[[str], None]


@dataclass(frozen=True)
class TransferCounts:
    """Numbers of exported or imported entities."""

    entities: int
    commands: int
    objects: int
    accounts: int


async def export_to(settings: Settings, target: Path, now: datetime, say: Say) -> TransferCounts:
    """Write everything into a package. Nothing may run on the engines. Raises UsageError."""
    async with open_engines(settings) as opened:
        with (
            tempfile.TemporaryDirectory(prefix="steelyard-export-") as folder,
            write_package(target) as package,
        ):
            scratch = Path(folder) / "file"
            say("the log ...")
            counts = {topic: await _export_topic(opened.log, topic, package) for topic in TOPICS}
            held = [Entry(opened.log.epoch, record) for record in await _list_quarantined(opened.log)]
            package.add_bytes(HELD, encode({}, held))
            contents = await opened.accounts_database.transfer.dump()
            package.add_bytes(ACCOUNTS, gzip.compress(orjson.dumps(contents), mtime=0))
            say("the storage ...")
            objects, digests = 0, EntityDigests(opened.store)
            async for info in opened.store.list():
                if info.key not in (IDENTITY, IMPORTED):
                    await opened.store.download(info.key, scratch)
                    await check_exported(opened.store, info.key, scratch, digests)
                    await asyncio.to_thread(package.add, f"storage/{info.key}", scratch)
                    objects += 1
            package.finish(command_time(now), opened.log.id, opened.log.epoch)
    return TransferCounts(counts[STATE], counts[EVENTS], objects, len(contents["accounts"]))


async def import_from(settings: Settings, source: Path, now: datetime, say: Say) -> TransferCounts:
    """Fill empty engines from a package. Raises UsageError, Damaged, and Refused where an engine is not empty."""
    with read_package(source) as package:
        say("checking the package ...")
        await asyncio.to_thread(package.check)
        async with open_engines(settings) as opened:
            await check_empty(opened.log, LABEL)
            await check_view(opened.view, opened.log)
            mark = orjson.dumps({"log": package.manifest.log, "made": package.manifest.made})
            accounts = await opened.accounts_database.accounts.list()
            # Before anything is written: an import that was cut short may have loaded them.
            if accounts and not await _was_begun(opened.store, mark):
                raise Refused("the accounts database is not empty; nothing was changed")
            again = await _begin(opened.store, mark)
            with tempfile.TemporaryDirectory(prefix="steelyard-import-") as folder:
                say("the storage ...")
                objects = await _import_storage(opened.store, package, Path(folder) / "file")
            with package.file(ACCOUNTS) as file:
                contents = orjson.loads(_accounts(file.read()))
            if not (again and len(accounts) == len(contents["accounts"])):
                try:
                    await opened.accounts_database.transfer.load(contents)
                except AccountsDatabaseError as error:
                    raise Refused(str(error)) from error
            say("the log ...")
            entities, commands = await _import_log(opened, settings, package)
            await fill_view(opened.log, opened.view)
            await opened.store.delete(IMPORTED)
    return TransferCounts(entities, commands, objects, len(contents["accounts"]))


async def check_exported(store: Store, key: str, file: Path, digests: EntityDigests) -> None:
    """Raise Refused for a file whose digest is known and is another: a package vouches for what it holds."""
    try:
        check_digest(store, key, await asyncio.to_thread(file_sha256, file), await digests.find(key))
    except DigestMismatch as error:
        raise Refused(
            f"{error}; restore it from the mirror, or remove its entity, and export again"
        ) from error


async def _export_topic(log: Log, topic: str, package: PackageWriter) -> int:
    applied = await log.positions(AGGREGATOR, EVENTS) if topic == EVENTS else {}
    count = number = 0
    async for records in _batches(log, topic):
        head = {"topic": topic, "applied": {str(partition): at for partition, at in applied.items()}}
        data = await asyncio.to_thread(encode, head, [Entry(log.epoch, record) for record in records])
        package.add_bytes(f"log/{topic}/{number:06d}.gz", data)
        number += 1
        count += sum(record.value is not None and FORGOTTEN not in record.headers for record in records)
    return count


async def _list_quarantined(log: Log) -> list[Record]:
    keys = [entity.key for entity in await list_entries(log) if entity.consumer == COMMANDS]
    return [record for key in keys for record in await list_waiting(log, key)]


async def _batches(log: Log, topic: str) -> AsyncIterator[list[Record]]:
    """The records of a topic in files' worth."""
    batch: list[Record] = []
    size = 0
    for partition, end in (await log.ends(topic)).items():
        async for records in pieces(log, topic, partition, 0, end):
            for record in records:
                batch.append(record)
                size += len(record.value or b"")
                if len(batch) >= FILE_RECORDS or size >= FILE_BYTES:
                    yield batch
                    batch, size = [], 0
    if batch:
        yield batch


async def _was_begun(store: Store, mark: bytes) -> bool:
    """Return whether the storage has the mark of an import of this package."""
    try:
        return await store.get(IMPORTED) == mark
    except ObjectMissing:
        return False


async def _begin(store: Store, mark: bytes) -> bool:
    """Mark the storage; True where an import of the same package was cut short. Raises Refused if it has objects."""
    async for info in store.list():
        if info.key == IMPORTED:
            if await store.get(IMPORTED) == mark:
                return True
            raise Refused(f"storage {store.url}: another package was being imported into it; empty it first")
        if info.key != IDENTITY:
            # Keys are in order, and the mark may come after others.
            return await _is_marked(store, mark, info.key)
    await store.put(IMPORTED, mark)
    return False


async def _is_marked(store: Store, mark: bytes, key: str) -> bool:
    async for info in store.list(IMPORTED):
        if info.key == IMPORTED and await store.get(IMPORTED) == mark:
            return True
    raise Refused(f"storage {store.url}: is not empty: it has {key}, for one; nothing was changed")


async def _import_storage(store: Store, package: Package, scratch: Path) -> int:
    names = package.names("storage/")
    for name in names:
        with package.file(name) as file, scratch.open("wb") as copy:
            await asyncio.to_thread(_copy, file, copy)
        await store.put_file(name.removeprefix("storage/"), scratch)
    return len(names)


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    shutil.copyfileobj(source, target, 1 << 20)


async def _import_log(opened: Engines, settings: Settings, package: Package) -> tuple[int, int]:
    """Write commands and states, in an order in which each command counts once; numbers of entities and commands.

    First the commands that were applied, then the states, which have seen all of them, then what waits. The log is
    accepted last: a call that was cut short before has to begin with an empty log.
    """
    log, known = opened.log, outlets(opened, settings)
    held = [entry.record for entry in _entries(package, HELD)[1]]
    places = {(record.partition, record.offset) for record in held}
    left: list[Record] = list(held)
    commands = 0
    for name in package.names(f"log/{EVENTS}/"):
        head, entries = await asyncio.to_thread(_entries, package, name)
        applied = {int(partition): at for partition, at in head["applied"].items()}
        done: list[Record] = []
        for record in (entry.record for entry in entries):
            commands += 1
            if record.offset >= applied.get(record.partition, 0):
                left.append(record)
            elif (record.partition, record.offset) not in places:
                done.append(record)
        await _publish(log, [_to_message(record) for record in done])
    ends = await log.ends(EVENTS)
    epoch = max(next_epoch(log, await inspect(log, known)), package.manifest.epoch + 1)
    if epoch > next_epoch(log, await inspect(log, known)):
        await log.begin_epoch(epoch - 1)
    count = 0
    for name in package.names(f"log/{STATE}/"):
        _, entries = await asyncio.to_thread(_entries, package, name)
        await _publish(log, [_state(entry.record, epoch, ends, log.partitions) for entry in entries])
        count += sum(
            entry.record.value is not None and FORGOTTEN not in entry.record.headers for entry in entries
        )
    await _publish(log, [_to_message(record) for record in left])
    for name in package.names(f"log/{DEAD}/"):
        _, entries = await asyncio.to_thread(_entries, package, name)
        await _publish(log, [_to_message(entry.record) for entry in entries])
    await accept(log, known, opened.accounts_database.outbox)
    return count, commands


def _accounts(data: bytes) -> bytes:
    try:
        return unpack_gzip(data, ACCOUNTS_LIMIT)
    except (TooLargeUnpacked, EOFError, zlib.error) as error:
        raise Refused(f"{ACCOUNTS}: {error}") from error


def _to_message(record: Record) -> Message:
    return Message(record.topic, record.key, record.value, record.headers)


def _state(record: Record, epoch: int, ends: Mapping[int, int], partitions: int) -> Message:
    partition = find_partition(record.key, partitions)
    place = {"epoch": str(epoch), "partition": str(partition), "offset": str(ends[partition] - 1)}
    return Message(STATE, record.key, record.value, {**record.headers, **place}, partition)


async def _publish(log: Log, messages: Sequence[Message]) -> None:
    for start in range(0, len(messages), BATCH):
        await log.publish(messages[start : start + BATCH])


def _entries(package: Package, name: str) -> tuple[Json, list[Entry]]:
    with package.file(name) as file:
        return decode(file.read(), name)
