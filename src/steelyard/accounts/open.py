"""The accounts database that an address names."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from steelyard.accounts.database import Accounts, AccountsDatabaseError, Claims, Outbox
from steelyard.accounts.sqlite import accounts as sqlite_accounts
from steelyard.accounts.sqlite import claims as sqlite_claims
from steelyard.accounts.sqlite import origin as sqlite_origin
from steelyard.accounts.sqlite import outbox as sqlite_outbox
from steelyard.accounts.sqlite.accounts import SqliteAccounts
from steelyard.accounts.sqlite.claims import SqliteClaims
from steelyard.accounts.sqlite.origin import SqliteOrigin
from steelyard.accounts.sqlite.outbox import SqliteOutbox
from steelyard.origin import Outlet
from steelyard.schema.ids import random_id
from steelyard.sqlite import Database

MIGRATIONS = (
    sqlite_accounts.MIGRATION + sqlite_outbox.MIGRATION + sqlite_claims.MIGRATION,
    sqlite_accounts.SECOND_MIGRATION + sqlite_outbox.SECOND_MIGRATION + sqlite_claims.SECOND_MIGRATION,
    sqlite_origin.MIGRATION,
)


class Closing(Protocol):
    """A database's connections."""

    async def close(self) -> None: ...


@dataclass(frozen=True)
class AccountsDatabase:
    """The accounts database: accounts and keys, the outbox, claims, and the log that they belong to."""

    accounts: Accounts
    outbox: Outbox
    claims: Claims
    origin: Outlet
    database: Closing

    async def close(self) -> None:
        await self.database.close()


async def open_accounts_database(url: str, new_id: Callable[[], str] = random_id) -> AccountsDatabase:
    """Open the database at `sqlite:PATH`, `postgresql://USER@HOST/DATABASE` or `memory:`.

    Raises AccountsDatabaseError, which says what is wrong with the address, and DatabaseError.
    """
    scheme, _, rest = url.partition(":")
    if scheme in {"postgresql", "postgres"}:
        return await _open_postgresql(url, new_id)
    if scheme not in {"sqlite", "memory"} or bool(rest) != (scheme == "sqlite"):
        raise AccountsDatabaseError(
            f"accounts {url!r}: should be sqlite:PATH, postgresql://USER@HOST/DATABASE or memory:"
        )
    path = _private(Path(rest)) if rest else ":memory:"
    database = await Database.open(path, MIGRATIONS)
    return AccountsDatabase(
        SqliteAccounts(database, new_id),
        SqliteOutbox(database),
        SqliteClaims(database),
        SqliteOrigin(database),
        database,
    )


async def _open_postgresql(url: str, new_id: Callable[[], str]) -> AccountsDatabase:
    # Imported by need: one machine has SQLite, and the driver is an extra.
    try:
        from steelyard.accounts.postgresql.accounts import PostgresAccounts
        from steelyard.accounts.postgresql.claims import PostgresClaims
        from steelyard.accounts.postgresql.database import PostgresDatabase, parse
        from steelyard.accounts.postgresql.origin import PostgresOrigin
        from steelyard.accounts.postgresql.outbox import PostgresOutbox
    except ImportError as error:
        raise AccountsDatabaseError(
            f"accounts: PostgreSQL needs {error.name}: pip install 'steelyard[postgresql]'"
        ) from error
    database = await PostgresDatabase.open(parse(url))
    return AccountsDatabase(
        PostgresAccounts(database, new_id),
        PostgresOutbox(database),
        PostgresClaims(database),
        PostgresOrigin(database),
        database,
    )


def _private(path: Path) -> Path:
    """Create the file for its owner alone before anything is in it: it will hold the keys that sign tokens."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise AccountsDatabaseError(f"accounts {path}: {error.strerror}") from error
    return path
