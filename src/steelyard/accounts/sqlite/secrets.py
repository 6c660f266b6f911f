"""Encrypted secrets in SQLite."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from steelyard.accounts.changes import check_not_deleted
from steelyard.accounts.database import EncryptedSecret, TooManySecrets
from steelyard.sqlite import Database

MIGRATION = """
CREATE TABLE secrets (
    account TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL, encrypted BLOB NOT NULL, fingerprint TEXT NOT NULL,
    created TEXT NOT NULL, updated TEXT NOT NULL, PRIMARY KEY (account, name)
) WITHOUT ROWID;
"""
_COLUMNS = "account, name, key, encrypted, fingerprint, created, updated"


class SqliteSecrets:
    """The EncryptedSecrets protocol."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, secret: EncryptedSecret, most: int) -> EncryptedSecret:
        def write(connection: sqlite3.Connection) -> EncryptedSecret:
            # Inside the transaction: the account may be deleted, with its secrets, while this request is under way.
            query = "SELECT json FROM accounts WHERE name = ? OR id = ?"
            for (kept,) in connection.execute(query, (secret.account, secret.account)).fetchall():
                check_not_deleted(kept)
            earlier = _get(connection, secret.account, secret.name)
            query = "SELECT count(*) FROM secrets WHERE account = ?"
            # Counted inside the transaction: of many requests at once, no more get in than there may be.
            if earlier is None and connection.execute(query, (secret.account,)).fetchone()[0] >= most:
                raise TooManySecrets(f"account {secret.account} has {most} secrets, and may have no more")
            row = replace(secret, created=earlier.created if earlier else secret.created)
            connection.execute(
                f"INSERT OR REPLACE INTO secrets ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", _values(row)
            )
            return row

        return await self._database.write(write)

    async def get(self, account: str, name: str) -> EncryptedSecret | None:
        return await self._database.read(lambda connection: _get(connection, account, name))

    async def list(self, account: str) -> Sequence[EncryptedSecret]:
        query = f"SELECT {_COLUMNS} FROM secrets WHERE account = ? ORDER BY name"
        return await self._database.read(
            lambda connection: [_row(row) for row in connection.execute(query, (account,))]
        )

    async def delete(self, account: str, name: str) -> bool:
        query = "DELETE FROM secrets WHERE account = ? AND name = ?"
        return await self._database.write(
            lambda connection: connection.execute(query, (account, name)).rowcount > 0
        )

    async def list_other_keys(
        self, key: str, after: tuple[str, str], limit: int
    ) -> Sequence[EncryptedSecret]:
        query = (
            f"SELECT {_COLUMNS} FROM secrets WHERE key <> ? AND (account, name) > (?, ?)"
            " ORDER BY account, name LIMIT ?"
        )
        return await self._database.read(
            lambda connection: [_row(row) for row in connection.execute(query, (key, *after, limit))]
        )

    async def reencrypt(self, old: EncryptedSecret, key: str, encrypted: bytes, fingerprint: str) -> bool:
        query = (
            "UPDATE secrets SET key = ?, encrypted = ?, fingerprint = ?"
            " WHERE account = ? AND name = ? AND encrypted = ?"
        )
        values = (key, encrypted, fingerprint, old.account, old.name, old.encrypted)
        return await self._database.write(lambda connection: connection.execute(query, values).rowcount > 0)


def _get(connection: sqlite3.Connection, account: str, name: str) -> EncryptedSecret | None:
    query = f"SELECT {_COLUMNS} FROM secrets WHERE account = ? AND name = ?"
    row = connection.execute(query, (account, name)).fetchone()
    return None if row is None else _row(row)


def _row(row: Any) -> EncryptedSecret:
    account, name, key, encrypted, fingerprint, created, updated = row
    times = datetime.fromisoformat(created), datetime.fromisoformat(updated)
    return EncryptedSecret(account, name, key, encrypted, fingerprint, *times)


def _values(secret: EncryptedSecret) -> tuple[object, ...]:
    return (
        secret.account,
        secret.name,
        secret.key,
        secret.encrypted,
        secret.fingerprint,
        secret.created.isoformat(),
        secret.updated.isoformat(),
    )
