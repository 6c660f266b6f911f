"""Tests of the database file: its place, its permissions, and the message about a damaged one."""

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest

from steelyard_common.presence import Presence
from steelyard_local_kubernetes.apiserver.database import (
    DatabaseUnusable,
    SqliteDatabase,
    file_system,
    refuse_network_file_system,
)

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/export /home nfs4 rw 0 0
tmpfs /home/me/fast tmpfs rw 0 0
share /mnt/with\\040space cifs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv", "ext4"),
        ("/home/me", "nfs4"),
        ("/home/me/fast/x", "tmpfs"),
        ("/home/me/faster", "nfs4"),
        ("/mnt/with space/x", "cifs"),
    ],
)
def test_the_nearest_mount_decides(folder: str, kind: str) -> None:
    assert file_system(Path(folder), MOUNTS) == kind


def test_a_network_file_system_is_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/export {tmp_path} nfs4 rw 0 0\n")
    with pytest.raises(OSError, match=r"network file system \(nfs4\)"):
        refuse_network_file_system(tmp_path, mounts)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    first = SqliteDatabase(tmp_path / "db")
    first.load()
    with pytest.raises(OSError, match="cannot be used: database is locked"):
        SqliteDatabase(tmp_path / "db")
    first.close()
    SqliteDatabase(tmp_path / "db").close()


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(b"something else" * 100)
    with pytest.raises(DatabaseUnusable, match=r"db: is damaged .*not a database.*--new-kubernetes"):
        SqliteDatabase(tmp_path / "db", begin_anew="steelyard up --new-kubernetes")


def test_a_file_that_was_cut_off_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "db")
    database.load()
    database.commit(2, [("pods", "default", str(number), b"x" * 1000) for number in range(50)])
    database.close()
    content = (tmp_path / "db").read_bytes()[:20000]
    (tmp_path / "db").write_bytes(content)
    with pytest.raises(DatabaseUnusable, match=r"db: is damaged .*malformed"):
        SqliteDatabase(tmp_path / "db").load()
    assert (tmp_path / "db").read_bytes() == content


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "db")) as other:
        other.executescript("CREATE TABLE records (n INTEGER);")
    with pytest.raises(DatabaseUnusable, match="another database \\(it has the table records\\)"):
        SqliteDatabase(tmp_path / "db")
    with contextlib.closing(sqlite3.connect(tmp_path / "db")) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("records",)]


def test_what_is_taken_away_is_written_no_more(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "db")
    database.load()
    (tmp_path / "db").rename(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="db was taken away or replaced while it was in use"):
        database.commit(2, [])
    database.close()


def test_a_commit_is_written_through(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "db")
    ask = database._connection.execute
    settings = {name: ask(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
    database.close()
    assert settings == {"journal_mode": "wal", "synchronous": 2}  # FULL
    assert (tmp_path / "db").stat().st_mode & 0o077 == 0


def fill_and_empty(database: SqliteDatabase, left: int) -> None:
    """Write a hundred objects, and remove all but `left` of them."""
    database.commit(2, [("configmaps", "default", f"c{number}", b"x" * 4096) for number in range(100)])
    database.commit(3, [("configmaps", "default", f"c{number}", None) for number in range(left, 100)])


def size(path: Path) -> int:
    return path.stat().st_size + path.with_name(f"{path.name}-wal").stat().st_size


def test_room_that_is_free_goes_back_to_the_disk_in_steps_while_the_file_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard_local_kubernetes.apiserver.database.SPARE_BYTES", 1 << 14)
    monkeypatch.setattr("steelyard_local_kubernetes.apiserver.database.STEP_PAGES", 20)
    database = SqliteDatabase(tmp_path / "db")
    fill_and_empty(database, left=2)
    full = size(tmp_path / "db")
    steps = 1
    while database.give_back():
        steps += 1
        assert steps < 100
    assert steps > 3
    assert size(tmp_path / "db") < full / 8
    assert [row[2] for row in database.load()[1]] == ["c0", "c1"]
    database.close()


def test_a_watcher_of_the_file_distinguishes_released_room_from_a_file_that_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard_local_kubernetes.apiserver.database.SPARE_BYTES", 1 << 14)
    path = tmp_path / "db"
    database = SqliteDatabase(path)
    fill_and_empty(database, left=100)
    database._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    presence, full = Presence(path), path.stat().st_size
    fill_and_empty(database, left=20)
    while database.give_back():
        assert presence.fault() is None
    assert presence.fault() is None
    assert path.stat().st_size < full / 2
    os.truncate(path, path.stat().st_size - 4096)
    assert "was cut from" in str(presence.fault())
    os.truncate(path, 0)
    assert "was cut from" in str(presence.fault())
    database.close()


def test_little_free_room_is_kept(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "db")
    fill_and_empty(database, left=2)
    full = size(tmp_path / "db")
    assert not database.give_back()
    assert size(tmp_path / "db") == full
    database.close()


def test_a_file_of_an_older_version_shrinks_at_its_next_start_and_then_while_it_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard_local_kubernetes.apiserver.database.SPARE_BYTES", 1 << 14)
    path = tmp_path / "db"
    with monkeypatch.context() as older:
        older.setattr("steelyard_local_kubernetes.apiserver.database._INCREMENTAL", 0)
        first = SqliteDatabase(path)
    fill_and_empty(first, left=1)
    first.close()
    full = path.stat().st_size
    second = SqliteDatabase(path)
    assert [row[2] for row in second.load()[1]] == ["c0"]
    assert path.stat().st_size < full / 4
    fill_and_empty(second, left=1)
    full = size(path)
    while second.give_back():
        continue
    assert size(path) < full / 4
    second.close()


@pytest.mark.parametrize("last", [None, b'{"data": {"value": "another"}}'], ids=["deleted", "changed"])
def test_a_secret_that_is_gone_is_in_no_part_of_the_file(tmp_path: Path, last: bytes | None) -> None:
    """Neither in its free room nor in its log: a reader of the files must not find deleted objects."""
    database = SqliteDatabase(tmp_path / "db")
    value = b"a-distinctive-value" * 700  # more than a page
    database.commit(1, [("secrets", "ns", f"s{n}", b'{"data": "%s"}' % value) for n in range(20)])
    database.commit(2, [("pods", "ns", f"p{n}", b"x" * 3000) for n in range(50)])
    assert b"a-distinctive-value" in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for n in range(20):
        database.commit(3 + n, [("secrets", "ns", f"s{n}", last), ("pods", "ns", f"p{n}", b"y" * 2000)])
    for path in tmp_path.iterdir():
        assert b"distinctive" not in path.read_bytes(), path
    database.close()
