"""The archive: whatever a sink wrote of a log, wherever it died, the states of the archive are those of the log."""

import asyncio
import copy
import gzip
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import STATE, Message, Record
from steelyard.broker.simulation.replay import Crash
from steelyard.services.backup.archive import Archive, Segment, Snapshot, archive_ends, find_segment
from steelyard.services.backup.record_files import Damaged, Entry, decode, encode
from steelyard.services.backup.settings import BackupSettings
from steelyard.services.backup.sink import run_archive_sink
from steelyard.services.backup.snapshots import make_snapshot, remove_old
from steelyard.services.backup.states import Reading, states
from steelyard.testing.engines.log import everything
from steelyard_common.errors import UsageError
from steelyard_evaluation.storage.objects import ObjectStore
from steelyard_evaluation.storage.store import Store, open_store

START = datetime(2026, 1, 1, tzinfo=UTC)
_numbers = count()


class ClockLog(MemoryLog):
    """A log whose clock the test sets."""

    def __init__(self, partitions: int = 3, epoch: int = 1) -> None:
        self.now = START
        super().__init__(partitions, epoch=epoch, clock=lambda: self.now)

    async def write_states(self, *pairs: tuple[str, str | None], minutes: float = 0) -> None:
        self.now += timedelta(minutes=minutes)
        await self.publish(
            [
                Message(STATE, key, None if value is None else value.encode(), {"h": key})
                for key, value in pairs
            ]
        )


def new_store() -> Store:
    return open_store(f"memory://archive-{next(_numbers)}")


async def archive_all(log: MemoryLog, store: Store) -> None:
    """A sink reads to the end, and is asked to stop as soon as it waits for more."""
    stop = asyncio.Event()

    async def changed(since: int, timeout: float) -> int:
        stop.set()
        return since

    watched = copy.copy(log)
    watched.wait_for_change = changed  # type: ignore[method-assign]
    await run_archive_sink(
        watched, store, BackupSettings(), stop=stop, clock=lambda: START, monotonic=lambda: 0.0
    )


async def newest(
    store: Store, until: datetime | None = None, *, skip_damaged: bool = False
) -> dict[str, bytes | None]:
    archive = Archive(store)
    return {
        key: entry.record.value
        async for part in states(archive, await archive.contents(), Reading(until, skip_damaged))
        for key, entry in part.items()
    }


async def living(store: Store) -> dict[str, bytes | None]:
    return {key: value for key, value in (await newest(store)).items() if value is not None}


async def shown(log: MemoryLog) -> dict[str, bytes | None]:
    return {record.key: record.value for record in await everything(log, STATE) if record.value is not None}


# ---- files


def test_a_file_is_read_as_it_was_written() -> None:
    records = [
        Record(STATE, 1, number, f"k{number}", value, {"a": "ä"}, START + timedelta(microseconds=number))
        for number, value in enumerate([b"{}", None, b"", b"\xff\x00", b'{"a":"\xc3\xa4"}'])
    ]
    entries = [Entry(7, record) for record in records]
    data = encode({"x": 1}, entries)
    assert data == encode({"x": 1}, entries)
    assert decode(data, "f") == ({"format": 1, "x": 1}, entries)


@pytest.mark.parametrize("size", [0, 1, 30, 90])
def test_a_file_that_is_cut_short_is_noticed(size: int) -> None:
    data = encode({}, [Entry(1, Record(STATE, 0, 0, "k", b"{}", {}, START))])
    assert size < len(data)
    with pytest.raises(Damaged, match=r"^here: is damaged"):
        decode(data[:size], "here")


def test_a_file_that_was_altered_and_packed_again_is_noticed() -> None:
    data = encode({}, [Entry(1, Record(STATE, 0, 0, "k", b'{"a":1}', {}, START))])
    altered = gzip.compress(gzip.decompress(data).replace(b":1}", b":2}"))
    with pytest.raises(Damaged, match="SHA-256"):
        decode(altered, "here")


def test_names_of_segments() -> None:
    segment = Segment(2, 3, 0, 41)
    assert segment.key == "archive/segments/0000000002/00003/0000000000000000-0000000000000041.gz"
    assert find_segment(segment.key) == segment
    assert find_segment("archive/segments/2/3/0-41.gz") is None
    assert find_segment("archive/segments/notes.txt") is None


# ---- the sink


async def test_a_minute_is_a_segment() -> None:
    log, store = ClockLog(1), new_store()
    await log.write_states(("a", "1"), ("b", "1"))
    await log.write_states(("c", "2"), minutes=1)
    await archive_all(log, store)
    contents = await Archive(store).contents()
    assert [(segment.first, segment.last) for segment in contents.segments] == [(0, 1), (2, 2)]
    assert await newest(store) == await shown(log)


async def test_a_change_is_in_the_backup_after_a_while_without_another() -> None:
    log, store, seconds = ClockLog(1), new_store(), count(step=30)
    stop = asyncio.Event()
    await log.write_states(("a", "1"))
    sink = run_archive_sink(log, store, BackupSettings(), stop=stop, monotonic=lambda: next(seconds))
    task = asyncio.ensure_future(sink)
    async with asyncio.timeout(60):
        while not (await Archive(store).contents()).segments:  # noqa: ASYNC110  (stores tell nobody)
            await asyncio.sleep(0.001)
    stop.set()
    await task


async def test_a_clock_that_is_set_back_changes_nothing() -> None:
    log, store = ClockLog(1), new_store()
    await log.write_states(("a", "1"))
    await log.write_states(("b", "1"), ("a", "2"), minutes=-600)
    await log.write_states(("c", "1"), minutes=3)
    await archive_all(log, store)
    assert await newest(store) == await shown(log)


async def test_two_sinks_write_the_same() -> None:
    log, store, alone = ClockLog(), new_store(), new_store()
    for number in range(20):
        await log.write_states((f"k{number % 7}", str(number)), (f"m{number}", "x"), minutes=0.3)
    await asyncio.gather(*(archive_all(log, store) for _ in range(3)))
    await archive_all(log, alone)
    one, other = await Archive(store).contents(), await Archive(alone).contents()
    assert len(one.segments) > 3
    assert one == other
    for segment in one.segments:
        assert await store.get(segment.key) == await alone.get(segment.key)


async def test_overlapping_segments_say_the_same() -> None:
    log, store = ClockLog(1), new_store()
    archive = Archive(store)
    await log.write_states(("a", "1"), ("b", "1"), ("c", "1"))
    first = list(await log.read(STATE, 0, 0))
    await archive.write("l", 1, Segment(1, 0, 0, 1), first[:2])
    await archive.write("l", 1, Segment(1, 0, 0, 2), first)
    await log.write_states(("a", None), ("d", "1"))
    await archive_all(log, store)
    assert await newest(store) == {"a": None, "b": b"1", "c": b"1", "d": b"1"}
    assert await make_snapshot(archive, await archive.contents(), 1, "l", START)
    # A sink that was suspended for long writes what everybody else has written.
    await archive.write("l", 1, Segment(1, 0, 0, 3), first)
    assert await living(store) == {"b": b"1", "c": b"1", "d": b"1"}


# ---- crashes


class DyingStore(ObjectStore):
    """A store whose process dies before or after its write of this number."""

    left, after = -1, False

    async def create(self, key: str, data: bytes) -> None:
        self.left -= 1
        if self.left == -1 and not self.after:
            raise Crash
        await super().create(key, data)
        if self.left == -1 and self.after:
            raise Crash

    async def delete(self, key: str) -> None:
        self.left -= 1
        if self.left == -1:
            raise Crash
        await super().delete(key)


@pytest.mark.parametrize("after", [False, True])
async def test_whenever_a_sink_dies_the_next_one_loses_nothing(after: bool) -> None:
    for moment in count():
        log, store = ClockLog(2), DyingStore(f"memory://archive-{next(_numbers)}")
        store.left, store.after = moment, after
        archive, died = Archive(store), False
        for number in range(3):
            await log.write_states(("a", str(number)), (f"b{number}", "1"), minutes=1)
            try:
                await archive_all(log, store)
                await make_snapshot(archive, await archive.contents(), 2, "l", START + timedelta(days=number))
                await remove_old(archive, timedelta(hours=30), START + timedelta(days=number))
            except Crash:
                died = True
        store.left = -1
        await log.write_states(("a", None))
        await archive_all(log, store)
        assert await living(store) == await shown(log)
        assert await make_snapshot(archive, await archive.contents(), 2, "l", START + timedelta(days=9))
        await remove_old(archive, timedelta(), START + timedelta(days=9))
        assert await living(store) == await shown(log)
        contents = await archive.contents()
        assert len(contents.snapshots) == 1
        assert contents.segments == []
        if not died:
            break
    assert moment > 10


# ---- histories

KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers(0, 9)),
        st.tuples(st.just("end"), KEYS, st.just(0)),
        st.tuples(st.just("sink"), KEYS, st.just(0)),
        st.tuples(st.just("snapshot"), KEYS, st.just(0)),
        st.tuples(st.just("remove"), KEYS, st.integers(0, 3)),
        st.tuples(st.just("minutes"), KEYS, st.integers(-90, 90)),
        st.tuples(st.just("epoch"), KEYS, st.just(0)),
        st.tuples(st.just("expire"), KEYS, st.just(0)),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(STEPS, st.integers(1, 4))
def test_random_histories(steps: list[tuple[str, str, int]], partitions: int) -> None:
    """The archive's states are the log's, whatever was snapshot and removed, and however clocks went."""

    async def case() -> None:
        log, store = ClockLog(partitions), new_store()
        archive = Archive(store)
        day = 0
        for what, key, number in steps:
            match what:
                case "put":
                    await log.write_states((key, f"{key}{number}"))
                case "end":
                    await log.write_states((key, None))
                case "sink":
                    await archive_all(log, store)
                case "snapshot":
                    day += 1
                    made = START + timedelta(days=day)
                    if (contents := await archive.contents()).segments:
                        assert await make_snapshot(archive, contents, partitions, "l", made)
                case "remove":
                    await remove_old(archive, timedelta(days=number), START + timedelta(days=day))
                case "minutes":
                    log.now += timedelta(minutes=number)
                case "epoch":
                    await log.begin_epoch(log.epoch + 1)
                case "expire":
                    await archive_all(log, store)
                    await log.expire(STATE, log.now + timedelta(days=9))
        await archive_all(log, store)
        assert await living(store) == await shown(log)

    asyncio.run(case())


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=25), st.data())
def test_until_a_time(changes: list[tuple[str, int, int]], data: st.DataObject) -> None:
    """Read the states of any time: the sink ran all the time, so that the archive has every change."""

    async def case() -> None:
        log, store = ClockLog(2), new_store()
        archive = Archive(store)
        history: list[tuple[datetime, dict[str, bytes | None]]] = [(START - timedelta(seconds=1), {})]
        for key, value, minutes in changes:
            await log.write_states((key, str(value)), minutes=minutes)
            await archive_all(log, store)
            history.append((log.now, await shown(log)))
            if value == 0:
                await make_snapshot(archive, await archive.contents(), 2, "l", log.now)
        when = data.draw(st.sampled_from([time for time, _ in history]))
        assert await newest(store, when) == [state for time, state in history if time <= when][-1]

    asyncio.run(case())


async def test_until_a_time_before_the_oldest_snapshot() -> None:
    log, store = ClockLog(1), new_store()
    archive = Archive(store)
    for number in range(3):
        await log.write_states(("a", str(number)), minutes=60 * 24)
        await archive_all(log, store)
        await make_snapshot(archive, await archive.contents(), 1, "l", log.now)
    assert await newest(store, START + timedelta(days=1.5)) == {"a": b"0"}
    assert await remove_old(archive, timedelta(days=1), log.now)
    assert await newest(store, START + timedelta(days=2.5)) == {"a": b"1"}
    with pytest.raises(UsageError, match="the backup reaches back to 2026-01-03"):
        await newest(store, START + timedelta(days=1.5))


# ---- faults


async def test_faults_are_named() -> None:
    log, store = ClockLog(1), new_store()
    archive = Archive(store)
    for number in range(3):
        await log.write_states((f"a{number}", "1"), minutes=1)
        await archive_all(log, store)
    first, second, _ = (await archive.contents()).segments
    whole = await store.get(second.key)
    for broken in (
        whole[:-9],
        b"",
        bytes([*whole[:40], whole[40] ^ 1, *whole[41:]]),
        await store.get(first.key),
    ):
        await store.put(second.key, broken)
        with pytest.raises(Damaged, match=f"{second.key}: is damaged"):
            await newest(store)
    assert await newest(store, skip_damaged=True) == {"a0": b"1", "a2": b"1"}
    await store.delete(second.key)
    with pytest.raises(Damaged, match="the segment before it is missing: offsets 1 to 1 of partition 0"):
        await newest(store)
    assert archive_ends(await archive.contents(), 1) == {0: 1}
    await archive_all(log, store)
    assert await newest(store) == await shown(log), "a sink fills the gap from a log that still has it"
    snapshot = await make_snapshot(archive, await archive.contents(), 1, "l", START)
    assert snapshot
    await store.delete(snapshot.files[0].key)
    with pytest.raises(Damaged, match="is missing"):
        await newest(store)
    manifest = "archive/snapshots/00000001/manifest.json"
    await store.put(manifest, (await store.get(manifest)).replace(b"2026", b"2027"))
    with pytest.raises(Damaged, match=r"manifest\.json: is damaged"):
        await newest(store)
    damaged: list[str] = []
    assert (await archive.contents(damaged)).snapshots == []
    assert len(damaged) == 1


HELD: dict[str, tuple[Segment, bool]] = {
    "of an earlier epoch": (Segment(1, 0, 0, 9), True),
    "before the position": (Segment(2, 0, 0, 4), True),
    "with the record at the position": (Segment(2, 0, 3, 5), False),
    "of the record at the position": (Segment(2, 0, 5, 5), False),
    "after the position": (Segment(2, 0, 6, 9), False),
    "of a partition that the snapshot has not read": (Segment(2, 1, 0, 0), False),
    "of a later epoch": (Segment(3, 0, 0, 0), False),
}
"""Segments, and whether a snapshot that has read epoch 2 up to offset 5 of partition 0 has all of their records."""


async def test_a_segment_goes_only_if_a_snapshot_that_is_old_enough_has_all_of_it() -> None:
    archive = Archive(new_store())
    for segment, _ in HELD.values():
        records = [
            Record(STATE, segment.partition, at, "k", b"{}", {}, START)
            for at in (segment.first, segment.last)
        ]
        await archive.write("log", 2, segment, records)
    later = {0: 100, 1: 100}  # has all of them, and is too young to count
    for number, made, positions in ((1, START, {0: 5}), (2, START + timedelta(days=5), later)):
        shot = Snapshot(
            number=number,
            made=made,
            newest=made,
            log="log",
            epoch=2,
            partitions=2,
            positions=positions,
            files=[],
        )
        assert await archive.complete(shot)
    await remove_old(archive, timedelta(days=7), START + timedelta(days=7) - timedelta(seconds=1))
    assert len((await archive.contents()).segments) == len(HELD), "no snapshot is old enough"
    await remove_old(archive, timedelta(days=7), START + timedelta(days=7))
    left = (await archive.contents()).segments
    assert {name: segment not in left for name, (segment, _) in HELD.items()} == {
        name: goes for name, (_, goes) in HELD.items()
    }
    assert [shot.number for shot in (await archive.contents()).snapshots] == [1, 2]


async def test_what_a_log_has_lost_stays() -> None:
    """An emptier log of a later epoch takes nothing out of the backup; what it has counts."""
    log, store = ClockLog(2), new_store()
    await log.write_states(("a", "1"), ("b", "1"))
    await archive_all(log, store)
    other = ClockLog(3, epoch=2)
    await other.write_states(("b", "2"))
    await archive_all(other, store)
    assert await living(store) == {"a": b"1", "b": b"2"}
    archive = Archive(store)
    assert await make_snapshot(archive, await archive.contents(), 3, "l", START)
    await remove_old(archive, timedelta(), START + timedelta(days=1))
    assert await living(store) == {"a": b"1", "b": b"2"}
