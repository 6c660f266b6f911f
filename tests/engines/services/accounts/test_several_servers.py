"""Several requests, servers and processes that use the accounts on one PostgreSQL at the same time."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.pool import AsyncAdaptedQueuePool

from steelyard.accounts import test_survival
from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.accounts.postgresql import database as postgresql_database
from steelyard.accounts.postgresql.database import PostgresDatabase
from steelyard.testing.engines import accounts as accounts_suite
from steelyard.testing.engines import claims as claims_suite
from steelyard.testing.engines import outbox as outbox_suite
from steelyard_schema.account import Identity

NOW = accounts_suite.NOW


async def test_two_servers_that_accept_for_the_same_accounts_never_end_each_other(
    database: AccountsDatabase, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks of accounts are taken in one order, in whichever the requests come."""
    monkeypatch.setattr(postgresql_database, "TRIES", 1)  # a deadlock would be an error
    other = await open_accounts_database(url)
    accounts = [f"account {number}" for number in range(20)]

    async def accept(server: AccountsDatabase, name: str, order: Sequence[str]) -> None:
        for turn in range(10):
            rows = [
                outbox_suite.row(f"{name} {turn} {account}", key=str(turn), account=account)
                for account in order
            ]
            await asyncio.gather(*map(server.outbox.add, rows))

    try:
        await asyncio.gather(accept(database, "a", accounts), accept(other, "b", accounts[::-1]))
        assert len(await database.outbox.pending()) == 200, "of equal keys one is kept"
    finally:
        await other.close()


async def test_processes_that_start_at_once_agree(database: AccountsDatabase, url: str) -> None:
    await test_survival.test_processes_that_start_at_once_agree(database, url)


async def test_a_change_of_another_process_is_seen_within_seconds(
    database: AccountsDatabase, url: str
) -> None:
    other = await open_accounts_database(url)
    before = database.accounts.version()
    await other.accounts.create("alice", Identity(), NOW)
    async with asyncio.timeout(120):
        while database.accounts.version() == before:  # noqa: ASYNC110 - another connection writes it
            await asyncio.sleep(0.05)
    await other.close()


async def test_one_that_is_closed_in_the_middle_of_a_poll_leaves_no_connection_open(
    database: AccountsDatabase, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_database, "VERSION_SECONDS", 0.0)  # it always polls
    parsed = postgresql_database.parse(url)
    for moment in range(40):
        other = await PostgresDatabase.open(parsed)
        pool = other._engine.pool
        await asyncio.sleep(moment / 4000)
        await other.close()
        assert isinstance(pool, AsyncAdaptedQueuePool)
        assert pool.checkedout() == 0


async def test_admissions_of_an_old_leader_wait_for_the_new_one_and_are_refused(
    database: AccountsDatabase, url: str
) -> None:
    """A leader that is replaced in the middle of an admission: either it was first, or it admits nothing."""
    claims = database.claims
    first = await claims.lead("one", NOW)
    await claims.apply([("e", claims_suite.claim("e"))], 1, {0: 1}, first)
    other = await open_accounts_database(url)
    outcomes = await asyncio.gather(
        claims_suite.admit(claims, "e", NOW, claims_suite.anybody, first),
        other.claims.lead("two", NOW + timedelta(seconds=1)),
        return_exceptions=True,
    )
    assert outcomes[1] == first + 1
    admitted = (await claims_suite.current(claims, "e")).admitted_at
    assert (admitted is None) == isinstance(outcomes[0], Exception)
    await other.close()


async def test_requests_that_come_at_once_share_their_commits(
    database: AccountsDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests of an account would else wait for the commits of all before them, one after the other."""
    transactions = 0
    run = PostgresDatabase.write

    async def counted(*arguments: Any) -> object:
        nonlocal transactions
        transactions += 1
        return await run(*arguments)

    monkeypatch.setattr(PostgresDatabase, "write", counted)
    rows = [outbox_suite.row(f"c{number}") for number in range(250)]
    assert list(await asyncio.gather(*map(database.outbox.add, rows))) == rows
    assert transactions == 3
    assert len(await database.outbox.pending()) == 250
