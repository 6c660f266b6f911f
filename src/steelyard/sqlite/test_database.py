"""One file, several tasks and processes: nothing half done, nothing lost, and changes are noticed."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from steelyard.sqlite import Damaged, Database, DatabaseError, StatementError, WrongSchema
from steelyard.sqlite.file import Turn
from steelyard_common import __version__
from steelyard_common.errors import is_engine_failure

SCHEMA = ["CREATE TABLE numbers (n INTEGER PRIMARY KEY);", "ALTER TABLE numbers ADD COLUMN said TEXT;"]


def adding(number: int) -> Callable[[sqlite3.Connection], int | None]:
    return lambda connection: connection.execute("INSERT INTO numbers (n) VALUES (?)", (number,)).lastrowid


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM numbers").fetchone()[0])


def killed_after(lines: int, script: str) -> int:
    """Runs it, kills it when it has said so much, and returns the last number that it said."""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= lines:
                process.kill()
    return int(line)


@pytest.fixture(params=["file", "memory"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "a.db" if request.param == "file" else ":memory:", SCHEMA)
    yield opened
    await opened.close()


async def test_many_writers_share_commits_and_each_gets_its_answer(database: Database) -> None:
    before = database._writer.commits
    assert await asyncio.gather(*(database.write(adding(n)) for n in range(200))) == list(range(200))
    assert database._writer.commits - before < 100
    assert await database.read(count) == 200
    assert database.read_now(count) == 200


async def test_a_work_that_fails_changes_nothing_and_disturbs_no_other(database: Database) -> None:
    def half(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO numbers (n) VALUES (1000)")
        raise ValueError("on second thought")

    done = await asyncio.gather(
        database.write(adding(1)), database.write(half), database.write(adding(1)), database.write(adding(2)),
        return_exceptions=True,
    )  # fmt: skip
    assert [type(result) for result in done] == [int, ValueError, StatementError, int]
    assert "UNIQUE" in str(done[2])
    assert await database.read(count) == 2


async def test_a_change_wakes_who_waits_and_time_does_too(database: Database) -> None:
    since = database.version()
    assert await database.wait_for_change(since, 0.01) == since
    waiting = asyncio.create_task(database.wait_for_change(since, 60))
    await asyncio.sleep(0)
    await database.write(adding(1))
    assert await waiting != since
    assert await database.wait_for_change(since, 60) != since


async def test_a_commit_is_looked_at_once_for_all_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit rings twice, by itself and by inotify. Who waits again is woken by no ring about what it knows."""
    monkeypatch.setattr("steelyard.sqlite.changes.SURE_SECONDS", 3600.0)
    database = await Database.open(tmp_path / "a.db", SCHEMA)
    looks, original = 0, database._changes._version

    def version() -> int:
        nonlocal looks
        looks += 1
        return original()

    monkeypatch.setattr(database._changes, "_version", version)
    since = database.version()
    waiting = [asyncio.create_task(database.wait_for_change(since, 3600)) for _ in range(10)]
    await asyncio.sleep(0)
    assert looks == 1, "the first one looks after it has begun to watch the file, the others need not"
    await database.write(adding(1))
    (newest,) = {*await asyncio.gather(*waiting)}
    assert newest == database.version() != since
    assert looks <= 1 + 2
    again = asyncio.create_task(database.wait_for_change(newest, 3600))
    await asyncio.sleep(0)
    looks = 0
    database._changes.wake()
    await asyncio.sleep(0)
    assert not again.done()
    await database.write(adding(2))
    assert await again != newest
    await database.close()


async def test_a_commit_between_the_reading_and_the_wait_ends_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is missed: a commit that was reported before the wait, and one that is reported after it has begun."""
    monkeypatch.setattr("steelyard.sqlite.changes.SURE_SECONDS", 3600.0)
    mine, theirs = [await Database.open(tmp_path / "a.db", SCHEMA) for _ in range(2)]
    await mine.wait_for_change(mine.version(), 0)  # the file is watched from now on
    async with asyncio.timeout(60):
        for number in range(20):
            since = mine.version()
            await (theirs if number % 2 else mine).write(adding(number))
            for _ in range(number % 5):
                await asyncio.sleep(0)
            assert await mine.wait_for_change(since, 3600) != since
    await mine.close()
    await theirs.close()


async def test_another_process_is_noticed_and_migrates_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    database = await Database.open(path, SCHEMA)
    waiting = asyncio.create_task(database.wait_for_change(database.version(), 60))
    script = f"""
import asyncio
from pathlib import Path
from steelyard.sqlite import Database
async def main():
    database = await Database.open(Path({str(path)!r}), {SCHEMA!r})
    await database.write(lambda connection: connection.execute("INSERT INTO numbers (n) VALUES (7)"))
    await database.close()
asyncio.run(main())
"""
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], check=True)
    await waiting
    assert await database.read(count) == 1
    await database.close()


async def test_what_was_confirmed_is_there_after_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    script = f"""
import asyncio
from pathlib import Path
from steelyard.sqlite import Database
async def main():
    database = await Database.open(Path({str(path)!r}), {SCHEMA!r})
    for n in range(100000):
        await database.write(lambda connection: connection.execute("INSERT INTO numbers (n) VALUES (?)", (n,)))
        print(n, flush=True)
asyncio.run(main())
"""
    said = await asyncio.to_thread(killed_after, 50, script)
    database = await Database.open(path, SCHEMA)
    assert await database.read(count) >= said + 1
    await database.close()


async def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    await (await Database.open(tmp_path / "a.db", SCHEMA)).close()
    with pytest.raises(DatabaseError, match=r"was made by Steelyard \S+, which is newer than"):
        await Database.open(tmp_path / "a.db", SCHEMA[:1])


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (["CREATE TABLE topics (n INTEGER);"], "lacks the table numbers"),
        (["CREATE TABLE numbers (n INTEGER);"], "its table numbers lacks said"),
        (["CREATE TABLE numbers (n INTEGER, said TEXT, more TEXT);"], "its table numbers has more"),
        (
            [SCHEMA[0], "ALTER TABLE numbers ADD COLUMN said TEXT;\nCREATE TABLE topics (n);"],
            "has a table topics",
        ),
    ],
)
async def test_a_file_with_other_tables_says_who_made_it_and_what_to_do(
    tmp_path: Path, schema: list[str], said: str
) -> None:
    await (await Database.open(tmp_path / "a.db", [*schema, ""][:2])).close()
    with pytest.raises(DatabaseError) as refused:
        await Database.open(tmp_path / "a.db", SCHEMA)
    assert said in str(refused.value)
    assert f"was made by Steelyard {__version__} with another schema" in str(refused.value)
    assert "--state-dir" in str(refused.value)


async def test_a_file_of_a_version_that_did_not_sign_is_distinguished(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as early:
        early.executescript("CREATE TABLE messages (n INTEGER); PRAGMA user_version = 2;")
    with pytest.raises(DatabaseError, match="made by an early version"):
        await Database.open(tmp_path / "a.db", SCHEMA)
    with contextlib.closing(sqlite3.connect(tmp_path / "b.db")) as early:
        early.executescript(f"{SCHEMA[0]}{SCHEMA[1]}PRAGMA user_version = 2;")
    await (await Database.open(tmp_path / "b.db", SCHEMA)).close()


async def test_a_work_that_ends_the_transaction_fails_and_the_thread_lives_on(database: Database) -> None:
    def committing(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO numbers (n) VALUES (1)")
        connection.execute("COMMIT")

    with pytest.raises(DatabaseError):
        await database.write(committing)
    assert await database.write(adding(2)) == 2


async def test_what_is_closed_says_so(database: Database) -> None:
    waiting = asyncio.create_task(database.wait_for_change(database.version(), 60))
    await asyncio.sleep(0)
    await database.close()
    for call in (waiting, database.write(adding(1)), database.read(count)):
        with pytest.raises(DatabaseError, match="is closed"):
            await call
    with pytest.raises(DatabaseError, match="is closed"):
        database.read_now(count)


async def test_what_a_reader_writes_is_refused(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "a.db", SCHEMA)
    with pytest.raises(DatabaseError, match="readonly"):
        await database.read(adding(1))
    with pytest.raises(DatabaseError, match="readonly"):
        database.read_now(adding(1))
    await database.close()


async def test_a_commit_is_on_the_disk_when_it_returns(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "a.db", SCHEMA)

    def settings(connection: sqlite3.Connection) -> tuple[str, int]:
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
        return journal, synchronous

    assert await database.write(settings) == ("wal", 2), "FULL: the WAL is synced at each commit"
    await database.close()


async def test_one_process_at_a_time_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.sqlite.file.BUSY_SECONDS", 0.05)
    database = await Database.open(tmp_path / "a.db", SCHEMA)
    another = Turn(tmp_path / "a.db")
    with another.taking_turn():
        with pytest.raises(DatabaseError, match="another process has been writing"):
            await database.write(adding(1))
        assert database.read_now(count) == 0, "readers do not wait"
    assert await database.write(adding(2)) == 2
    another.close()
    await database.close()


async def test_what_is_committed_is_confirmed_even_if_no_process_can_be_notified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int) -> None:
        raise PermissionError("read-only")

    database = await Database.open(tmp_path / "a.db", SCHEMA)
    monkeypatch.setattr("os.utime", refuse)
    assert await database.write(adding(1)) == 1
    await database.close()


async def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DatabaseError, match=r"file/a\.db"):
        await Database.open(tmp_path / "file" / "a.db", SCHEMA)
    (tmp_path / "b.db").write_text("no database " * 1000)
    with pytest.raises(DatabaseError, match=r"b\.db.*not a database"):
        await Database.open(tmp_path / "b.db", SCHEMA)


async def test_a_failed_migration_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    await (await Database.open(tmp_path / "a.db", SCHEMA[:1])).close()
    with pytest.raises(DatabaseError, match="nonsense"):
        await Database.open(tmp_path / "a.db", [*SCHEMA, "CREATE TABLE t (a);\nnonsense;"])
    database = await Database.open(tmp_path / "a.db", SCHEMA)
    assert await database.read(count) == 0
    await database.close()


async def test_another_process_is_noticed_without_inotify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.sqlite.changes._watch", lambda path: None)
    monkeypatch.setattr("steelyard.sqlite.changes.SURE_SECONDS", 3600.0)
    mine, theirs = [await Database.open(tmp_path / "a.db", SCHEMA) for _ in range(2)]
    waiting = asyncio.create_task(mine.wait_for_change(mine.version(), 3600))
    await asyncio.sleep(0)
    await theirs.write(adding(1))
    async with asyncio.timeout(30):
        await waiting
    await mine.close()
    await theirs.close()


async def test_another_process_is_noticed_by_inotify_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.sqlite.changes.SURE_SECONDS", 3600.0)
    mine, theirs = [await Database.open(tmp_path / "a.db", SCHEMA) for _ in range(2)]
    waiting = asyncio.create_task(mine.wait_for_change(mine.version(), 3600))
    await asyncio.sleep(0)
    assert mine._changes._watch is not None, "inotify"
    await theirs.write(adding(1))
    async with asyncio.timeout(30):
        await waiting
    await mine.close()
    await theirs.close()


def run(statement: str, *values: object) -> Callable[[sqlite3.Connection], object]:
    return lambda connection: connection.execute(statement, values).fetchall()


OF_THE_VALUE = {
    "an integer beyond 64 bits": run("INSERT INTO numbers (n) VALUES (?)", 1 << 80),
    "half a character": run("INSERT INTO numbers (said) VALUES (?)", "\ud800"),
    "a value of no known type": run("INSERT INTO numbers (said) VALUES (?)", {}),
    "a text where a number belongs": run("INSERT INTO numbers (n) VALUES ('x')"),
    "a value that is there": run("INSERT INTO numbers (n) VALUES (1), (1)"),
    "a value that is too large": run("INSERT INTO numbers (said) VALUES (zeroblob(2000000000))"),
}
OF_THE_FILE = {
    "it is full": run("INSERT INTO numbers (said) VALUES (zeroblob(100000))"),
    "a table is gone": run("SELECT * FROM elsewhere"),
}


@pytest.mark.parametrize("work", OF_THE_VALUE.values(), ids=OF_THE_VALUE)
async def test_a_value_that_is_refused_is_no_failure_of_the_file(
    database: Database, work: Callable[[sqlite3.Connection], object]
) -> None:
    with pytest.raises((StatementError, ValueError, OverflowError)) as refusal:
        await database.write(work)
    assert not is_engine_failure(refusal.value)


@pytest.mark.parametrize("work", OF_THE_FILE.values(), ids=OF_THE_FILE)
async def test_what_fails_whatever_is_written_is_a_failure_of_the_file(
    database: Database, work: Callable[[sqlite3.Connection], object]
) -> None:
    await database.write(run("PRAGMA max_page_count = 10"))
    with pytest.raises(DatabaseError) as failure:
        await database.write(work)
    assert is_engine_failure(failure.value)


def remove(path: Path, *, replace: bool) -> None:
    path.unlink()
    if replace:
        path.touch()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("how", ["taken away", "replaced"])
async def test_a_file_that_was_taken_away_confirms_nothing_more(
    tmp_path: Path, suffix: str, how: str
) -> None:
    path = tmp_path / "a.db"
    database = await Database.open(path, SCHEMA)
    await database.write(adding(1))
    remove(Path(f"{path}{suffix}"), replace=how == "replaced")
    with pytest.raises(DatabaseError, match=rf"a\.db{suffix} was {how}"):
        await database.write(adding(2))
    await database.close()


async def test_a_file_that_was_cut_off_confirms_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await (await Database.open(path, SCHEMA)).close()
    database = await Database.open(path, SCHEMA)
    os.truncate(path, 4096)
    with pytest.raises(DatabaseError, match=r"a\.db was cut from \d+ to 4096 bytes"):
        await database.write(adding(2))
    with contextlib.suppress(sqlite3.Error):
        await database.close()


async def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "a.db").mkdir()
    with pytest.raises(
        DatabaseError, match=r"a\.db: .*; it has to be a file that this user may read and write"
    ):
        await Database.open(path, SCHEMA)


async def test_a_damaged_file_is_named_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await (await Database.open(path, SCHEMA)).close()
    content = path.read_bytes()
    for damage, said in ((content[: len(content) // 2], "malformed"), (b"\0" * 5000, "not a database")):
        path.write_bytes(damage)
        with pytest.raises(Damaged, match=rf"a\.db: is damaged \(.*{said}.*put a copy of it back"):
            await Database.open(path, SCHEMA)
        assert path.read_bytes() == damage


async def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as other:
        other.executescript("CREATE TABLE objects (raw BLOB);")
    with pytest.raises(WrongSchema, match="is another database \\(it has the table objects\\)"):
        await Database.open(tmp_path / "a.db", SCHEMA)
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("objects",)]
