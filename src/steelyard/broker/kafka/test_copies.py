"""The copy of a compacted topic holds the newest record of each key, and says how far it was read."""

import asyncio
import gc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from steelyard.broker.log import READ_BYTES, LogError, Record

pytest.importorskip("confluent_kafka")
from steelyard.broker.kafka import copies
from steelyard.broker.kafka.copies import Copy, CopyReader
from steelyard.broker.kafka.progress import Progress

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def record(key: str, offset: int, value: bytes | None = b"v", partition: int = 0, age: int = 0) -> Record:
    written = NOW - timedelta(seconds=age)
    return Record("topic", partition, offset, key, value, {"id": str(offset)}, written)


async def test_the_newest_record_of_each_key_is_kept_whole() -> None:
    copy = Copy("topic", 2)
    copy.store([record("a", 1), record("b", 2, b"\0"), record("a", 3, b"new")])
    copy.store([record("c", 0, None, partition=1)])
    assert copy.latest("a") == record("a", 3, b"new")
    assert copy.latest("c") == record("c", 0, None, partition=1)
    assert copy.latest("d") is None
    assert copy.read(0, 0, 10) == [record("b", 2, b"\0"), record("a", 3, b"new")]
    assert copy.read(0, 3, 10) == [record("a", 3, b"new")]
    copy.close()


async def test_a_record_that_is_read_again_replaces_no_newer_one() -> None:
    copy = Copy("topic", 1)
    copy.store([record("a", 7, b"new")])
    copy.store([record("a", 5, b"old")])
    assert copy.latest("a") == record("a", 7, b"new")
    copy.close()


async def test_a_read_is_bounded_in_number_and_in_bytes() -> None:
    copy = Copy("topic", 1)
    copy.store([record(f"k{number}", number, b"x" * (READ_BYTES // 2)) for number in range(5)])
    assert [one.offset for one in copy.read(0, 0, 10)] == [0, 1]
    assert [one.offset for one in copy.read(0, 0, 1)] == [0]
    copy.store([record("large", 9, b"x" * (2 * READ_BYTES))])
    assert [one.offset for one in copy.read(0, 5, 10)] == [9]
    copy.close()


@pytest.mark.parametrize("keys", [2_000, 8_000])
async def test_memory_keeps_no_record_and_no_more_pages_than_the_cache_has(
    keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "CACHE_KIB", 1 << 10)
    before = open_files()
    copy = Copy("topic", 1)
    reader = CopyReader(copy, 0)
    for first in range(0, keys, 500):
        left = reader.store([record(f"k{n}", n, b"x" * 2000) for n in range(first, first + 500)], keys)
        assert left == (), "none of them waits for the event loop"

    # Records of the caller are gone; those of other tests may be there.
    records = [one for one in gc.get_objects() if type(one) is Record and one.value == b"x" * 2000]
    assert records == []
    (file,) = open_files() - before
    (pages,) = copy._connection.execute("PRAGMA page_count").fetchone()
    (size,) = copy._connection.execute("PRAGMA page_size").fetchone()
    assert pages * size > keys * 2000
    assert pages * size - file.stat().st_size <= 1 << 20, "what the cache does not hold is in the file"
    copy.close()


def open_files() -> set[Path]:
    """Return the files without a name that SQLite has open in this process."""
    return {path for path in Path("/proc/self/fd").iterdir() if "etilqs_" in str(path.resolve())}


async def test_old_tombstones_that_every_group_has_read_expire() -> None:
    copy = Copy("topic", 2)
    copy.store([record("old", 1, None, age=60), record("unread", 5, None, age=60), record("young", 2, None)])
    copy.store([record("state", 0, b"v", partition=1, age=60), record("gone", 1, None, partition=1, age=60)])
    assert copy.expire(NOW - timedelta(seconds=30), {0: 5}) == 2
    assert [copy.latest(key) is None for key in ("old", "unread", "young", "state", "gone")] == [
        True,
        False,
        False,
        False,
        True,
    ]
    copy.close()


async def test_who_waits_for_an_offset_goes_on_when_it_was_read() -> None:
    copy = Copy("topic", 1)
    reader = CopyReader(copy, 0)
    waiting = asyncio.create_task(copy.progress[0].reach(3))
    for reached in (1, 2):
        reader.advance([], reached)
        await asyncio.sleep(0)
        assert not waiting.done()
    reader.advance([], 3)
    await waiting
    await copy.progress[0].reach(2)
    copy.close()


async def test_who_waits_in_vain_learns_why() -> None:
    progress = Progress("topic/0")
    progress.advance(4)
    progress.fault = "the broker is away"
    with pytest.raises(LogError, match=r"topic/0: read up to 4 of 9, .*: the broker is away"):
        await progress.reach(9, seconds=0.01)
    waiting = asyncio.create_task(progress.reach(9))
    await asyncio.sleep(0)
    progress.end("OSError: no space left on device")
    with pytest.raises(LogError, match="reading ended: OSError: no space left"):
        await waiting
