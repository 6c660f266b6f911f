"""Progress is written now and then, and harms nothing."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from steelyard.steps import progress as progress_module
from steelyard.steps.fetch_model import Fetching
from steelyard.steps.model_sources import RemoteFile
from steelyard.steps.progress import Progress
from steelyard_evaluation.storage.files import FileStore
from steelyard_schema.names import PROGRESS

BEGIN = datetime(2026, 11, 21, tzinfo=UTC)


async def written(store: FileStore) -> Any:
    return json.loads(await store.get(PROGRESS))


async def test_it_is_written_at_most_every_five_seconds_and_at_the_end(tmp_path: Path) -> None:
    store, clock = FileStore(tmp_path), {"seconds": 0.0}
    progress = Progress(store, "rows", 10, lambda: BEGIN + timedelta(**clock))
    seen = []
    for seconds, done, last in (
        (0.0, 1, False),
        (4.9, 2, False),
        (5.0, 3, False),
        (5.1, 10, False),
        (5.2, 10, True),
        (-3600.0, 4, False),  # the clock was set back
    ):
        clock["seconds"] = seconds
        await progress.report(done, "scoring", last=last)
        seen.append((await written(store))["done"])
    assert seen == [1, 1, 3, 3, 10, 4]


async def test_it_goes_on_by_itself_and_ends_with_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "PROGRESS_SECONDS", 0.01)
    store, done = FileStore(tmp_path), 1
    progress = Progress(store, "rows", 10)
    async with progress.report_regularly(lambda: (done, "scoring")):
        done = 2
        async with asyncio.timeout(60):
            while not (tmp_path / PROGRESS).exists() or (await written(store))["done"] != 2:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    await progress.report(10, "complete", last=True)
    assert (await written(store))["message"] == "complete"


async def test_storage_that_refuses_it_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "output").write_text("a file")
    progress = Progress(FileStore(tmp_path / "output"), "rows", 10)
    async with progress.report_regularly(lambda: (1, "scoring")):
        pass
    await progress.report(10, "complete", last=True)


async def _nothing(local: Path) -> None:
    return None


def test_fetching_counts_what_has_arrived(tmp_path: Path) -> None:
    fetching = Fetching([RemoteFile("b", _nothing, 100), RemoteFile("a", _nothing, 50)], tmp_path)
    assert [remote.path for remote in fetching.remotes] == ["a", "b"]
    assert (fetching.total, fetching.measure()) == (150, (0, ""))
    fetching.done, fetching.now = 50, fetching.remotes[1]
    (tmp_path / "partial").mkdir()
    (tmp_path / "partial" / "b").write_bytes(bytes(30))
    assert fetching.measure() == (80, "b")
    (tmp_path / "partial" / "b").write_bytes(bytes(300))
    assert fetching.measure() == (150, "b")


def test_fetching_counts_files_where_a_size_is_unknown(tmp_path: Path) -> None:
    fetching = Fetching([RemoteFile("a", _nothing, 100), RemoteFile("b", _nothing)], tmp_path)
    fetching.now = fetching.remotes[0]
    (tmp_path / "a").write_bytes(bytes(30))
    assert (fetching.total, fetching.measure()) == (2, (0, "a"))
