"""The objects' SQLite file: write-ahead log, every commit on disk before it is answered, one process at a time."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from steelyard.local.apiserver.store import Row

# SQLite's locks and shared memory do not hold there, and a commit may be told before it is kept.
NETWORK_FILE_SYSTEMS = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ceph",
        "lustre",
        "glusterfs",
        "fuse.glusterfs",
        "fuse.sshfs",
        "fuse.s3fs",
        "gpfs",
        "beegfs",
        "ncpfs",
    ]
)
# Versions that were given out but not committed are below this jump, so that none is given out twice.
JUMP = 100_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (kind TEXT, namespace TEXT, name TEXT, raw BLOB NOT NULL,
  PRIMARY KEY (kind, namespace, name));
CREATE TABLE IF NOT EXISTS version (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), value INTEGER NOT NULL);
"""


class SqliteDatabase:
    """What the store's `Database` asks; every failure is an OSError."""

    def __init__(self, path: Path) -> None:
        refuse_network_file_system(path.parent)
        try:
            self._connection = _open(path)
        except sqlite3.Error as error:
            raise OSError(f"{path} cannot be used: {error}") from error

    def load(self) -> tuple[int, Iterable[Row]]:
        found = self._connection.execute("SELECT value FROM version").fetchone()
        version = found[0] + JUMP if found else 1
        self.commit(version, ())  # two starts in a row jump twice
        return version, self._connection.execute("SELECT kind, namespace, name, raw FROM objects")

    def commit(self, version: int, rows: Iterable[Row]) -> None:
        try:
            self._write(version, rows)
        except sqlite3.Error as error:
            self._connection.rollback()
            raise OSError(f"the database could not be written: {error}") from error

    def _write(self, version: int, rows: Iterable[Row]) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for kind, namespace, name, raw in rows:
            if raw is None:
                execute(
                    "DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?",
                    (kind, namespace, name),
                )
            else:
                execute("REPLACE INTO objects VALUES (?, ?, ?, ?)", (kind, namespace, name, raw))
        execute("REPLACE INTO version VALUES (1, ?)", (version,))
        execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=0.2)
    try:
        # Exclusive: a second process fails here instead of writing beside this one.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise sqlite3.OperationalError("its file system has no write-ahead log")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    path.chmod(0o600)  # Secrets are in it
    return connection


def refuse_network_file_system(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> None:
    """Raises OSError where `folder` is on a file system of another machine."""
    kind = file_system(folder.resolve(), mounts.read_text())
    if kind in NETWORK_FILE_SYSTEMS:
        raise OSError(f"{folder} is on a network file system ({kind}): the database needs a local disk")


def file_system(folder: Path, mounts: str) -> str:
    """The type of the file system of an absolute path, by the text of /proc/self/mounts."""
    found, depth = "", -1
    for line in mounts.splitlines():
        _, where, kind, *_ = line.split(" ")
        where = where.encode().decode("unicode_escape")
        mount = Path(where)
        if folder.is_relative_to(mount) and len(mount.parts) >= depth:
            found, depth = kind, len(mount.parts)
    return found
