"""Encrypted secrets in PostgreSQL."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from steelyard.accounts.changes import check_not_deleted
from steelyard.accounts.database import EncryptedSecret, TooManySecrets
from steelyard.accounts.postgresql.database import PostgresDatabase

_COLUMNS = "account, name, key, encrypted, fingerprint, created, updated"
_COUNTING = 0x57EE3
"""Key of the advisory lock under which secrets are added: two at once must not both be the last that fits."""


class PostgresSecrets:
    """The EncryptedSecrets protocol."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def put(self, secret: EncryptedSecret, most: int) -> EncryptedSecret:
        async def write(connection: AsyncConnection) -> EncryptedSecret:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _COUNTING})
            # Locked, so that the account is not deleted, with its secrets, before this one is there.
            query = text("SELECT json FROM accounts WHERE name = :account OR id = :account FOR SHARE")
            for (kept,) in await connection.execute(query, {"account": secret.account}):
                check_not_deleted(kept)
            query = text("SELECT count(*) FILTER (WHERE name <> :name) FROM secrets WHERE account = :account")
            owner = {"account": secret.account, "name": secret.name}
            others = (await connection.execute(query, owner)).scalar_one()
            if others >= most:
                raise TooManySecrets(f"account {secret.account} has {most} secrets, and may have no more")
            query = text(
                f"INSERT INTO secrets ({_COLUMNS})"
                " VALUES (:account, :name, :key, :encrypted, :fingerprint, :created, :updated)"
                " ON CONFLICT (account, name) DO UPDATE SET key = excluded.key, encrypted = excluded.encrypted,"
                " fingerprint = excluded.fingerprint, updated = excluded.updated"
                f" RETURNING {_COLUMNS}"
            )
            values = {column: getattr(secret, column) for column in _COLUMNS.split(", ")}
            return _row((await connection.execute(query, values)).one())

        return await self._database.write(write)

    async def get(self, account: str, name: str) -> EncryptedSecret | None:
        rows = await self._read("account = :account AND name = :name", {"account": account, "name": name})
        return rows[0] if rows else None

    async def list(self, account: str) -> Sequence[EncryptedSecret]:
        return await self._read("account = :account ORDER BY name", {"account": account})

    async def delete(self, account: str, name: str) -> bool:
        query = text("DELETE FROM secrets WHERE account = :account AND name = :name")
        return await self._changed(query, {"account": account, "name": name})

    async def list_other_keys(
        self, key: str, after: tuple[str, str], limit: int
    ) -> Sequence[EncryptedSecret]:
        where = "key <> :key AND (account, name) > (:account, :name) ORDER BY account, name LIMIT :limit"
        values = {"key": key, "account": after[0], "name": after[1], "limit": limit}
        return await self._read(where, values)

    async def reencrypt(self, old: EncryptedSecret, key: str, encrypted: bytes, fingerprint: str) -> bool:
        query = text(
            "UPDATE secrets SET key = :key, encrypted = :encrypted, fingerprint = :fingerprint"
            " WHERE account = :account AND name = :name AND encrypted = :old"
        )
        values = {"account": old.account, "name": old.name, "old": old.encrypted}
        return await self._changed(
            query, {**values, "key": key, "encrypted": encrypted, "fingerprint": fingerprint}
        )

    async def _read(self, where: str, values: Mapping[str, Any]) -> Sequence[EncryptedSecret]:
        # No text of PostgreSQL has a NUL, so nothing is stored under such a name; asked for it, the driver raises.
        if any("\0" in value for value in values.values() if isinstance(value, str)):
            return []

        async def read(connection: AsyncConnection) -> Sequence[EncryptedSecret]:
            query = text(f"SELECT {_COLUMNS} FROM secrets WHERE {where}")
            return [_row(row) for row in await connection.execute(query, values)]

        return await self._database.read(read)

    async def _changed(self, query: Any, values: Mapping[str, object]) -> bool:
        if any("\0" in value for value in values.values() if isinstance(value, str)):
            return False

        async def write(connection: AsyncConnection) -> bool:
            return (await connection.execute(query, values)).rowcount > 0

        return await self._database.write(write)


def _row(row: Any) -> EncryptedSecret:
    account, name, key, encrypted, fingerprint, created, updated = row
    return EncryptedSecret(account, name, key, bytes(encrypted), fingerprint, created, updated)
