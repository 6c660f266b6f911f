"""Uploads become final once they are verified, whenever a crash comes between."""

import base64
import hashlib
from itertools import count

import pytest

from steelyard_evaluation.storage.objects import ObjectStore
from steelyard_evaluation.storage.staging import (
    Area,
    ChangedMeanwhile,
    ExpectedFile,
    NotAsAnnounced,
    NotUploaded,
    UploadError,
    UploadManifest,
    discard,
    finalise,
    find_area,
    is_closed,
)
from steelyard_evaluation.storage.store import BadLocation, Store, open_store
from steelyard_schema.names import MANIFEST

names = count()
AREA = Area("5eed", "nonce")
FILES = {"a.parquet": b"a" * 10, "deep/b.parquet": b"", "c": b"c"}


def md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


EXPECTED = [ExpectedFile(path, len(data), md5(data)) for path, data in FILES.items()]


@pytest.fixture
def store() -> Store:
    return open_store(f"memory://staging-{next(names)}")


async def uploaded(store: Store) -> None:
    for path, data in FILES.items():
        await store.put(AREA.key(path), data)


async def assert_final(store: Store) -> None:
    for path, data in FILES.items():
        assert await store.get(f"datasets/5eed/{path}") == data
    manifest = UploadManifest.model_validate_json(await store.get(f"datasets/5eed/{MANIFEST}"))
    assert [(file.path, file.size, file.sha256, file.md5) for file in manifest.files] == [
        (path, len(data), hashlib.sha256(data).hexdigest(), md5(data)) for path, data in FILES.items()
    ]


async def test_what_is_verified_is_copied_and_the_area_closed(store: Store) -> None:
    await uploaded(store)
    assert not await is_closed(store, AREA)
    await finalise(store, AREA, EXPECTED, "datasets/5eed")
    await assert_final(store)
    assert await is_closed(store, AREA)
    await discard(store, AREA)
    assert [info.key async for info in store.list("staging/")] == [AREA.closing_mark]
    await finalise(store, AREA, EXPECTED, "datasets/5eed")
    await assert_final(store)


@pytest.mark.parametrize(
    ("expected", "error", "why"),
    [
        (ExpectedFile("d"), NotUploaded, "d: has not been uploaded"),
        (ExpectedFile("c", 2), NotAsAnnounced, "c: has 1 bytes, 2 were announced"),
        (ExpectedFile("c", 1, md5(b"d")), NotAsAnnounced, "c: has the MD5"),
    ],
)
async def test_what_is_wrong_leaves_the_area_open(
    store: Store, expected: ExpectedFile, error: type[UploadError], why: str
) -> None:
    await uploaded(store)
    with pytest.raises(error, match=why):
        await finalise(store, AREA, [*EXPECTED, expected], "datasets/5eed")
    assert not await is_closed(store, AREA)
    assert [info.key async for info in store.list("datasets/")] == []


class Crash(Exception):
    pass


class InterruptedStore(ObjectStore):
    """A store that lets something happen after its n-th write."""

    def __init__(self, url: str, after: int) -> None:
        super().__init__(url)
        self._left = after

    async def happens(self) -> None:
        raise Crash

    async def _written(self) -> None:
        self._left -= 1
        if self._left == 0:
            await self.happens()

    async def create(self, key: str, data: bytes) -> None:
        await super().create(key, data)
        await self._written()

    async def copy(self, source: str, target: str) -> None:
        await super().copy(source, target)
        await self._written()


class UploadedLate(InterruptedStore):
    async def happens(self) -> None:
        await self.put(AREA.key("c"), b"x")


@pytest.mark.parametrize("writes", range(1, 9))
async def test_it_may_be_repeated_after_a_crash_between_any_two_writes(store: Store, writes: int) -> None:
    await uploaded(store)
    with pytest.raises(Crash):
        await finalise(InterruptedStore(store.url, writes), AREA, EXPECTED, "datasets/5eed")
    assert await is_closed(store, AREA)
    await finalise(store, AREA, EXPECTED, "datasets/5eed")
    await assert_final(store)


async def test_what_changes_after_it_was_verified_never_becomes_final(store: Store) -> None:
    await uploaded(store)
    with pytest.raises(ChangedMeanwhile, match="c: changed while"):
        await finalise(
            UploadedLate(store.url, 1), AREA, [ExpectedFile(path) for path in FILES], "datasets/5eed"
        )
    assert not [info async for info in store.list("datasets/5eed/c")]
    assert not [info async for info in store.list(f"datasets/5eed/{MANIFEST}")]


class OvertakenWhileClosing(ObjectStore):
    """Another one, who saw a later upload of `c`, closes the area just before."""

    async def create(self, key: str, data: bytes) -> None:
        if key == AREA.closing_mark:
            manifest = UploadManifest.model_validate_json(data)
            theirs = [file.model_copy(update=LATER) if file.path == "c" else file for file in manifest.files]
            await super().put(AREA.key("c"), b"later")
            await super().create(key, UploadManifest(files=theirs).model_dump_json().encode())
        await super().create(key, data)


class ChangedAndFinalisedMeanwhile(ObjectStore):
    """An upload changes `c` after its copy was checked, and another one finalises the area at that moment."""

    refused = ""

    async def copy(self, source: str, target: str) -> None:
        if target == "datasets/5eed/c" and not self.refused:
            await super().put(AREA.key("c"), b"x")
            try:
                await finalise(open_store(self.url), AREA, EXPECTED, "datasets/5eed")
            except ChangedMeanwhile as error:
                self.refused = str(error)
        await super().copy(source, target)


async def test_a_file_that_was_checked_stays_whatever_another_one_copies(store: Store) -> None:
    await uploaded(store)
    overtaken = ChangedAndFinalisedMeanwhile(store.url)
    await finalise(overtaken, AREA, EXPECTED, "datasets/5eed")
    assert overtaken.refused == "c: changed while it was finalised"
    await assert_final(store)
    await discard(store, AREA)
    assert [info.key async for info in store.list("staging/")] == [AREA.closing_mark]


class FinalisedMeanwhile(ObjectStore):
    """Another one finalises the area, and discards it, before the first copy."""

    async def copy(self, source: str, target: str) -> None:
        other = open_store(self.url)
        await finalise(other, AREA, EXPECTED, "datasets/5eed")
        await discard(other, AREA)
        await super().copy(source, target)


async def test_an_area_that_another_one_finalised_meanwhile_is_final(store: Store) -> None:
    await uploaded(store)
    await finalise(FinalisedMeanwhile(store.url), AREA, EXPECTED, "datasets/5eed")
    await assert_final(store)


LATER = {"size": 5, "sha256": hashlib.sha256(b"later").hexdigest(), "md5": md5(b"later")}


async def test_of_two_who_close_at_once_one_decides_for_both(store: Store) -> None:
    await uploaded(store)
    expected = [ExpectedFile(path) for path in FILES]
    manifest = await finalise(OvertakenWhileClosing(store.url), AREA, expected, "datasets/5eed")
    assert (manifest.files[2].path, manifest.files[2].size) == ("c", 5)
    assert await store.get("datasets/5eed/c") == b"later"
    assert await finalise(store, AREA, expected, "datasets/5eed") == manifest


async def test_what_is_there_already_counts_by_its_content_and_not_by_its_size(store: Store) -> None:
    await uploaded(store)
    await store.put("datasets/5eed/a.parquet", b"z" * 10)
    await finalise(store, AREA, EXPECTED, "datasets/5eed")
    await assert_final(store)


def test_an_area_is_known_by_its_keys() -> None:
    assert find_area(AREA.key("deep/b.parquet")) == AREA
    assert find_area(AREA.closing_mark) is None
    for path in ("../x", "", "a//b", "%2e%2e/x"):
        with pytest.raises(BadLocation):
            AREA.key(path)
