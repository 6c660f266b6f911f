"""Webhooks in SQLite: their tables, and how their scripts run."""

import sqlite3
from collections.abc import Callable

from steelyard.accounts.webhooks.scripts import Script
from steelyard.accounts.webhooks.webhooks import T
from steelyard.sqlite import Database

MIGRATION = """
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY, account TEXT NOT NULL, json TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'Active',
    reason TEXT, message TEXT, generation INTEGER NOT NULL DEFAULT 1, rotated REAL NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0, failing_since REAL NOT NULL DEFAULT 0, rest_until REAL NOT NULL DEFAULT 0,
    leased_until REAL NOT NULL DEFAULT 0, delivered INTEGER NOT NULL DEFAULT 0, dropped INTEGER NOT NULL DEFAULT 0,
    last_delivery REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX webhooks_by_account ON webhooks (account);
CREATE TABLE webhook_deliveries (
    number INTEGER PRIMARY KEY AUTOINCREMENT, hook TEXT NOT NULL, event TEXT NOT NULL, kind TEXT NOT NULL,
    account TEXT NOT NULL, entity TEXT NOT NULL, body TEXT NOT NULL, created REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX webhook_deliveries_by_hook ON webhook_deliveries (hook, attempts, number);
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created);
CREATE TABLE webhook_reported (entity TEXT PRIMARY KEY, event TEXT NOT NULL, ended REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX webhook_reported_by_age ON webhook_reported (ended);
CREATE TABLE webhook_positions (
    epoch INTEGER NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL, PRIMARY KEY (epoch, partition)
) WITHOUT ROWID;
"""


class SqliteWebhooksEngine:
    """Runs the scripts of webhooks on a file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, make: Callable[[], Script[T]]) -> T:
        return await self._database.write(lambda connection: _run(connection, make()))

    async def read(self, make: Callable[[], Script[T]]) -> T:
        return await self._database.read(lambda connection: _run(connection, make()))

    async def look_up(self, make: Callable[[], Script[T]]) -> T:
        # At once: to hand it to a thread would take longer.
        return self._database.read_now(lambda connection: _run(connection, make()))


def _run(connection: sqlite3.Connection, script: Script[T]) -> T:
    try:
        statement, values = next(script)
        while True:
            statement, values = script.send(connection.execute(statement, dict(values)).fetchall())
    except StopIteration as end:
        result: T = end.value
        return result
