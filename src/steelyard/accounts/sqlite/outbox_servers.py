"""The API servers that share an outbox in SQLite, and their leases. `outbox.py` calls this, each in a transaction.

Leases count by the machine's monotonic clock, which all processes of a file share: a clock that is set ends none.
"""

import sqlite3
import time
from collections.abc import Sequence

from steelyard.accounts.database import LeaseEnded
from steelyard.engines.processes import may_live

MIGRATION = """
CREATE TABLE outbox_servers (
    id TEXT PRIMARY KEY, process TEXT NOT NULL, renewed REAL NOT NULL, seconds REAL NOT NULL, renewals INTEGER NOT NULL
) WITHOUT ROWID;
"""


def begin(connection: sqlite3.Connection, server: str, seconds: float, process: str) -> None:
    row = (server, process, time.monotonic(), seconds)
    connection.execute("INSERT OR REPLACE INTO outbox_servers VALUES (?, ?, ?, ?, 0)", row)


def renew(connection: sqlite3.Connection, server: str, seconds: float) -> None:
    query = "UPDATE outbox_servers SET renewed = ?, seconds = ?, renewals = renewals + 1 WHERE id = ?"
    if not connection.execute(query, (time.monotonic(), seconds, server)).rowcount:
        raise LeaseEnded(f"server {server}: its lease has ended")


def check(connection: sqlite3.Connection, server: str) -> None:
    """Raises LeaseEnded where the server is not registered, or was taken over."""
    query = "SELECT 1 FROM outbox_servers WHERE id = ?"
    if server and connection.execute(query, (server,)).fetchone() is None:
        raise LeaseEnded(f"server {server}: its lease has ended")


def list_ended(connection: sqlite3.Connection, *, besides: str) -> list[str]:
    """Return the servers whose leases or processes have ended."""
    now = time.monotonic()
    rows = connection.execute("SELECT id, process, renewed, seconds FROM outbox_servers").fetchall()
    # A renewal that lies ahead is of another boot, whose clock had come further.
    return [
        id
        for id, process, renewed, seconds in rows
        if id != besides and not (0 <= now - renewed < seconds and may_live(process))
    ]


def remove(connection: sqlite3.Connection, servers: Sequence[str]) -> None:
    connection.executemany("DELETE FROM outbox_servers WHERE id = ?", [(server,) for server in servers])
