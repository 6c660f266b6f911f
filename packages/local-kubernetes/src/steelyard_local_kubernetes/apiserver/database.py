"""The objects' SQLite file: write-ahead log, every commit on disk before it is answered, one process at a time."""

import contextlib
import logging
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from steelyard_common.errors import Refused, SteelyardError
from steelyard_common.platform_identity import foreign_database
from steelyard_local_kubernetes.apiserver.store import Row

log = logging.getLogger(__name__)

# SQLite's locks and shared memory do not hold there, and a commit may be reported before it is kept.
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

SPARE_BYTES = 1 << 20  # of free room in the file, kept for what comes next
LOG_BYTES = 4 << 20  # of the file's log, kept for the same reason
STEP_PAGES = 256  # given back at once: the event loop waits for it
_INCREMENTAL = 2  # the file can give free pages back while it is in use

SECRETS = "secrets"
"""Kind of Secrets in the rows."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (kind TEXT, namespace TEXT, name TEXT, raw BLOB NOT NULL,
  PRIMARY KEY (kind, namespace, name));
CREATE TABLE IF NOT EXISTS platform (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS version (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), value INTEGER NOT NULL);
"""


class DatabaseUnusable(Refused, OSError):
    """The file is damaged, another one, or of another program; the message names it and says how to go on."""


class DatabaseUnavailable(SteelyardError, OSError):
    """The file cannot be opened or written now; the message names it."""


class SqliteDatabase:
    """Database of the store on SQLite; every failure is an OSError that names the file."""

    def __init__(self, path: Path, platform: str | None = None, begin_anew: str = "") -> None:
        """Open the file of a platform: made where there is none, and one without a name gets the platform's.

        Errors name `begin_anew`, a command that keeps the file aside and lets an empty one begin.
        """
        refuse_network_file_system(path.parent)
        self._path, self._begin_anew = path, begin_anew
        try:
            self._connection = self._open()
            if platform is not None:
                self._claim(platform)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        self._inode = path.stat().st_ino

    def load(self) -> tuple[int, Iterable[Row]]:
        try:
            row = self._connection.execute("SELECT value FROM version").fetchone()
            # A watcher may have seen versions of writes that a crash took back: given out again, they would name
            # other objects.
            version = row[0] + JUMP if row else 1
            self.commit(version, ())  # two starts in a row jump twice
            rows = self._connection.execute("SELECT kind, namespace, name, raw FROM objects").fetchall()
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        return version, rows

    def commit(self, version: int, rows: Iterable[Row]) -> None:
        # SQLite would go on writing to the file that was moved away, and every write would be confirmed.
        self._check_presence()
        try:
            self._write(version, rows)
        except sqlite3.Error as error:
            # Half a transaction left open would be committed with the next one. Of a closed database none is open.
            with contextlib.suppress(sqlite3.ProgrammingError):
                self._connection.rollback()
            raise OSError(f"{self._path} could not be written: {error}") from error

    def _check_presence(self) -> None:
        """Raises OSError where the file was taken away: writes would be gone at the next start."""
        try:
            there = self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            there = False
        if not there:
            raise OSError(f"{self._path} was taken away or replaced while it was in use")

    def _write(self, version: int, rows: Iterable[Row]) -> None:
        execute, secret = self._connection.execute, False
        execute("BEGIN IMMEDIATE")
        for kind, namespace, name, raw in rows:
            secret |= kind == SECRETS
            if raw is None:
                execute(
                    "DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?",
                    (kind, namespace, name),
                )
            else:
                execute("REPLACE INTO objects VALUES (?, ?, ?, ?)", (kind, namespace, name, raw))
        execute("REPLACE INTO version VALUES (1, ?)", (version,))
        execute("COMMIT")
        if secret:
            self._forget_earlier()

    def _forget_earlier(self) -> None:
        """Empty the write-ahead log, which holds the pages as they were before a Secret was changed or deleted."""
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:  # a full disk, for one: the change itself is kept
            log.warning("%s keeps a Secret's earlier value in its log for now: %s", self._path, error)

    def give_back(self) -> bool:
        """Give some of the file's free room back to the disk; return whether there is more to give."""
        execute = self._connection.execute
        try:
            size, free = (execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "freelist_count"))
            if free * size <= SPARE_BYTES:
                return False
            # As a script, which goes on to the end: `execute` stops after the first page.
            self._connection.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")
            if (free - STEP_PAGES) * size > SPARE_BYTES:
                return True
            # Until the log is in the file, the file keeps its size.
            execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:  # a full disk, for one: the room is used again by what is written next
            log.warning("%s cannot give room back: %s", self._path, error)
        return False

    def close(self) -> None:
        self._connection.close()

    def _open(self) -> sqlite3.Connection:
        path = self._path
        # Transactions are begun by hand, since Python begins its own before some statements only. Who else
        # has the file keeps it: to wait for long would change nothing.
        connection = sqlite3.connect(path, isolation_level=None, timeout=0.2)
        try:
            # Exclusive: a second process fails here instead of writing at the same time.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")  # of a new file
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise sqlite3.OperationalError("its file system has no write-ahead log")
            # What is deleted is overwritten with zeros: a Secret must not stay in a free part of the file.
            connection.execute("PRAGMA secure_delete = ON")
            # With NORMAL a commit in WAL mode is lost by a power loss, and it has been answered by then.
            connection.execute("PRAGMA synchronous = FULL")
            # A file with other tables belongs to another program, and must not be written to.
            own = "('objects', 'version', 'platform')"
            query = f"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN {own}"
            other = connection.execute(query).fetchone()
            if other is not None:
                raise DatabaseUnusable(
                    f"{path}: is another database (it has the table {other[0]}); {self._go_on()}"
                )
            connection.executescript(_SCHEMA)
            # After a large transaction SQLite would keep the log file at that size for good.
            connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
            _shrink(connection)
        except BaseException:
            connection.close()
            raise
        path.chmod(0o600)  # Secrets are in it
        return connection

    def _claim(self, platform: str) -> None:
        """Write the platform into a file that names none.

        Raises DatabaseUnusable for another platform's: its rights to the objects, such as an administrator's, would be
        good here.
        """
        connection = self._connection
        row = connection.execute("SELECT id FROM platform").fetchone()
        if row is None:
            connection.execute("INSERT INTO platform VALUES (1, ?)", (platform,))
            # In the file itself, where it is read without a lock and without the write-ahead log.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        elif row[0] != platform:
            connection.close()
            raise DatabaseUnusable(foreign_database(self._path, str(row[0]), platform, self._begin_anew))

    def _go_on(self) -> str:
        return (
            "nothing of it was changed. Stop what runs, and put a copy of it back; or keep it aside and let an empty "
            f"one begin{f': {self._begin_anew}' if self._begin_anew else ''}"
        )

    def _unusable(self, error: sqlite3.Error) -> OSError:
        """Return SQLite's error in words; a damaged file needs a person."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return DatabaseUnusable(f"{self._path}: is damaged ({error}); {self._go_on()}")
        failure = DatabaseUnavailable(
            f"{self._path} cannot be used: {error}; it has to be a file that this user may write, and that no other "
            "process has"
        )
        failure.__cause__ = error
        return failure


def _shrink(connection: sqlite3.Connection) -> None:
    """Give back the free room in a file of an older version, and let it do so while it is in use from now on."""
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    if mode != _INCREMENTAL:
        with contextlib.suppress(sqlite3.OperationalError):  # it needs room for a copy
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def refuse_network_file_system(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> None:
    """Raises OSError where `folder` is on a file system of another machine."""
    kind = file_system(folder.resolve(), mounts.read_text())
    if kind in NETWORK_FILE_SYSTEMS:
        raise OSError(f"{folder} is on a network file system ({kind}): the database needs a local disk")


def file_system(folder: Path, mounts: str) -> str:
    """The type of the file system of an absolute path, by the text of /proc/self/mounts."""
    name, depth = "", -1
    for line in mounts.splitlines():
        _, where, kind, *_ = line.split(" ")
        # The kernel writes spaces and tabs of a path as octal escapes.
        where = where.encode().decode("unicode_escape")
        mount = Path(where)
        # The deepest mount counts, and of several at one place the last.
        if folder.is_relative_to(mount) and len(mount.parts) >= depth:
            name, depth = kind, len(mount.parts)
    return name
