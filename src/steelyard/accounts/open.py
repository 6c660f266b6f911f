"""The accounts database that an address names."""

from dataclasses import dataclass

from steelyard.accounts import sqlite_accounts, sqlite_claims, sqlite_outbox
from steelyard.accounts.ledger import Accounts, Claims, LedgerError, Outbox
from steelyard.accounts.sqlite_accounts import SqliteAccounts
from steelyard.accounts.sqlite_claims import SqliteClaims
from steelyard.accounts.sqlite_outbox import SqliteOutbox
from steelyard.sqlite import Database

MIGRATIONS = (sqlite_accounts.MIGRATION + sqlite_outbox.MIGRATION + sqlite_claims.MIGRATION,)


@dataclass(frozen=True)
class Ledger:
    """The three parts of one database."""

    accounts: Accounts
    outbox: Outbox
    claims: Claims
    database: Database

    async def close(self) -> None:
        await self.database.close()


async def open_ledger(url: str) -> Ledger:
    """`sqlite:PATH` or `memory:`. Raises LedgerError, which says what is wrong with the address."""
    scheme, _, rest = url.partition(":")
    if scheme in {"postgresql", "postgres"}:
        raise LedgerError(f"accounts {url!r}: PostgreSQL is not implemented yet; use sqlite:PATH")
    if scheme not in {"sqlite", "memory"} or (scheme == "sqlite" and not rest):
        raise LedgerError(f"accounts {url!r}: should be sqlite:PATH or memory:")
    database = await Database.open(rest if scheme == "sqlite" else ":memory:", MIGRATIONS)
    return Ledger(SqliteAccounts(database), SqliteOutbox(database), SqliteClaims(database), database)
