"""The mirror has what the first store has; what went stays for seven days; a run that dies is taken up."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from steelyard.broker.simulation.replay import Crash
from steelyard.services.backup.mirror import MARGIN, _due, _is_same, mirror
from steelyard.services.identity import IDENTITY
from steelyard_common.errors import Refused
from steelyard_evaluation.storage.objects import ObjectStore
from steelyard_evaluation.storage.store import ObjectInfo, Store, open_store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
_numbers = count()


def new_store() -> Store:
    return open_store(f"memory://mirror-{next(_numbers)}")


async def held(store: Store, prefix: str = "") -> dict[str, bytes]:
    return {info.key.removeprefix(prefix): await store.get(info.key) async for info in store.list(prefix)}


async def test_days_of_a_mirror() -> None:
    storage, backup, target = new_store(), new_store(), new_store()
    for key in (IDENTITY, "a/1", "a/2", "a-b", "z"):
        await storage.put(key, key.encode())
    await backup.put("entities/e1.json", b"{}")
    assert await _due(target, NOW)
    assert (await mirror(storage, backup, target, NOW)).copied == 6
    assert not await _due(target, NOW + DAY / 2)
    assert await _due(target, NOW + DAY)
    assert await _due(target, NOW - DAY), "the clock was set back"
    await storage.delete("a/2")
    await storage.put("a/1", b"longer than before")
    await backup.put("entities/e2.json", b"{}")
    assert (await mirror(storage, backup, target, NOW + DAY)).removed == 1
    assert await held(target, "storage/") == await held(storage)
    assert await held(target, "backup/") == await held(backup)
    assert await held(target, "trash/") == {"20260102T000000Z/storage/a/2": b"a/2"}
    assert (await mirror(storage, backup, target, NOW + 7 * DAY)).purged == 0
    assert (await mirror(storage, backup, target, NOW + 8 * DAY)).purged == 1
    assert await held(target, "trash/") == {}


async def test_an_emptied_storage_does_not_empty_the_mirror() -> None:
    storage, backup, target = new_store(), new_store(), new_store()
    await storage.put(IDENTITY, b"{}")
    await storage.put("a", b"1")
    await mirror(storage, backup, target, NOW)
    before = await held(target)
    with pytest.raises(Refused, match=r"lacks \.steelyard/identity\.json, and its mirror"):
        await mirror(new_store(), backup, target, NOW + DAY)
    assert await held(target) == before


class DyingStore(ObjectStore):
    """A store whose process dies before its write of this number."""

    left = -1

    def _tick(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise Crash

    async def put_file(self, key: str, path: object) -> None:
        self._tick()
        await super().put_file(key, path)  # type: ignore[arg-type]

    async def put(self, key: str, data: bytes) -> None:
        self._tick()
        await super().put(key, data)

    async def copy(self, source: str, target: str) -> None:
        self._tick()
        await super().copy(source, target)

    async def delete(self, key: str) -> None:
        self._tick()
        await super().delete(key)


async def test_whenever_it_dies_the_next_run_loses_nothing() -> None:
    for moment in count():
        storage, backup = new_store(), new_store()
        target = DyingStore(f"memory://mirror-{next(_numbers)}")
        for key in ("a", "b", "c"):
            await storage.put(key, key.encode())
        await mirror(storage, backup, target, NOW)
        await storage.delete("b")
        await storage.put("d", b"d")
        target.left, died = moment, False
        try:
            await mirror(storage, backup, target, NOW + DAY)
        except Crash:
            died = True
        target.left = -1
        await mirror(storage, backup, target, NOW + 2 * DAY)
        assert await held(target, "storage/") == await held(storage)
        assert {key.partition("/")[2]: value for key, value in (await held(target, "trash/")).items()} == {
            "storage/b": b"b"
        }
        if not died:
            break
    assert moment > 3


async def test_an_object_that_was_replaced_by_one_of_equal_size_is_copied() -> None:
    storage, backup, target = new_store(), new_store(), new_store()
    for store in (storage, backup):
        await store.put("a", b"before")
    await mirror(storage, backup, target, NOW)
    for store in (storage, backup):
        await store.put("a", b"behind")
    await mirror(storage, backup, target, NOW + DAY)
    assert await held(target, "storage/") == await held(target, "backup/") == {"a": b"behind"}


SECOND = timedelta(seconds=1)
SAME: dict[str, tuple[int, timedelta, bool]] = {
    "as it was long before the copy": (5, -MARGIN - SECOND, True),
    "replaced within the difference of two clocks": (5, -MARGIN, False),
    "replaced a moment before": (5, -SECOND, False),
    "replaced at the same time": (5, timedelta(0), False),
    "replaced later": (5, SECOND, False),
    "of another size": (6, -30 * DAY, False),
}


@pytest.mark.parametrize("case", SAME)
def test_what_counts_as_copied(case: str) -> None:
    size, after, same = SAME[case]
    assert _is_same(ObjectInfo("a", size, NOW + after), ObjectInfo("storage/a", 5, NOW)) is same


async def test_a_changed_file_does_not_take_the_place_of_its_copy() -> None:
    storage, backup, target = new_store(), new_store(), new_store()
    right = {"path": "x", "sha256": hashlib.sha256(b"right").hexdigest()}
    await storage.put("datasets/d/.steelyard/manifest.json", json.dumps({"files": [right]}).encode())
    await storage.put("datasets/d/x", b"right")
    await mirror(storage, backup, target, NOW)
    await storage.put("datasets/d/x", b"wrong")
    done = await mirror(storage, backup, target, NOW + DAY)
    assert done.changed == 1
    assert (await held(target, "storage/"))["datasets/d/x"] == b"right"
