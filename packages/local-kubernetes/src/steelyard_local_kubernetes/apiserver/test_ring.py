"""The event ring: cursors, bounds, waking."""

import asyncio

import pytest

from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.ring import Change, Ring, VersionForgotten


def change(version: int, size: int = 1) -> Change:
    return Change("things", version, None, Item(b"x" * size, version, "", "n", "u", {}, (), False))


def versions(ring: Ring, cursor: int) -> list[int]:
    return [change.version for change in ring.read(cursor)[0]]


def test_a_cursor_begins_after_its_version() -> None:
    ring = Ring(5)
    for version in (7, 9, 12):
        ring.append(change(version))
    assert [versions(ring, ring.cursor(version)) for version in (5, 7, 8, 12)] == [
        [7, 9, 12],
        [9, 12],
        [9, 12],
        [],
    ]
    with pytest.raises(VersionForgotten):
        ring.cursor(4)


def test_history_is_bounded_by_count() -> None:
    ring = Ring(0, max_events=10)
    slow = ring.cursor(0)
    for version in range(1, 101):
        ring.append(change(version))
        assert len(versions(ring, ring.cursor(ring.floor))) <= 10
    assert versions(ring, ring.cursor(ring.floor))[0] == ring.floor + 1
    with pytest.raises(VersionForgotten):
        ring.read(slow)
    with pytest.raises(VersionForgotten):
        ring.cursor(ring.floor - 1)


def test_history_is_bounded_by_bytes() -> None:
    ring = Ring(0, max_bytes=1000)
    for version in range(1, 101):
        ring.append(change(version, size=100))
        kept = ring.read(ring.cursor(ring.floor))[0]
        assert sum(len(change.new.raw) for change in kept) <= 1000
    ring.append(change(101, size=5000))
    assert versions(ring, ring.cursor(100)) == [101], "one that is too large for all is still told"


def test_a_fast_reader_loses_nothing_while_history_is_forgotten() -> None:
    ring = Ring(0, max_events=7)
    cursor, seen = ring.cursor(0), []
    for version in range(1, 200):
        ring.append(change(version))
        if version % 3 == 0:
            changes, cursor = ring.read(cursor)
            seen += [change.version for change in changes]
    assert seen == list(range(1, 199))


async def test_waiters_wake() -> None:
    ring = Ring(0)
    waiting = [asyncio.create_task(ring.wait_for_change(60)) for _ in range(3)]
    await asyncio.sleep(0)
    ring.append(change(1))
    await asyncio.wait_for(asyncio.gather(*waiting), 60)
    last = asyncio.create_task(ring.wait_for_change(60))
    await asyncio.sleep(0)
    ring.close()
    await asyncio.wait_for(last, 60)
    await asyncio.wait_for(ring.wait_for_change(60), 60)


def test_what_is_old_is_forgotten_however_little_it_is() -> None:
    ring = Ring(1)
    ring.append(change(2))
    assert [ring.age(2), ring.age(2)] == [0, 0]
    cursor = ring.cursor(1)
    ring.append(change(3))
    assert ring.age(2)
    with pytest.raises(VersionForgotten):
        ring.read(cursor)
    assert [known.version for known in ring.since(2)] == [3]
    assert [ring.age(2), ring.age(2), ring.age(2)] == [0, 1, 0]
    assert ring.since(3) == []
