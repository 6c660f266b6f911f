"""Every accounts database keeps to the contract."""

import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steelyard.accounts.database import AccountsDatabaseError, TooManyKeys
from steelyard.accounts.open import MIGRATIONS, AccountsDatabase, open_accounts_database
from steelyard.sqlite import Database
from steelyard.testing.engines import accounts as accounts_suite
from steelyard.testing.engines import claims as claims_suite
from steelyard.testing.engines import outbox as outbox_suite
from steelyard.testing.engines import secrets as secrets_suite
from steelyard.testing.engines import webhooks as webhooks_suite
from steelyard_schema.account import Account, Identity
from steelyard_schema.ids import random_id


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


@pytest.mark.parametrize("case", secrets_suite.CASES.values(), ids=secrets_suite.CASES)
async def test_secrets_keep_to_the_contract(
    accounts_database: AccountsDatabase, case: secrets_suite.Case
) -> None:
    await case(accounts_database.secrets)


async def test_the_secrets_of_a_deleted_account_go_with_it(accounts_database: AccountsDatabase) -> None:
    await secrets_suite.check_deletion_of_the_account(accounts_database.accounts, accounts_database.secrets)


@pytest.mark.parametrize("case", webhooks_suite.CASES.values(), ids=webhooks_suite.CASES)
async def test_webhooks_keep_to_the_contract(
    accounts_database: AccountsDatabase, case: webhooks_suite.Case
) -> None:
    await case(accounts_database)


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
        (
            "postgresql://user:secret@127.0.0.1:port/steelyard",
            r"^accounts 'postgresql://user:\*\*\*@127.0.0.1:port/steelyard': should be .*; PORT is a number",
        ),
        ("postgres-ql://user:secret@127.0.0.1/steelyard", r"^accounts 'postgres-ql://user:\*\*\*@127.0.0.1/"),
        (
            "postgresql://user@127.0.0.1:1/steelyard?password=secret",
            r"^accounts postgresql://user@127.0.0.1:1/steelyard\?password=\*\*\*: .*refused",
        ),
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
    now = datetime.now(UTC)
    made = Account(id=random_id(), name="alice", creationTime=now, lastTransitionTime=now)
    row = (made.id, made.name, made.model_dump_json(by_alias=True, exclude_none=True, exclude={"labels"}))
    await first.write(
        lambda connection: connection.execute("INSERT INTO accounts VALUES (?, ?, ?)", row).rowcount
    )
    await first.close()
    opened = await open_accounts_database(f"sqlite:{tmp_path / 'accounts.db'}")
    assert await opened.accounts.find_by_name("alice") == made
    labelled = await opened.accounts.set_labels(made.id or "", {"team": "blue"})
    assert labelled == made.model_copy(update={"labels": {"team": "blue"}})
    assert await opened.outbox.find_expired("alice", "k") is None
    assert await opened.secrets.list("alice") == []
    await opened.close()


async def test_session_keys_of_a_file_from_before_count(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'accounts.db'}"
    before = await Database.open(tmp_path / "accounts.db", MIGRATIONS[:8])
    key = accounts_suite.key("old", subject="inferencesessions/s")
    row = (key.id, None, "digest", None, key.expires.timestamp(), key.dump_json())
    insertion = "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?)"
    await before.write(lambda connection: connection.execute(insertion, row).rowcount)
    await before.close()
    opened = await open_accounts_database(url)
    new = accounts_suite.key("new", subject="inferencesessions/s")
    with pytest.raises(TooManyKeys, match="1 tokens"):
        await opened.accounts.add_session_key(new, "digest", most=1)
    await opened.close()


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


async def test_no_other_user_can_read_the_file(tmp_path: Path) -> None:
    """The file holds the keys that sign tokens."""
    opened = await open_accounts_database(f"sqlite:{tmp_path / 'accounts.db'}")
    await opened.outbox.note_answered(["x"])
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


async def test_a_row_of_an_earlier_version_has_no_labels(accounts_database: AccountsDatabase) -> None:
    """Packages of `steelyard export` hold rows as the version that wrote them had them."""
    made = await accounts_database.accounts.create("alice", Identity(), datetime(2026, 1, 31, tzinfo=UTC))
    contents = dict(await accounts_database.transfer.dump())
    assert [row.pop("labels") for row in contents["accounts"]] == ["{}"]
    empty = await open_accounts_database("memory:")
    await empty.transfer.load(contents)
    assert await empty.accounts.find_by_name("alice") == made
    await empty.close()


async def test_labels_move_to_another_database(accounts_database: AccountsDatabase) -> None:
    made = await accounts_database.accounts.create("alice", Identity(), datetime(2026, 1, 31, tzinfo=UTC))
    labelled = await accounts_database.accounts.set_labels(made.id or "", {"team": "blue"})
    other = await open_accounts_database("memory:")
    await other.transfer.load(await accounts_database.transfer.dump())
    assert await other.accounts.find_by_name("alice") == labelled
    await other.close()
