"""Every accounts database keeps to the contract."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steelyard.accounts.database import LedgerError
from steelyard.accounts.open import MIGRATIONS, Ledger, open_ledger
from steelyard.accounts.sqlite.accounts import SqliteAccounts
from steelyard.schema.account import Identity
from steelyard.schema.ids import random_id
from steelyard.sqlite import Database
from steelyard.testing.engines import accounts as accounts_suite
from steelyard.testing.engines import claims as claims_suite
from steelyard.testing.engines import outbox as outbox_suite


@pytest.fixture(params=["memory", "sqlite"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ledger]:
    opened = await open_ledger("memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'ledger.db'}")
    yield opened
    await opened.close()


@pytest.mark.parametrize("case", accounts_suite.CASES.values(), ids=accounts_suite.CASES)
async def test_accounts_keep_to_the_contract(ledger: Ledger, case: accounts_suite.Case) -> None:
    await case(ledger.accounts)


@pytest.mark.parametrize("case", outbox_suite.CASES.values(), ids=outbox_suite.CASES)
async def test_the_outbox_keeps_to_the_contract(ledger: Ledger, case: outbox_suite.Case) -> None:
    await case(ledger.outbox)


@pytest.mark.parametrize("case", claims_suite.CASES.values(), ids=claims_suite.CASES)
async def test_claims_keep_to_the_contract(ledger: Ledger, case: claims_suite.Case) -> None:
    await case(ledger.claims)


@pytest.mark.parametrize("url", ["", "sqlite:", "memory:x", "ledger.db"])
async def test_a_url_that_is_no_ledger_is_refused(url: str) -> None:
    with pytest.raises(LedgerError, match="should be sqlite:PATH or memory:"):
        await open_ledger(url)


async def test_postgresql_is_said_to_come() -> None:
    with pytest.raises(LedgerError, match="not implemented yet; use sqlite:PATH"):
        await open_ledger("postgresql://db/steelyard")


async def test_a_file_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    first = await Database.open(tmp_path / "ledger.db", MIGRATIONS[:1])
    made = await SqliteAccounts(first, random_id).create("alice", Identity(), datetime.now(UTC))
    await first.close()
    opened = await open_ledger(f"sqlite:{tmp_path / 'ledger.db'}")
    assert await opened.accounts.named("alice") == made
    assert await opened.outbox.expired_request("alice", "k") is None
    await opened.close()


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


async def test_nobody_else_reads_the_file(tmp_path: Path) -> None:
    """The file holds the keys that sign tokens."""
    opened = await open_ledger(f"sqlite:{tmp_path / 'ledger.db'}")
    await opened.outbox.answered(["x"])
    modes_by_name = modes(tmp_path)
    await opened.close()
    assert set(modes_by_name) >= {"ledger.db", "ledger.db-wal"}
    assert set(modes_by_name.values()) == {0o600}


@pytest.mark.parametrize("json", ["{", "{}", '{"name":5}'])
async def test_an_account_that_cannot_be_read_hides_no_other(ledger: Ledger, json: str) -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    for name in ("one", "two"):
        await ledger.accounts.create(name, Identity(), now)
    damage = "UPDATE accounts SET json = ? WHERE name = 'one'"
    await ledger.database.write(lambda connection: connection.execute(damage, (json,)).rowcount)
    assert [account.name for account in await ledger.accounts.list()] == ["two"]
