"""Accounts and keys in PostgreSQL. A key's token is known by its digest alone."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from pydantic import ValidationError
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from steelyard.accounts.changes import (
    ENDED_KEPT,
    check_number_of_keys,
    check_number_of_session_keys,
    from_row,
    permit,
    relabel,
    to_row,
    transit,
)
from steelyard.accounts.database import CreationRequest, KeyTaken, NameTaken, NoSuchAccount
from steelyard.accounts.postgresql.database import PostgresDatabase, T, Work
from steelyard_schema.account import AccessGrant, Account, APIKey, Identity

_log = logging.getLogger(__name__)
_CREATION = 0x57EE2
"""Key of the advisory lock under which accounts and first signing keys are made, one after the other."""
_SESSION = 0x57EE4
"""First key of the advisory locks under which a session's keys are made, one after the other."""


class PostgresAccounts:
    """The Accounts protocol."""

    def __init__(self, database: PostgresDatabase, new_id: Callable[[], str]) -> None:
        self._database = database
        self._new_id = new_id

    async def create(
        self,
        name: str,
        identity: Identity,
        now: datetime,
        permissions: Sequence[AccessGrant] = (),
        request: CreationRequest | None = None,
    ) -> Account:
        account = Account(
            id=self._new_id(), name=name, identity=identity, creationTime=now, lastTransitionTime=now
        )
        if permissions:
            permit(account, permissions, self._new_id())

        async def insert(connection: AsyncConnection) -> Account:
            await _lock_creation(connection)
            # A repeated request is recognised before the name is checked: the name is taken by its own first attempt.
            if request is not None and (earlier := await _find_by_request(connection, request)) is not None:
                return earlier
            query = text("SELECT 1 FROM accounts WHERE name = :name")
            if (await connection.execute(query, {"name": name})).first() is not None:
                raise NameTaken(f"name: {name!r} is taken by another account")
            json, labels = to_row(account)
            await connection.execute(
                text("INSERT INTO accounts (id, name, json, labels) VALUES (:id, :name, :json, :labels)"),
                {"id": account.id, "name": name, "json": json, "labels": labels},
            )
            if request is not None:
                await connection.execute(
                    text("INSERT INTO account_requests VALUES (:requester, :key, :digest, :account)"),
                    {
                        "requester": request.requester,
                        "key": request.key,
                        "digest": request.digest,
                        "account": account.id,
                    },
                )
            return account

        return await self._change(insert)

    async def get(self, id: str) -> Account | None:
        return await self._database.read(lambda connection: _account(connection, "id", id))

    async def find_by_name(self, name: str) -> Account | None:
        return await self._database.read(lambda connection: _account(connection, "name", name))

    async def list(self) -> Sequence[Account]:
        async def read(connection: AsyncConnection) -> list[Account]:
            rows = await connection.execute(text("SELECT id, json, labels FROM accounts ORDER BY name"))
            keys: dict[str, list[str]] = {}
            query = text("SELECT account, json FROM keys WHERE account IS NOT NULL ORDER BY id")
            for account, json in await connection.execute(query):
                keys.setdefault(account, []).append(json)
            accounts = (_readable(id, json, labels, keys.get(id, [])) for id, json, labels in rows)
            return [account for account in accounts if account is not None]

        return await self._database.read(read)

    async def set_permissions(self, id: str, permissions: Sequence[AccessGrant]) -> Account:
        version = self._new_id()
        return await self._update(id, lambda account: permit(account, permissions, version))

    async def set_status(self, id: str, status: str, reason: str, now: datetime) -> Account:
        return await self._update(id, lambda account: transit(account, status, reason, now))

    async def set_labels(self, id: str, patch: Mapping[str, str | None]) -> Account:
        return await self._update(id, lambda account: relabel(account, patch))

    async def delete(self, id: str, now: datetime) -> None:
        async def remove(connection: AsyncConnection) -> None:
            # The account's row stays, so that its name is never given to another account and its entities keep an
            # owner.
            account = await _update(
                connection, id, lambda account: transit(account, "Deleted", "DeleteCommand", now)
            )
            await connection.execute(text("DELETE FROM keys WHERE account = :id"), {"id": id})
            # Entities name their account by its name or its id.
            query = text("DELETE FROM secrets WHERE account IN (:name, :id)")
            await connection.execute(query, {"name": account.name, "id": id})
            waiting = (
                "DELETE FROM webhook_deliveries WHERE hook IN (SELECT id FROM webhooks WHERE account = :id)"
            )
            for statement in (waiting, "DELETE FROM webhooks WHERE account = :id"):
                await connection.execute(text(statement), {"id": id})

        await self._change(remove)

    async def add_key(
        self,
        account: str,
        key: APIKey,
        digest: str,
        purpose: str | None = None,
        *,
        most: int | None = None,
    ) -> None:
        async def insert(connection: AsyncConnection) -> None:
            # Locked, so that no key is added while the account is deleted, nor two of one purpose.
            query = text("SELECT 1 FROM accounts WHERE id = :id FOR UPDATE")
            if (await connection.execute(query, {"id": account})).first() is None:
                raise NoSuchAccount(f"id: there is no account {account}")
            if purpose is not None:
                query = text("DELETE FROM keys WHERE account = :account AND purpose = :purpose")
                await connection.execute(query, {"account": account, "purpose": purpose})
            query = text("SELECT count(*) FROM keys WHERE account = :account AND expires > :now")
            count = (await connection.execute(query, {"account": account, "now": key.created})).scalar_one()
            check_number_of_keys(count, most)
            await _insert_key(connection, account, key, digest, purpose)

        await self._change(insert)

    async def add_session_key(self, key: APIKey, digest: str, *, most: int | None = None) -> None:
        async def insert(connection: AsyncConnection) -> None:
            # A session has no row here that could be locked, so that of two keys at once one sees the other.
            query = text("SELECT pg_advisory_xact_lock(:lock, hashtext(:subject))")
            await connection.execute(query, {"lock": _SESSION, "subject": key.subject})
            query = text(
                "SELECT count(*) FROM keys WHERE account IS NULL AND purpose = :subject AND expires > :now"
            )
            values = {"subject": key.subject, "now": key.created}
            check_number_of_session_keys((await connection.execute(query, values)).scalar_one(), most)
            await _insert_key(connection, None, key, digest, purpose=key.subject)

        await self._change(insert)

    async def key(self, id: str) -> tuple[APIKey, str, Account | None] | None:
        async def read(connection: AsyncConnection) -> tuple[APIKey, str, Account | None] | None:
            query = text("SELECT account, digest, json FROM keys WHERE id = :id")
            row = (await connection.execute(query, {"id": id})).first()
            if row is None:
                return None
            account = await _account(connection, "id", row[0]) if row[0] else None
            return APIKey.model_validate_json(row[2]), row[1], account

        return None if "\0" in id else await self._database.read(read)

    async def revoke(self, account: str, id: str | None = None) -> int:
        async def remove(connection: AsyncConnection) -> int:
            one, values = (" AND id = :id", {"id": id}) if id else ("", {})
            query = text(f"DELETE FROM keys WHERE account = :account{one}")
            return (await connection.execute(query, {"account": account, **values})).rowcount

        return await self._change(remove)

    async def signing_keys(self) -> Mapping[str, tuple[bytes, bool]]:
        async def read(connection: AsyncConnection) -> dict[str, tuple[bytes, bool]]:
            rows = (await connection.execute(text("SELECT kid, pem FROM signing_keys ORDER BY number"))).all()
            return {kid: (bytes(pem), kid == rows[-1][0]) for kid, pem in rows}

        return await self._database.read(read)

    async def add_signing_key(self, kid: str, pem: bytes, now: datetime, *, first: bool = False) -> None:
        async def insert(connection: AsyncConnection) -> None:
            await _lock_creation(connection)
            # Processes that start at once each want to make the first key; the others then read that of the first.
            if first and (await connection.execute(text("SELECT 1 FROM signing_keys"))).first() is not None:
                return
            query = text("INSERT INTO signing_keys (kid, pem, made) VALUES (:kid, :pem, :made)")
            await connection.execute(query, {"kid": kid, "pem": pem, "made": now})

        await self._change(insert)

    def version(self) -> int:
        return self._database.version()

    async def _update(self, id: str, change: Callable[[Account], None]) -> Account:
        return await self._change(lambda connection: _update(connection, id, change))

    async def _change(self, work: Work[T]) -> T:
        """Run `work` and raise the version, in one transaction: the row's lock makes versions grow as commits do."""

        async def count_rows(connection: AsyncConnection) -> tuple[T, int]:
            result = await work(connection)
            query = text("UPDATE version SET number = number + 1 RETURNING number")
            return result, (await connection.execute(query)).scalar_one()

        result, version = await self._database.write(count_rows)
        self._database.note_version(version)
        return result


async def _lock_creation(connection: AsyncConnection) -> None:
    await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CREATION})


def _readable(id: str, json: str, labels: str, keys: Sequence[str]) -> Account | None:
    """Return the account; None, with a line in the log, for one that cannot be read: it must not hide all others."""
    try:
        return _parse(json, labels, keys)
    except ValidationError as error:
        _log.error("account %s cannot be read, and is left out: %s", id, error)
        return None


def _parse(json: str, labels: str, keys: Sequence[str]) -> Account:
    account = from_row(json, labels)
    account.apiKeys = [APIKey.model_validate_json(key) for key in keys]
    return account


async def _account(
    connection: AsyncConnection, column: str, value: str, *, lock: bool = False
) -> Account | None:
    # No text of PostgreSQL has a NUL, so nothing is stored under such a name; asked for it, the driver raises.
    if "\0" in value:
        return None
    query = f"SELECT id, json, labels FROM accounts WHERE {column} = :value{' FOR UPDATE' if lock else ''}"
    row = (await connection.execute(text(query), {"value": value})).first()
    if row is None:
        return None
    keys = await connection.execute(
        text("SELECT json FROM keys WHERE account = :id ORDER BY id"), {"id": row[0]}
    )
    return _parse(row[1], row[2], [key for (key,) in keys])


async def _find_by_request(connection: AsyncConnection, request: CreationRequest) -> Account | None:
    """The account that an earlier request of this key has made."""
    query = text("SELECT request, account FROM account_requests WHERE requester = :requester AND key = :key")
    row = (await connection.execute(query, {"requester": request.requester, "key": request.key})).first()
    if row is None:
        return None
    # The same key with another body is a mistake of the client's; the earlier account would be the wrong answer.
    if row[0] != request.digest:
        raise KeyTaken(f"key {request.key!r} was given with another request")
    return await _account(connection, "id", row[1])


async def _update(connection: AsyncConnection, id: str, change: Callable[[Account], None]) -> Account:
    account = await _account(connection, "id", id, lock=True)
    if account is None:
        raise NoSuchAccount(f"id: there is no account {id}")
    change(account)
    json, labels = to_row(account)
    query = text("UPDATE accounts SET json = :json, labels = :labels WHERE id = :id")
    await connection.execute(query, {"json": json, "labels": labels, "id": id})
    return account


async def _insert_key(
    connection: AsyncConnection, account: str | None, key: APIKey, digest: str, purpose: str | None = None
) -> None:
    # Nothing else ever removes expired keys, so each new key makes room.
    query = text("DELETE FROM keys WHERE expires < :forgotten")
    await connection.execute(query, {"forgotten": key.created - ENDED_KEPT})
    query = text("INSERT INTO keys VALUES (:id, :account, :digest, :purpose, :expires, :json)")
    values = {"id": key.id, "account": account, "digest": digest, "purpose": purpose}
    await connection.execute(query, {**values, "expires": key.expires, "json": key.dump_json()})
