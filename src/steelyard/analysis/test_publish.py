"""Tests of publication: attempts that are killed at any write, and attempts that are superseded."""

import json
from pathlib import Path

import pytest

from steelyard.analysis.errors import AnalysisFailed
from steelyard.analysis.example import ID
from steelyard.analysis.outputs import Outputs
from steelyard.analysis.publish import clear, is_published, publish
from steelyard.analysis.workspace import SCORES
from steelyard.evaluation.epoch import claim
from steelyard.evaluation.errors import Fenced
from steelyard.storage.files import FileStore

MANIFEST = ".steelyard/manifest.json"
LOG = ".dyff/logs/pod/000000"


class Killed(BaseException):
    """End of the process."""


class Breaking(FileStore):
    """A store that is there for a number of writes."""

    writes = 1_000

    def _count(self) -> None:
        if self.writes == 0:
            raise Killed
        self.writes -= 1

    async def put(self, key: str, data: bytes) -> None:
        self._count()
        await super().put(key, data)

    async def create(self, key: str, data: bytes) -> None:
        self._count()
        await super().create(key, data)

    async def put_file(self, key: str, path: Path) -> None:
        self._count()
        await super().put_file(key, path)

    async def delete(self, key: str) -> None:
        self._count()
        await super().delete(key)


def make_outputs(folder: Path, name: str, *paths: str) -> Outputs:
    """The output of an attempt: each file holds its name."""
    files = {path: folder / f"{name}-{path.replace('/', '-')}" for path in paths}
    for file in files.values():
        file.write_text(name)
    return Outputs(files, {SCORES: name.encode()})


async def attempt(store: FileStore, number: int, outputs: Outputs) -> None:
    """Do all that an attempt does with its store."""
    epoch = await claim(store, f"{number:04d}")
    if await is_published(store):
        return
    await clear(store, epoch)
    await publish(ID, outputs, epoch)


def contents(root: Path) -> dict[str, str]:
    files = {str(file.relative_to(root)): file for file in root.rglob("*") if file.is_file()}
    return {path: file.read_text() for path, file in files.items() if not path.startswith(".steelyard/epoch")}


@pytest.mark.parametrize("writes", range(9))
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
    assert killed is (writes < 6)  # the claim, three files, the scores, the manifest
    store.writes = 1_000
    await attempt(store, 2, second)
    there = contents(tmp_path / "output")
    manifest = json.loads(there.pop(MANIFEST))
    assert there.pop(LOG) == "log"
    name, outputs = ("second", second) if killed else ("first", first)
    assert there == dict.fromkeys((*outputs.files, SCORES), name)
    assert (manifest["epoch"], [file["path"] for file in manifest["files"]]) == (
        "0002" if killed else "0001",
        sorted(outputs.files),
    )


async def test_an_attempt_that_wakes_late_publishes_nothing(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "output")
    late = await claim(store, "0001")
    await attempt(store, 2, make_outputs(tmp_path, "second", "index.html"))
    before = contents(tmp_path / "output")
    with pytest.raises(Fenced):
        await publish(ID, make_outputs(tmp_path, "first", "index.html", "more.png"), late)
    with pytest.raises(Fenced):
        await clear(store, late)
    assert contents(tmp_path / "output") == before


async def test_two_that_end_at_once_have_one_manifest(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "output")
    epoch = await claim(store, "0001")
    await store.create(MANIFEST, b"{}")
    with pytest.raises(AnalysisFailed, match="another attempt has published") as failure:
        await publish(ID, make_outputs(tmp_path, "first", "index.html"), epoch)
    assert not failure.value.permanent
