"""The accounts database that an address names."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from steelyard.accounts.claims import Claims
from steelyard.accounts.database import Accounts, AccountsDatabaseError, EncryptedSecrets
from steelyard.accounts.outbox import Outbox
from steelyard.accounts.sqlite import accounts as sqlite_accounts
from steelyard.accounts.sqlite import claims as sqlite_claims
from steelyard.accounts.sqlite import origin as sqlite_origin
from steelyard.accounts.sqlite import outbox as sqlite_outbox
from steelyard.accounts.sqlite import secrets as sqlite_secrets
from steelyard.accounts.sqlite import webhooks as sqlite_webhooks
from steelyard.accounts.sqlite.accounts import SqliteAccounts
from steelyard.accounts.sqlite.claims import SqliteClaims
from steelyard.accounts.sqlite.origin import SqliteOrigin
from steelyard.accounts.sqlite.outbox import SqliteOutbox
from steelyard.accounts.sqlite.secrets import SqliteSecrets
from steelyard.accounts.sqlite.transfer import SqliteTransfer
from steelyard.accounts.sqlite.webhooks import SqliteWebhooksEngine
from steelyard.accounts.transfer import Transfer
from steelyard.accounts.webhooks.webhooks import Webhooks
from steelyard.engines.addresses import without_password
from steelyard.engines.origin import Outlet
from steelyard.sqlite import Database
from steelyard_schema.ids import random_id

MIGRATIONS = (
    sqlite_accounts.MIGRATION + sqlite_outbox.MIGRATION + sqlite_claims.MIGRATION,
    sqlite_accounts.SECOND_MIGRATION + sqlite_outbox.SECOND_MIGRATION + sqlite_claims.SECOND_MIGRATION,
    sqlite_origin.MIGRATION,
    sqlite_outbox.THIRD_MIGRATION,
    sqlite_claims.THIRD_MIGRATION,
    sqlite_accounts.THIRD_MIGRATION,
    sqlite_secrets.MIGRATION,
    sqlite_webhooks.MIGRATION,
    sqlite_accounts.FOURTH_MIGRATION,
)


class Connections(Protocol):
    """A database's connections."""

    async def facts(self) -> tuple[str, ...]:
        """Return what an administrator may want to know of the server or the file."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class AccountsDatabase:
    """The accounts database: accounts, keys, the outbox, claims, secrets, webhooks, and the log they belong to."""

    accounts: Accounts
    outbox: Outbox
    claims: Claims
    secrets: EncryptedSecrets
    webhooks: Webhooks
    origin: Outlet
    transfer: Transfer
    database: Connections

    async def close(self) -> None:
        await self.database.close()


async def open_accounts_database(url: str, new_id: Callable[[], str] = random_id) -> AccountsDatabase:
    """Open the database at `sqlite:PATH`, `postgresql://USER@HOST/DATABASE` or `memory:`.

    Raises AccountsDatabaseError, which says what is wrong with the address, and DatabaseError.
    """
    scheme, _, rest = url.partition(":")
    if is_postgresql(url):
        return await _open_postgresql(url, new_id)
    if scheme not in {"sqlite", "memory"} or bool(rest) != (scheme == "sqlite"):
        raise AccountsDatabaseError(
            f"accounts {without_password(url)!r}: should be sqlite:PATH, postgresql://USER@HOST/DATABASE or memory:"
        )
    path = _private(Path(rest)) if rest else ":memory:"
    database = await Database.open(path, MIGRATIONS)
    return AccountsDatabase(
        SqliteAccounts(database, new_id),
        SqliteOutbox(database),
        SqliteClaims(database),
        SqliteSecrets(database),
        Webhooks(SqliteWebhooksEngine(database)),
        SqliteOrigin(database),
        SqliteTransfer(database),
        database,
    )


async def prepare_accounts_database(url: str) -> tuple[str | None, str] | None:
    """Make the tables of a PostgreSQL, or migrate those of an earlier version.

    Return the revisions before and after; the first is None if there were no tables. None for a file, which is made
    and migrated as it is opened. Raises AccountsDatabaseError.
    """
    if not is_postgresql(url):
        return None
    with _extra():
        from steelyard.accounts.postgresql.database import parse, prepare
    return await asyncio.to_thread(prepare, parse(url))


def is_postgresql(url: str) -> bool:
    """Return whether an address names a PostgreSQL."""
    return url.partition(":")[0] in {"postgresql", "postgres"}


async def _open_postgresql(url: str, new_id: Callable[[], str]) -> AccountsDatabase:
    with _extra():
        from steelyard.accounts.postgresql.accounts import PostgresAccounts
        from steelyard.accounts.postgresql.claims import PostgresClaims
        from steelyard.accounts.postgresql.database import PostgresDatabase, parse
        from steelyard.accounts.postgresql.origin import PostgresOrigin
        from steelyard.accounts.postgresql.outbox import PostgresOutbox
        from steelyard.accounts.postgresql.secrets import PostgresSecrets
        from steelyard.accounts.postgresql.transfer import PostgresTransfer
        from steelyard.accounts.postgresql.webhooks import PostgresWebhooksEngine
    database = await PostgresDatabase.open(parse(url))
    return AccountsDatabase(
        PostgresAccounts(database, new_id),
        PostgresOutbox(database),
        PostgresClaims(database),
        PostgresSecrets(database),
        Webhooks(PostgresWebhooksEngine(database)),
        PostgresOrigin(database),
        PostgresTransfer(database),
        database,
    )


@contextmanager
def _extra() -> Iterator[None]:
    """Say how to install the driver where it is missing: one machine has SQLite, so the driver is an extra."""
    try:
        yield
    except ImportError as error:
        raise AccountsDatabaseError(
            f"accounts: PostgreSQL needs {error.name}: pip install 'steelyard[postgresql]'"
        ) from error


def _private(path: Path) -> Path:
    """Create the file for its owner alone before anything is in it: it will hold the keys that sign tokens."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise AccountsDatabaseError(f"accounts {path}: {error.strerror}") from error
    return path
