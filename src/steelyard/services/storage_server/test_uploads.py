"""Leftovers of uploads and bodies that were cut short, and their end."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from steelyard.services.storage_server.bodies import Digests
from steelyard.services.storage_server.faults import S3Error
from steelyard.services.storage_server.uploads import FOLDER, KEPT, Uploads
from steelyard_evaluation.storage.files import FileStore


async def test_leftovers_go_after_a_day_and_uploads_that_move_stay(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    await store.put("object", b"")
    uploads, folder, now = Uploads(store), tmp_path / FOLDER, datetime.now(UTC)
    assert uploads.remove_leftovers(now) == 0
    slow, left = uploads.begin("slow", {}), uploads.begin("left", {})
    (folder / f".#{slow}.1").write_bytes(b"old")
    (folder / f".#{slow}.2").write_bytes(b"new")
    (folder / f".#{left}.1").write_bytes(b"old")
    (folder / ".#body").write_bytes(b"half")
    (folder / ".#received").write_bytes(b"half")
    past = (now - KEPT - timedelta(minutes=1)).timestamp()
    for name in (f"{slow}.begun", f"{slow}.1", f"{left}.begun", f"{left}.1", "body"):
        os.utime(folder / f".#{name}", (past, past))
    assert uploads.remove_leftovers(now) == 3
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [f".#{slow}.begun", f".#{slow}.1", f".#{slow}.2", ".#received"]
    )
    assert (tmp_path / "object").exists()


async def bytes_of(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def begin_upload(uploads: Uploads) -> tuple[str, list[tuple[int, str]]]:
    """Begin an upload of the key `a` in two parts; return its id and the parts."""
    id = uploads.begin("a", {})
    tags = [
        await uploads.add(id, "a", number, bytes_of(b"%d" % number), Digests(1, None, {}))
        for number in (1, 2)
    ]
    return id, list(enumerate(tags, 1))


@pytest.mark.parametrize("other", ["parts", "key", "condition"])
async def test_a_request_for_something_else_does_not_get_the_first_ones_success(
    tmp_path: Path, other: str
) -> None:
    uploads = Uploads(FileStore(tmp_path))
    id, parts = await begin_upload(uploads)
    first, second = await asyncio.gather(
        uploads.complete(id, "a", parts, replace=True),
        uploads.complete(
            id,
            "b" if other == "key" else "a",
            parts[:1] if other == "parts" else parts,
            replace=other != "condition",
        ),
        return_exceptions=True,
    )
    assert isinstance(first, str)
    assert isinstance(second, S3Error)
    assert second.code == "NoSuchUpload"
    assert (tmp_path / "a").read_bytes() == b"12"
    assert not (tmp_path / "b").exists()


async def test_the_same_request_gets_the_same_answer_while_the_first_is_at_work(tmp_path: Path) -> None:
    uploads = Uploads(FileStore(tmp_path))
    id, parts = await begin_upload(uploads)
    first, second = await asyncio.gather(
        *(uploads.complete(id, "a", list(parts), replace=True) for _ in range(2))
    )
    assert first == second


async def test_a_right_request_succeeds_behind_one_that_fails(tmp_path: Path) -> None:
    uploads = Uploads(FileStore(tmp_path))
    id, parts = await begin_upload(uploads)
    first, second = await asyncio.gather(
        uploads.complete(id, "a", [*parts, (3, "none")], replace=True),
        uploads.complete(id, "a", parts, replace=True),
        return_exceptions=True,
    )
    assert isinstance(first, S3Error)
    assert first.code == "InvalidPart"
    assert isinstance(second, str)


def open_files() -> list[Path]:
    """Return the files that this process has open."""
    return [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]


async def test_a_body_whose_metadata_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    uploads = Uploads(FileStore(tmp_path))
    with pytest.raises(OSError, match="Argument list too long"):  # the kernel's limit of one attribute
        await uploads.put(
            "a", bytes_of(b""), Digests(0, None, {}), metadata={"x": "x" * 70_000}, replace=True
        )
    assert list((tmp_path / FOLDER).iterdir()) == []
    assert [path for path in open_files() if path.is_relative_to(tmp_path)] == []
