"""Work on a full disk: recognised, and done again when there is room."""

import asyncio
import errno
import sqlite3
from pathlib import Path

import pytest

from steelyard_common.disk_space import has_room, no_room, once_room
from steelyard_evaluation.storage.store import StorageFull


def full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def chained(outer: BaseException, cause: BaseException) -> BaseException:
    outer.__cause__ = cause
    return outer


def full_database() -> sqlite3.Error:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA max_page_count = 2")
    with pytest.raises(sqlite3.Error) as caught:
        connection.executescript("CREATE TABLE a (b); CREATE TABLE c (d); CREATE TABLE e (f);")
    connection.close()
    return caught.value


@pytest.mark.parametrize(
    ("error", "means_it"),
    [
        pytest.param(full(), True, id="a write"),
        pytest.param(OSError(errno.EDQUOT, "Quota exceeded"), True, id="a quota"),
        pytest.param(full_database(), True, id="a database"),
        pytest.param(chained(StorageFull("x"), full()), True, id="storage"),
        pytest.param(ExceptionGroup("g", [ValueError(), ExceptionGroup("h", [full()])]), True, id="a group"),
        pytest.param(OSError(errno.EACCES, "Permission denied"), False, id="no permission"),
        pytest.param(sqlite3.OperationalError("database is locked"), False, id="a locked database"),
        pytest.param(chained(ValueError(), KeyError()), False, id="a fault of ours"),
    ],
)
def test_want_of_room_is_recognised(error: BaseException, means_it: bool) -> None:
    assert no_room(error) is means_it


def test_a_disk_has_room_or_not(tmp_path: Path) -> None:
    assert has_room(tmp_path, 1)
    assert not has_room(tmp_path, 1 << 62)
    assert has_room(tmp_path / "missing", 1 << 62), "who cannot be asked does not stop anybody"


async def test_work_is_done_again_until_there_is_room() -> None:
    left, said = [full(), full()], list[BaseException]()

    async def work() -> None:
        if left:
            raise left.pop()

    await once_room(work, said.append, pause=0)
    assert (left, len(said)) == ([], 1)


async def test_other_faults_come_through() -> None:
    async def work() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await once_room(work, lambda error: None)


async def test_a_cancellation_ends_it_though_an_error_takes_its_place() -> None:
    """This happens in a group of tasks; another task of it fails at the same moment."""
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            raise full()

    task = asyncio.create_task(once_room(work, lambda error: None, pause=0))
    await begun.wait()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=60)
    assert done
    assert task.exception()
