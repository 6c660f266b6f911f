"""Tests of publication: attempts that are killed at any write, and attempts that are superseded."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.engine.errors import EvaluationFailed, Fenced
from steelyard_evaluation.engine.publication import ATTEMPTS, Publication
from steelyard_evaluation.storage.files import FileStore

ID = "0d191750000040008000000000000002"
MANIFEST = ".steelyard/manifest.json"
SCORES = ".dyff/scores.json"
LOG = ".dyff/logs/pod/000000"


class Killed(BaseException):
    """End of the process."""


async def kill() -> None:
    raise Killed


class Breaking(FileStore):
    """A store at which something happens after a number of writes, before the next one."""

    def __init__(self, root: Path, meanwhile: Callable[[], Awaitable[None]] = kill) -> None:
        super().__init__(root)
        self.writes, self.meanwhile = 1_000, meanwhile

    async def _count(self) -> None:
        self.writes -= 1
        if self.writes == -1:
            await self.meanwhile()

    async def put(self, key: str, data: bytes) -> None:
        await self._count()
        await super().put(key, data)

    async def create(self, key: str, data: bytes) -> None:
        await self._count()
        await super().create(key, data)

    async def put_file(self, key: str, path: Path) -> None:
        await self._count()
        await super().put_file(key, path)

    async def copy(self, source: str, target: str) -> None:
        await self._count()
        await super().copy(source, target)

    async def delete(self, key: str) -> None:
        await self._count()
        await super().delete(key)


@dataclass(frozen=True)
class Outputs:
    """Output of one attempt."""

    files: dict[str, Path]
    records: dict[str, bytes]

    async def publish(self, publication: Publication) -> None:
        await publication.publish(dict(self.files), self.records, analysis=ID)


def make_outputs(folder: Path, name: str, *paths: str) -> Outputs:
    """The output of an attempt: each file holds its name."""
    files = {path: folder / f"{name}-{path.replace('/', '-')}" for path in paths}
    for file in files.values():
        file.write_text(name)
    return Outputs(files, {SCORES: name.encode()})


async def attempt(store: FileStore, number: int, outputs: Outputs) -> None:
    """Do all that an attempt does with its store."""
    publication = Publication(await claim(store, f"{number:04d}"))
    if await publication.complete_earlier() is None:
        await outputs.publish(publication)


def contents(root: Path) -> dict[str, str]:
    files = {str(file.relative_to(root)): file for file in root.rglob("*") if file.is_file()}
    return {path: file.read_text() for path, file in files.items() if not path.startswith(".steelyard/epoch")}


WRITTEN, PLACED = 6, 14
"""Writes of an attempt with three files until it has published them, and until it has ended.

The claim, the scores, three files and the manifest; then a copy and a removal of each of the four.
"""


def published_in(root: Path) -> dict[str, str]:
    """Contents of the files that readers see."""
    return {path: content for path, content in contents(root).items() if not path.startswith(ATTEMPTS)}


@pytest.mark.parametrize("writes", range(PLACED + 1))
async def test_attempts_that_are_killed_at_any_write_never_mix(tmp_path: Path, writes: int) -> None:
    store = Breaking(tmp_path / "output")
    await store.put(LOG, b"log")
    store.writes = writes
    first = make_outputs(tmp_path, "first", "index.html", "a.png", "old/b.png")
    second = make_outputs(tmp_path, "second", "index.html", "a.png", "new/c.png")
    killed = False
    try:
        await attempt(store, 1, first)
    except Killed:
        killed = True
    assert killed is (writes < PLACED)
    store.writes = 1_000
    await attempt(store, 2, second)
    there = contents(tmp_path / "output")
    manifest = json.loads(there.pop(MANIFEST))
    assert there.pop(LOG) == "log"
    name, outputs = ("second", second) if writes < WRITTEN else ("first", first)
    assert there == dict.fromkeys((*outputs.files, SCORES), name)
    assert (manifest["epoch"], [file["path"] for file in manifest["files"]]) == (
        "0002" if writes < WRITTEN else "0001",
        sorted(outputs.files),
    )


@pytest.mark.parametrize("writes", range(PLACED))
async def test_an_attempt_that_is_suspended_at_any_write_changes_nothing_published(
    tmp_path: Path, writes: int
) -> None:
    second = make_outputs(tmp_path, "second", "index.html", "a.png", "new/c.png")
    published: list[dict[str, str]] = []

    async def publish_another() -> None:
        await attempt(FileStore(tmp_path / "output"), 2, second)
        published.append(published_in(tmp_path / "output"))

    store = Breaking(tmp_path / "output", publish_another)
    store.writes = writes
    with suppress(EvaluationFailed):
        await attempt(store, 1, make_outputs(tmp_path, "first", "index.html", "a.png", "old/b.png"))
    assert [published_in(tmp_path / "output")] == published
    del published[0][MANIFEST]
    assert set(published[0].values()) == {"second" if writes < WRITTEN else "first"}


async def test_an_attempt_that_wakes_late_publishes_nothing(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "output")
    late = await claim(store, "0001")
    await attempt(store, 2, make_outputs(tmp_path, "second", "index.html"))
    before = contents(tmp_path / "output")
    with pytest.raises(Fenced):
        await make_outputs(tmp_path, "first", "index.html", "more.png").publish(Publication(late))
    assert contents(tmp_path / "output") == before


async def test_two_that_end_at_once_have_one_manifest(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "output")
    epoch = await claim(store, "0001")
    await store.create(MANIFEST, b"{}")
    with pytest.raises(EvaluationFailed, match="another attempt has published") as failure:
        await make_outputs(tmp_path, "first", "index.html").publish(Publication(epoch))
    assert not failure.value.permanent
