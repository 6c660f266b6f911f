"""Accounts and keys in SQLite. A key's token is known by its digest alone."""

import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from pydantic import ValidationError

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
from steelyard.sqlite import Database
from steelyard_schema.account import AccessGrant, Account, APIKey, Identity

_log = logging.getLogger(__name__)
MIGRATION = """
CREATE TABLE accounts (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, json TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE keys (
    id TEXT PRIMARY KEY, account TEXT, digest TEXT NOT NULL, purpose TEXT, expires REAL NOT NULL, json TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX keys_by_account ON keys (account);
CREATE INDEX keys_by_end ON keys (expires);
CREATE TABLE signing_keys (number INTEGER PRIMARY KEY, kid TEXT NOT NULL UNIQUE, pem BLOB NOT NULL, made TEXT NOT NULL);
CREATE TABLE version (number INTEGER NOT NULL);
INSERT INTO version VALUES (0);
"""
SECOND_MIGRATION = """
CREATE TABLE account_requests (
    requester TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL, account TEXT NOT NULL,
    PRIMARY KEY (requester, key)
) WITHOUT ROWID;
"""
THIRD_MIGRATION = "ALTER TABLE accounts ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';"
# The purpose of a session's key is its session.
FOURTH_MIGRATION = """
UPDATE keys SET purpose = json_extract(json, '$.subject') WHERE account IS NULL;
CREATE INDEX keys_by_session ON keys (purpose) WHERE account IS NULL;
"""
_TOUCH = "UPDATE version SET number = number + 1"


class SqliteAccounts:
    """The Accounts protocol."""

    def __init__(self, database: Database, new_id: Callable[[], str]) -> None:
        self._database = database
        self._new_id = new_id
        self._seen = (-1, -1)

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

        def insert(connection: sqlite3.Connection) -> Account:
            # A repeated request is recognised before the name is checked: the name is taken by its own first attempt.
            if request is not None and (earlier := _find_by_request(connection, request)) is not None:
                return earlier
            # Checked inside the transaction: of two requests at once, one gets the name and the other an error it can
            # show.
            if connection.execute("SELECT 1 FROM accounts WHERE name = ?", (name,)).fetchone():
                raise NameTaken(f"name: {name!r} is taken by another account")
            row = (account.id, name, *to_row(account))
            connection.execute("INSERT INTO accounts (id, name, json, labels) VALUES (?, ?, ?, ?)", row)
            if request is not None:
                values = (request.requester, request.key, request.digest, account.id)
                connection.execute("INSERT INTO account_requests VALUES (?, ?, ?, ?)", values)
            connection.execute(_TOUCH)
            return account

        return await self._database.write(insert)

    async def get(self, id: str) -> Account | None:
        return self._database.read_now(lambda connection: _account(connection, "id", id))

    async def find_by_name(self, name: str) -> Account | None:
        return self._database.read_now(lambda connection: _account(connection, "name", name))

    async def list(self) -> Sequence[Account]:
        def read(connection: sqlite3.Connection) -> list[Account]:
            ids = [row[0] for row in connection.execute("SELECT id FROM accounts ORDER BY name")]
            return [account for id in ids if (account := _readable(connection, id)) is not None]

        return await self._database.read(read)

    async def set_permissions(self, id: str, permissions: Sequence[AccessGrant]) -> Account:
        version = self._new_id()
        return await self._change(id, lambda account: permit(account, permissions, version))

    async def set_status(self, id: str, status: str, reason: str, now: datetime) -> Account:
        return await self._change(id, lambda account: transit(account, status, reason, now))

    async def set_labels(self, id: str, patch: Mapping[str, str | None]) -> Account:
        return await self._change(id, lambda account: relabel(account, patch))

    async def delete(self, id: str, now: datetime) -> None:
        def remove(connection: sqlite3.Connection) -> None:
            # The account's row stays, so that its name is never given to another account and its entities keep an
            # owner.
            account = _update(
                connection, id, lambda account: transit(account, "Deleted", "DeleteCommand", now)
            )
            connection.execute("DELETE FROM keys WHERE account = ?", (id,))
            # Entities name their account by its name or its id.
            connection.execute("DELETE FROM secrets WHERE account IN (?, ?)", (account.name, id))
            waiting = (
                "DELETE FROM webhook_deliveries WHERE hook IN (SELECT id FROM webhooks WHERE account = ?)"
            )
            for query in (waiting, "DELETE FROM webhooks WHERE account = ?"):
                connection.execute(query, (id,))

        await self._database.write(remove)

    async def _change(self, id: str, change: Callable[[Account], None]) -> Account:
        return await self._database.write(lambda connection: _update(connection, id, change))

    async def add_key(
        self,
        account: str,
        key: APIKey,
        digest: str,
        purpose: str | None = None,
        *,
        most: int | None = None,
    ) -> None:
        def insert(connection: sqlite3.Connection) -> None:
            if connection.execute("SELECT 1 FROM accounts WHERE id = ?", (account,)).fetchone() is None:
                raise NoSuchAccount(f"id: there is no account {account}")
            if purpose is not None:
                # The old key goes in the transaction that adds the new one: there are never two of a purpose, nor none.
                connection.execute("DELETE FROM keys WHERE account = ? AND purpose = ?", (account, purpose))
            query = "SELECT count(*) FROM keys WHERE account = ? AND expires > ?"
            (count,) = connection.execute(query, (account, key.created.timestamp())).fetchone()
            check_number_of_keys(count, most)
            _insert_key(connection, account, key, digest, purpose)

        await self._database.write(insert)

    async def add_session_key(self, key: APIKey, digest: str, *, most: int | None = None) -> None:
        def insert(connection: sqlite3.Connection) -> None:
            query = "SELECT count(*) FROM keys WHERE account IS NULL AND purpose = ? AND expires > ?"
            (count,) = connection.execute(query, (key.subject, key.created.timestamp())).fetchone()
            check_number_of_session_keys(count, most)
            _insert_key(connection, None, key, digest, purpose=key.subject)

        await self._database.write(insert)

    async def key(self, id: str) -> tuple[APIKey, str, Account | None] | None:
        def read(connection: sqlite3.Connection) -> tuple[APIKey, str, Account | None] | None:
            row = connection.execute("SELECT account, digest, json FROM keys WHERE id = ?", (id,)).fetchone()
            if row is None:
                return None
            account = _account(connection, "id", row[0]) if row[0] else None
            return APIKey.model_validate_json(row[2]), row[1], account

        return self._database.read_now(read)

    async def revoke(self, account: str, id: str | None = None) -> int:
        def remove(connection: sqlite3.Connection) -> int:
            one, which = (" AND id = ?", (account, id)) if id else ("", (account,))
            gone = connection.execute(f"DELETE FROM keys WHERE account = ?{one}", which).rowcount
            connection.execute(_TOUCH)
            return gone

        return await self._database.write(remove)

    async def signing_keys(self) -> Mapping[str, tuple[bytes, bool]]:
        def read(connection: sqlite3.Connection) -> dict[str, tuple[bytes, bool]]:
            rows = connection.execute("SELECT kid, pem FROM signing_keys ORDER BY number").fetchall()
            return {kid: (pem, kid == rows[-1][0]) for kid, pem in rows}

        return self._database.read_now(read)

    async def add_signing_key(self, kid: str, pem: bytes, now: datetime, *, first: bool = False) -> None:
        def insert(connection: sqlite3.Connection) -> None:
            # Processes that start at once each want to make the first key; the others then read that of the first.
            if first and connection.execute("SELECT 1 FROM signing_keys").fetchone():
                return
            row = (kid, pem, now.isoformat())
            connection.execute("INSERT INTO signing_keys (kid, pem, made) VALUES (?, ?, ?)", row)
            connection.execute(_TOUCH)

        await self._database.write(insert)

    def version(self) -> int:
        # SQLite's own counter of commits is cheap, and tells whether the table has to be read again.
        commits = self._database.version()
        if commits != self._seen[0]:
            number = self._database.read_now(
                lambda connection: int(connection.execute("SELECT number FROM version").fetchone()[0])
            )
            self._seen = (commits, number)
        return self._seen[1]


def _readable(connection: sqlite3.Connection, id: str) -> Account | None:
    """Return the account; None, with a line in the log, for one that cannot be read: it must not hide all others."""
    try:
        return _account(connection, "id", id)
    except ValidationError as error:
        _log.error("account %s cannot be read, and is left out: %s", id, error)
        return None


def _account(connection: sqlite3.Connection, column: str, value: str) -> Account | None:
    row = connection.execute(f"SELECT id, json, labels FROM accounts WHERE {column} = ?", (value,)).fetchone()
    if row is None:
        return None
    keys = connection.execute("SELECT json FROM keys WHERE account = ? ORDER BY id", (row[0],)).fetchall()
    account = from_row(row[1], row[2])
    account.apiKeys = [APIKey.model_validate_json(key[0]) for key in keys]
    return account


def _find_by_request(connection: sqlite3.Connection, request: CreationRequest) -> Account | None:
    """The account that an earlier request of this key has made."""
    query = "SELECT request, account FROM account_requests WHERE requester = ? AND key = ?"
    row = connection.execute(query, (request.requester, request.key)).fetchone()
    if row is None:
        return None
    # The same key with another body is a mistake of the client's; the earlier account would be the wrong answer.
    if row[0] != request.digest:
        raise KeyTaken(f"key {request.key!r} was given with another request")
    return _account(connection, "id", row[1])


def _update(connection: sqlite3.Connection, id: str, change: Callable[[Account], None]) -> Account:
    account = _account(connection, "id", id)
    if account is None:
        raise NoSuchAccount(f"id: there is no account {id}")
    change(account)
    connection.execute("UPDATE accounts SET json = ?, labels = ? WHERE id = ?", (*to_row(account), id))
    connection.execute(_TOUCH)
    return account


def _insert_key(
    connection: sqlite3.Connection, account: str | None, key: APIKey, digest: str, purpose: str | None = None
) -> None:
    # Nothing else ever removes expired keys, so each new key makes room.
    forgotten = (key.created - ENDED_KEPT).timestamp()
    connection.execute("DELETE FROM keys WHERE expires < ?", (forgotten,))
    row = (key.id, account, digest, purpose, key.expires.timestamp(), key.dump_json())
    connection.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.execute(_TOUCH)
