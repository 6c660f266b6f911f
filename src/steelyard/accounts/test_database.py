"""Every accounts database keeps to the contract."""

import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.open import MIGRATIONS, AccountsDatabase, open_accounts_database
from steelyard.accounts.sqlite.accounts import SqliteAccounts
from steelyard.schema.account import Identity
from steelyard.schema.ids import random_id
from steelyard.sqlite import Database
from steelyard.testing.engines import accounts as accounts_suite
from steelyard.testing.engines import claims as claims_suite
from steelyard.testing.engines import outbox as outbox_suite


@pytest.fixture(params=["memory", "sqlite"])
async def accounts_database(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[AccountsDatabase]:
    opened = await open_accounts_database(
        "memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'accounts.db'}"
    )
    yield opened
    await opened.close()


@pytest.mark.parametrize("case", accounts_suite.CASES.values(), ids=accounts_suite.CASES)
async def test_accounts_keep_to_the_contract(
    accounts_database: AccountsDatabase, case: accounts_suite.Case
) -> None:
    await case(accounts_database.accounts)


@pytest.mark.parametrize("case", outbox_suite.CASES.values(), ids=outbox_suite.CASES)
async def test_the_outbox_keeps_to_the_contract(
    accounts_database: AccountsDatabase, case: outbox_suite.Case
) -> None:
    await case(accounts_database.outbox)


@pytest.mark.parametrize("case", claims_suite.CASES.values(), ids=claims_suite.CASES)
async def test_claims_keep_to_the_contract(
    accounts_database: AccountsDatabase, case: claims_suite.Case
) -> None:
    await case(accounts_database.claims)


@pytest.mark.parametrize("url", ["", "sqlite:", "memory:x", "accounts.db"])
async def test_a_url_that_is_no_ledger_is_refused(url: str) -> None:
    with pytest.raises(AccountsDatabaseError, match="should be sqlite:PATH, postgresql://"):
        await open_accounts_database(url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (
            "postgresql://user:secret@127.0.0.1:1/steelyard",
            r"^accounts postgresql://user:\*\*\*@127.0.0.1:1/steelyard: .*refused",
        ),
        (
            "postgresql://user:secret@127.0.0.1:1",
            r"^accounts 'postgresql://user:\*\*\*@127.0.0.1:1': should end with /DATABASE$",
        ),
        ("postgresql://127.0.0.1:port/steelyard", "^accounts 'postgresql:"),
    ],
)
async def test_an_address_without_postgresql_is_one_line_and_shows_no_password(url: str, why: str) -> None:
    with pytest.raises(AccountsDatabaseError, match=why) as error:
        await open_accounts_database(url)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


async def test_the_extra_of_postgresql_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("steelyard.accounts.postgresql.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(
        AccountsDatabaseError, match=r"needs sqlalchemy: pip install 'steelyard\[postgresql\]'"
    ):
        await open_accounts_database("postgresql://db/steelyard")


async def test_a_file_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    first = await Database.open(tmp_path / "accounts.db", MIGRATIONS[:1])
    made = await SqliteAccounts(first, random_id).create("alice", Identity(), datetime.now(UTC))
    await first.close()
    opened = await open_accounts_database(f"sqlite:{tmp_path / 'accounts.db'}")
    assert await opened.accounts.named("alice") == made
    assert await opened.outbox.expired_request("alice", "k") is None
    await opened.close()


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


async def test_nobody_else_reads_the_file(tmp_path: Path) -> None:
    """The file holds the keys that sign tokens."""
    opened = await open_accounts_database(f"sqlite:{tmp_path / 'accounts.db'}")
    await opened.outbox.answered(["x"])
    modes_by_name = modes(tmp_path)
    await opened.close()
    assert set(modes_by_name) >= {"accounts.db", "accounts.db-wal"}
    assert set(modes_by_name.values()) == {0o600}


@pytest.mark.parametrize("json", ["{", "{}", '{"name":5}'])
async def test_an_account_that_cannot_be_read_hides_no_other(
    accounts_database: AccountsDatabase, json: str
) -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    for name in ("one", "two"):
        await accounts_database.accounts.create(name, Identity(), now)
    damage = "UPDATE accounts SET json = ? WHERE name = 'one'"
    assert isinstance(accounts_database.database, Database)
    await accounts_database.database.write(lambda connection: connection.execute(damage, (json,)).rowcount)
    assert [account.name for account in await accounts_database.accounts.list()] == ["two"]
