"""Opening a database's file, bringing it up to date, and taking turns to write. `database.py` calls this."""

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from steelyard.sqlite.shape import difference, make_shape, maker, shape, sign
from steelyard_common import __version__
from steelyard_common.errors import ContentError, EngineError, Refused, SteelyardError
from steelyard_common.presence import Presence

BUSY_SECONDS = 30.0
_STATEMENT_CODES = {
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_RANGE,
}
_DAMAGED_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
PAUSE_SECONDS = 0.0005
"""Seconds between two attempts to write while another process does; a commit takes about as long."""


class DatabaseError(SteelyardError, EngineError):
    """The database refused or failed; the message names its file."""


class StatementError(DatabaseError, ContentError):
    """A statement failed because of its values or its text, and would fail again; the file is well."""


class Damaged(DatabaseError):
    """The file cannot be read as its kind; the message names its content."""

    exit_code = Refused.exit_code


class WrongSchema(DatabaseError):
    """The file is of a version whose tables are others; the message says which, and what to do."""

    exit_code = Refused.exit_code


class NewerSchema(WrongSchema):
    """The file was brought to its schema by a newer version."""


class Turn:
    """The right to write or checkpoint a file: one process at a time has it.

    SQLite has locks of its own for that. But before 3.51.3, one process's commit that restarts the WAL during another's
    checkpoint can lose pages for good (sqlite.org/wal.html#walresetbug), and most systems have an older one. The lock's
    file is touched after each commit: other processes watch it.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(f"{path}-lock")
        self._name = str(path)
        with naming_file(self._name):
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._presence: Presence | None = None

    @contextlib.contextmanager
    def taking_turn(self) -> Iterator[None]:
        """Raises DatabaseError when another process does not end writing."""
        until = time.monotonic() + BUSY_SECONDS
        while not self._try():
            if time.monotonic() > until:
                raise DatabaseError(f"{self._name}: another process has been writing for {BUSY_SECONDS:g} s")
            time.sleep(PAUSE_SECONDS)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _try(self) -> bool:
        try:
            # Not a blocking lock, which would have no time limit. The kernel releases it when a process is killed.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def watch(self, database: Path) -> None:
        """Remember the database's files as they are now; `check` compares with them."""
        with naming_file(self._name):
            self._presence = Presence(database)

    def check(self) -> None:
        """Raises DatabaseError where a file was taken away: writes would be gone at the next start."""
        with naming_file(self._name):
            fault = self._presence.fault() if self._presence else None
        if fault is not None:
            raise DatabaseError(f"{fault}; nothing more is written to it")

    def notify(self) -> None:
        """Notify other processes that something was committed. They poll now and then anyway, and the commit stands."""
        with contextlib.suppress(OSError):
            os.utime(self._file)

    def close(self) -> None:
        os.close(self._file)


def connect(path: Path | None, *, writes: bool) -> sqlite3.Connection:
    """A connection that any thread may use, one at a time."""
    with naming_file(str(path or ":memory:")):
        connection = sqlite3.connect(
            path or ":memory:",
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            connection.executescript(
                # FULL syncs the WAL at each commit: with NORMAL a power loss could take back what was acknowledged.
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY;"
                f"PRAGMA journal_size_limit=67108864; PRAGMA query_only={'OFF' if writes else 'ON'};"
            )
        except BaseException:
            connection.close()
            raise
        return connection


def migrate(connection: sqlite3.Connection, migrations: Sequence[str], name: str) -> None:
    """Apply the scripts that the file has not seen. Only with the turn, so that of several processes one does it."""
    with naming_file(name):
        # The lock is taken at once: a read that becomes a write could fail with SQLITE_BUSY in the middle.
        connection.execute("BEGIN IMMEDIATE")
        try:
            _migrate(connection, migrations, name)
        except BaseException:
            connection.rollback()
            raise
        connection.execute("COMMIT")


def _migrate(connection: sqlite3.Connection, migrations: Sequence[str], name: str) -> None:
    done = int(connection.execute("PRAGMA user_version").fetchone()[0])
    # A newer program may have changed what an older one would write wrongly; nothing is touched.
    if done > len(migrations):
        raise NewerSchema(
            f"{name}: was made by {maker(connection)}, which is newer than {__version__}; use that one"
        )
    there = shape(connection)
    # Tables of another program: a wrong path in the settings must not end in a changed file.
    if not done and there:
        raise WrongSchema(
            f"{name}: is another database (it has the table {min(there)}); was it put in the wrong place?"
        )
    wrong = difference(there, make_shape(migrations[:done])) if done else None
    if wrong is not None:
        raise WrongSchema(
            f"{name}: was made by {maker(connection)} with another schema than Steelyard {__version__} has ({wrong}); "
            "is it in its right place? Use the version that made it, or begin in another folder with --state-dir"
        )
    if done == len(migrations):
        return  # a file that is only looked at stays as it is
    for script in migrations[done:]:
        for statement in _statements(script):
            connection.execute(statement)
    sign(connection)
    connection.execute(f"PRAGMA user_version = {len(migrations)}")


def _statements(script: str) -> Iterator[str]:
    """A script's statements; `executescript` would commit before each."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


@contextlib.contextmanager
def naming_file(name: str) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into a DatabaseError that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise translate_error(name, error) from error


def translate_error(name: str, error: BaseException) -> BaseException:
    """Error of this package for one of SQLite or the system, which stays its cause: a full disk is recognised by it."""
    if not isinstance(error, sqlite3.Error | OSError):
        return error
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED_CODES:
        failure: DatabaseError = Damaged(
            f"{name}: is damaged ({error}); nothing of it was changed. Stop what runs, and put a copy of it back"
        )
    else:
        cannot_open = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CANTOPEN
        needed = "; it has to be a file that this user may read and write" if cannot_open else ""
        failure = (StatementError if _is_of_statement(error) else DatabaseError)(f"{name}: {error}{needed}")
    failure.__cause__ = error
    return failure


def _is_of_statement(error: sqlite3.Error | OSError) -> bool:
    """Return whether the statement is at fault: a value that is too large, of no known type, or against a constraint.

    Errors of the file, the disk, memory or a lock have codes of their own. Python's module raises ProgrammingError and
    InterfaceError without a code, for values that it cannot bind.
    """
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError)
    return code & 0xFF in _STATEMENT_CODES
