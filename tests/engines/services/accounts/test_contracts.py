"""The contracts of the accounts on a real PostgreSQL: it answers as SQLite does."""

import asyncio
from itertools import count

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.testing.engines import accounts as accounts_suite
from steelyard.testing.engines import claims as claims_suite
from steelyard.testing.engines import outbox as outbox_suite
from steelyard.testing.engines import secrets as secrets_suite
from steelyard.testing.engines import webhooks as webhooks_suite
from tests.engines.services.histories import ACCOUNTS_OPERATIONS, Outcome, accounts_outcomes

EMPTIED = (
    "accounts",
    "keys",
    "account_requests",
    "outbox",
    "outbox_keys",
    "outbox_servers",
    "claims",
    "claim_positions",
    "leader",
    "past_admissions",
    "secrets",
    "webhooks",
    "webhook_deliveries",
    "webhook_reported",
    "webhook_positions",
)


@pytest.mark.parametrize("case", accounts_suite.CASES.values(), ids=accounts_suite.CASES)
async def test_accounts_keep_to_the_contract(database: AccountsDatabase, case: accounts_suite.Case) -> None:
    await case(database.accounts)


@pytest.mark.parametrize("case", outbox_suite.CASES.values(), ids=outbox_suite.CASES)
async def test_the_outbox_keeps_to_the_contract(database: AccountsDatabase, case: outbox_suite.Case) -> None:
    await case(database.outbox)


@pytest.mark.parametrize("case", secrets_suite.CASES.values(), ids=secrets_suite.CASES)
async def test_secrets_keep_to_the_contract(database: AccountsDatabase, case: secrets_suite.Case) -> None:
    await case(database.secrets)


async def test_the_secrets_of_a_deleted_account_go_with_it(database: AccountsDatabase) -> None:
    await secrets_suite.check_deletion_of_the_account(database.accounts, database.secrets)


@pytest.mark.parametrize("case", webhooks_suite.CASES.values(), ids=webhooks_suite.CASES)
async def test_webhooks_keep_to_the_contract(database: AccountsDatabase, case: webhooks_suite.Case) -> None:
    await case(database)


@pytest.mark.parametrize("case", claims_suite.CASES.values(), ids=claims_suite.CASES)
async def test_claims_keep_to_the_contract(database: AccountsDatabase, case: claims_suite.Case) -> None:
    await case(database.claims)


def emptied(url: str) -> str:
    """The address, once nothing is left in the database: to copy one for each history takes a second."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("; ".join(f"DELETE FROM {table}" for table in EMPTIED).encode())
    return url


@pytest.mark.parametrize("part", ACCOUNTS_OPERATIONS)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_it_answers_as_sqlite_does(url: str, part: str, data: st.DataObject) -> None:
    operations = data.draw(ACCOUNTS_OPERATIONS[part])

    async def outcomes(url: str) -> list[Outcome]:
        ids = map(str, count())
        opened = await open_accounts_database(url, lambda: next(ids))
        try:
            return await accounts_outcomes(opened.accounts, opened.outbox, opened.claims, operations)
        finally:
            await opened.close()

    assert asyncio.run(outcomes(emptied(url))) == asyncio.run(outcomes("memory:"))


@pytest.mark.parametrize("name", ["nobody\0", "\0"])
async def test_nothing_is_stored_under_a_name_with_nul(database: AccountsDatabase, name: str) -> None:
    assert await database.accounts.get(name) is None
    assert await database.accounts.find_by_name(name) is None
    assert await database.accounts.key(name) is None
    assert await database.claims.get(name) is None
    assert await database.claims.find_claims([name]) == {}
    assert await database.outbox.pending(entity=name) == []
