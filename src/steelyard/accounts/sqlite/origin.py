"""The log to which the accounts database belongs: its claims and its outbox hold positions of that log."""

import sqlite3

from steelyard.accounts.positions import EVENTS, STATE
from steelyard.engines.origin import Origin
from steelyard.sqlite import Database

MIGRATION = """
CREATE TABLE origin (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), log TEXT NOT NULL, epoch INTEGER NOT NULL);
"""


class SqliteOrigin:
    """The outlet's side of `services/identity.py`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def origin(self) -> Origin | None:
        return self._database.read_now(_origin)

    async def set_origin(self, log: str, epoch: int) -> None:
        def write(connection: sqlite3.Connection) -> None:
            known = connection.execute("SELECT log, epoch FROM origin").fetchone()
            connection.execute("INSERT OR REPLACE INTO origin VALUES (1, ?, ?)", (log, epoch))
            if known is not None and tuple(known) != (log, epoch):
                # An offset of another epoch means nothing here. What the log says of an entity replaces its claim's
                # state.
                connection.execute("DELETE FROM claim_positions")
                connection.execute("UPDATE claims SET epoch = -1, offset = -1")
                connection.execute("UPDATE outbox SET ends = 0")
                connection.execute("UPDATE outbox SET offset = -1 WHERE partition IS NOT NULL")

        await self._database.write(write)


def _origin(connection: sqlite3.Connection) -> Origin | None:
    row = connection.execute("SELECT log, epoch FROM origin").fetchone()
    if row is None:
        # A version without origins may have written the file: then its keys or accounts are there.
        used = connection.execute("SELECT 1 FROM signing_keys UNION SELECT 1 FROM accounts").fetchone()
        if used is None:
            return None
    query = "SELECT partition, max(next) FROM claim_positions GROUP BY partition"
    claims = dict(connection.execute(query).fetchall())
    query = "SELECT partition, max(offset) + 1 FROM outbox WHERE partition IS NOT NULL GROUP BY partition"
    outbox = dict(connection.execute(query).fetchall())
    epochs = connection.execute("SELECT coalesce(max(epoch), 0) FROM claim_positions").fetchone()
    log, epoch = row or ("", int(epochs[0]))
    return Origin(log, epoch, {STATE: claims, EVENTS: outbox})
