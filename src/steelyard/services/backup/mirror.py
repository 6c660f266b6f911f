"""The mirror: a second bucket with a copy of the storage and of the backup, brought up to date once a day.

    storage/KEY, backup/KEY               objects as they are in the first
    trash/TIME/storage/KEY, …/backup/KEY  objects that the first has no more, for seven days
    mirror.json                           the time at which a run ended, written last

Whatever a run has done by the time it dies is compared again by the next one.
"""

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from steelyard.services.identity import IDENTITY
from steelyard_common.errors import Refused
from steelyard_evaluation.storage.checked import DigestMismatch, EntityDigests, check_digest
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.store import ObjectInfo, ObjectMissing, StorageError, Store, display_name

EVERY = timedelta(days=1)
KEPT = timedelta(days=7)
"""Time for which the mirror keeps what the first store has no more."""
INTERVAL_SECONDS = 600.0
MARGIN = timedelta(hours=1)
"""Difference of two stores' clocks up to which a replaced object of equal size is noticed."""
_DONE = "mirror.json"
_TIME = "%Y%m%dT%H%M%SZ"
_log = logging.getLogger(__name__)
Clock = Callable[[], datetime]


@dataclass
class MirrorResult:
    """Numbers of one run."""

    copied: int = 0
    changed: int = 0
    """Files whose content is not that of their known digest; of those the mirror keeps what it has."""
    removed: int = 0
    purged: int = 0


async def run_mirror(
    storage: Store,
    backup: Store,
    target: Store,
    *,
    stop: asyncio.Event,
    clock: Clock = lambda: datetime.now(UTC),
) -> None:
    """Bring the mirror up to date whenever the last run ended a day ago, until `stop`."""
    while not stop.is_set():
        try:
            if await _due(target, clock()):
                done = await mirror(storage, backup, target, clock())
                _log.info(
                    "mirror: %d objects copied, %d removed, %d purged", done.copied, done.removed, done.purged
                )
        except Refused as error:
            # A person has to decide: what an emptied storage has lost must not leave the mirror, too.
            _log.error("%s", error)
        except StorageError as error:
            # The platform goes on without its mirror; the next pass tries again.
            _log.error("the mirror cannot be brought up to date: %s", error)
        with suppress(TimeoutError):
            async with asyncio.timeout(INTERVAL_SECONDS):
                await stop.wait()


async def mirror(storage: Store, backup: Store, target: Store, now: datetime) -> MirrorResult:
    """Copy new objects, move those that are gone into the trash, and purge the trash. Raises Refused, StorageError."""
    await _check_identity(storage, target)
    done = MirrorResult()
    with tempfile.TemporaryDirectory(prefix="steelyard-mirror-") as folder:
        for name, store in (("storage", storage), ("backup", backup)):
            await _mirror_one(name, store, target, now, Path(folder) / "object", done)
    async for info in target.list("trash/"):
        removed = datetime.strptime(info.key.split("/")[1], _TIME).replace(tzinfo=UTC)
        if now - removed >= KEPT:
            await target.delete(info.key)
            done.purged += 1
    await target.put(_DONE, orjson.dumps({"finished": now.isoformat()}))
    return done


async def _mirror_one(
    name: str, source: Store, target: Store, now: datetime, scratch: Path, done: MirrorResult
) -> None:
    """Both stores list their keys in the same order, so that one pass over both is enough."""
    digests = EntityDigests(source)
    here, there = source.list(), target.list(f"{name}/")
    first, second = await _next(here), await _next(there)
    while first is not None or second is not None:
        key = first.key.encode() if first is not None else None
        copy = second.key.removeprefix(f"{name}/").encode() if second is not None else None
        if second is not None and copy is not None and (key is None or copy < key):
            # Copied before it is deleted: a crash in between leaves it in both places.
            await target.copy(second.key, f"trash/{now.strftime(_TIME)}/{second.key}")
            await target.delete(second.key)
            done.removed += 1
            second = await _next(there)
            continue
        assert first is not None
        same = second is not None and copy == key and _is_same(first, second)
        try:
            expected = None if same else await digests.find(first.key)
            if not same and await _copy(source, first.key, expected, target, f"{name}/{first.key}", scratch):
                done.copied += 1
        except DigestMismatch as error:
            # What was changed must not take the place of a right copy.
            _log.error("mirror: %s; the mirror's copy stays as it is", error)
            done.changed += 1
        if copy == key:
            second = await _next(there)
        first = await _next(here)


def _is_same(first: ObjectInfo, second: ObjectInfo) -> bool:
    return first.size == second.size and first.last_modified + MARGIN < second.last_modified


async def _copy(
    source: Store, key: str, expected: str | None, target: Store, copy: str, scratch: Path
) -> bool:
    """Copy an object; False where it was removed meanwhile. Raises DigestMismatch for one of another digest."""
    try:
        await source.download(key, scratch)
    except ObjectMissing:
        return False
    check_digest(source, key, await asyncio.to_thread(file_sha256, scratch), expected)
    await target.put_file(copy, scratch)
    return True


async def _next(infos: AsyncIterator[ObjectInfo]) -> ObjectInfo | None:
    return await anext(infos, None)


async def _check_identity(storage: Store, target: Store) -> None:
    """Raises Refused where the storage has lost what says whose it is, and the mirror has it."""
    try:
        await target.head(f"storage/{IDENTITY}")
    except ObjectMissing:
        return
    try:
        await storage.head(IDENTITY)
    except ObjectMissing as error:
        raise Refused(
            f"storage {display_name(storage.url)}: lacks {IDENTITY}, and its mirror {display_name(target.url)} has it: "
            "it was emptied, or is another one; the mirror stays as it is"
        ) from error


async def _due(target: Store, now: datetime) -> bool:
    try:
        finished = datetime.fromisoformat(orjson.loads(await target.get(_DONE))["finished"])
    except (ObjectMissing, ValueError, KeyError, TypeError):
        return True
    # A run of the future ended before the clock was set back.
    return not finished <= now < finished + EVERY
