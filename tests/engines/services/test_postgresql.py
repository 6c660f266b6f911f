"""The accounts database on a real PostgreSQL: its contracts, several processes, and a server that is killed."""

import asyncio
import os
import re
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, inspect, make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection

from steelyard.accounts import test_survival
from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.accounts.postgresql import database as postgresql_database
from steelyard.accounts.postgresql.database import PostgresDatabase, parse
from steelyard.accounts.postgresql.schema import migrate, newest
from steelyard.schema.account import Identity
from steelyard.testing.engines import accounts as accounts_suite
from steelyard.testing.engines import claims as claims_suite
from steelyard.testing.engines import outbox as outbox_suite
from steelyard.testing.engines import secrets as secrets_suite
from steelyard.testing.engines import webhooks as webhooks_suite
from tests.engines.services.histories import ACCOUNTS_OPERATIONS, Outcome, accounts_outcomes
from tests.engines.services.postgresql import postgresql
from tests.engines.services.proxy import proxy
from tests.engines.services.service import Service
from tests.engines.services.suite import POSTGRESQL
from tests.integration.test_webhooks import check_killed_sender

NOW = accounts_suite.NOW
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


def beside(url: str, database: str) -> str:
    """Address of another database of the same server."""
    return make_url(url).set(database=database).render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def template() -> Iterator[str]:
    """Name of a database with all tables, which others are copied from."""
    name = f"template_{secrets.token_hex(4)}"
    with psycopg.connect(os.environ[POSTGRESQL], autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        migrate(parse(beside(os.environ[POSTGRESQL], name)))
        yield name
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def url(template: str) -> Iterator[str]:
    """Address of a database with all tables, for one test."""
    with copied(template) as url:
        yield url


@contextmanager
def copied(template: str) -> Iterator[str]:
    """Address of a copy of the template, which is dropped at the end."""
    name = f"test_{secrets.token_hex(4)}"
    with psycopg.connect(os.environ[POSTGRESQL], autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        yield beside(os.environ[POSTGRESQL], name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
async def database(url: str) -> AsyncIterator[AccountsDatabase]:
    opened = await open_accounts_database(url)
    yield opened
    await opened.close()


async def test_rights_that_are_missing_are_named(url: str) -> None:
    role, password = f"role_{secrets.token_hex(4)}", secrets.token_hex(8)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'".encode())
        try:
            grants = (
                "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public",
                "USAGE ON ALL SEQUENCES IN SCHEMA public",
            )
            for grant in grants:
                connection.execute(f"GRANT {grant} TO {role}".encode())
            own = make_url(url).set(username=role, password=password).render_as_string(hide_password=False)
            assert "reads and writes all tables" in await facts_of(own)
            connection.execute(f"REVOKE DELETE ON outbox FROM {role}".encode())
            with pytest.raises(AccountsDatabaseError, match=r"lacks the rights DELETE on the table outbox$"):
                await facts_of(own)
        finally:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


async def facts_of(url: str) -> tuple[str, ...]:
    database = await open_accounts_database(url)
    try:
        return await database.database.facts()
    finally:
        await database.close()


@pytest.fixture
def service() -> Iterator[Service]:
    """A server of the test's own, which it may kill, with all tables."""
    with postgresql() as service:
        migrate(parse(service.address))
        yield service


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


async def test_the_migration_of_secrets_keeps_all_else_up_and_down(
    database: AccountsDatabase, url: str
) -> None:
    made = await database.accounts.create("alice", Identity(), NOW)
    await database.secrets.put(secrets_suite.secret(), 1)
    await database.close()
    assert migrate(parse(url), "0004") == (newest(), "0004")
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regclass('secrets')").fetchone() == (None,)
        assert connection.execute("SELECT id FROM accounts").fetchall() == [(made.id,)]
    assert migrate(parse(url)) == ("0004", newest())
    again = await open_accounts_database(url)
    assert await again.accounts.named("alice") == made
    assert await again.secrets.list("acme") == []
    await again.secrets.put(secrets_suite.secret(), 1)
    await again.close()


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


@pytest.mark.parametrize("case", webhooks_suite.CASES.values(), ids=webhooks_suite.CASES)
async def test_webhooks_keep_to_the_contract(database: AccountsDatabase, case: webhooks_suite.Case) -> None:
    await case(database)


@pytest.mark.parametrize("sent", [1, 3], ids=["before any answer", "amid the answers"])
async def test_no_event_is_lost_when_a_sender_is_killed(url: str, tmp_path: Path, sent: int) -> None:
    await check_killed_sender(tmp_path, url, sent)


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


async def test_what_was_confirmed_is_there_after_a_client_was_killed(
    database: AccountsDatabase, url: str
) -> None:
    await test_survival.test_what_was_confirmed_is_there_after_kill_9(database, url)


async def test_processes_that_start_at_once_agree(database: AccountsDatabase, url: str) -> None:
    await test_survival.test_processes_that_start_at_once_agree(database, url)


async def test_what_was_confirmed_is_there_after_the_server_was_killed(service: Service) -> None:
    database = await open_accounts_database(service.address)
    confirmed: list[str] = []

    async def write() -> None:
        for number in range(100_000):
            await database.outbox.add(outbox_suite.row(f"c{number}", request=f"r{number}"))
            confirmed.append(f"c{number}")

    writing = asyncio.create_task(write())
    while len(confirmed) < 200:  # noqa: ASYNC110 - the other task fills it
        await asyncio.sleep(0.01)
    await asyncio.to_thread(service.kill)
    with pytest.raises(
        AccountsDatabaseError, match=r"^accounts postgresql://postgres@127\.0\.0\.1:\d+/steelyard: "
    ):
        await writing
    await asyncio.to_thread(service.start)
    # The connections of the pool have ended with the server: the next transaction gets a new one.
    rows = await database.outbox.pending()
    assert [row.command for row in rows][: len(confirmed)] == confirmed
    assert len(rows) <= len(confirmed) + 1, "the one in flight may have been committed"
    await database.close()


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


async def test_without_the_server_no_token_is_believed_for_long(service: Service) -> None:
    """A key may have been revoked meanwhile."""
    database = await open_accounts_database(service.address)
    await asyncio.to_thread(service.kill)
    async with asyncio.timeout(60):
        while (message := refusal(database)) is None:  # noqa: ASYNC110 - time has to pass
            await asyncio.sleep(0.1)
    assert re.search(r": no answer for \d+ s: ", message)
    await asyncio.to_thread(service.start)
    async with asyncio.timeout(60):
        while refusal(database) is not None:  # noqa: ASYNC110 - the server comes back
            await asyncio.sleep(0.1)
    await database.close()


def refusal(database: AccountsDatabase) -> str | None:
    """Return why the version of the accounts is not known, None where it is."""
    try:
        database.accounts.version()
    except AccountsDatabaseError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", ["nobody\0", "\0"])
async def test_nothing_is_stored_under_a_name_with_nul(database: AccountsDatabase, name: str) -> None:
    assert await database.accounts.get(name) is None
    assert await database.accounts.named(name) is None
    assert await database.accounts.key(name) is None
    assert await database.claims.get(name) is None
    assert await database.claims.known([name]) == {}
    assert await database.outbox.pending(entity=name) == []


async def test_a_database_without_tables_is_refused_with_the_way_on(url: str) -> None:
    empty = beside(url, "postgres")
    with pytest.raises(
        AccountsDatabaseError, match=r"no tables of Steelyard yet; `steelyard config init` makes them"
    ):
        await open_accounts_database(empty)
    with pytest.raises(AccountsDatabaseError, match=r'database "missing" does not exist$'):
        await open_accounts_database(beside(url, "missing"))


async def test_migrations_go_up_and_down_with_data(database: AccountsDatabase, url: str) -> None:
    made = await database.accounts.create("alice", Identity(), NOW)
    await database.close()
    migrate(parse(url), newest())
    again = await open_accounts_database(url)
    assert await again.accounts.named("alice") == made
    await again.close()
    migrate(parse(url), "base")
    engine = create_engine(parse(url))
    assert inspect(engine).get_table_names() == ["alembic_version"]
    engine.dispose()
    migrate(parse(url))
    empty = await open_accounts_database(url)
    assert await empty.accounts.list() == []
    await empty.close()


async def test_the_step_without_labels_keeps_the_accounts(database: AccountsDatabase, url: str) -> None:
    """An earlier version refuses an account whose JSON has a field that it does not know."""
    made = await database.accounts.create("alice", Identity(), NOW)
    await database.accounts.set_labels(made.id or "", {"team": "blue"})
    await database.close()
    migrate(parse(url), "0003")
    with psycopg.connect(url) as connection:
        ((json,),) = connection.execute("SELECT json FROM accounts").fetchall()
    assert "labels" not in json
    migrate(parse(url))
    again = await open_accounts_database(url)
    assert await again.accounts.named("alice") == made
    assert (await again.accounts.set_labels(made.id or "", {"team": "red"})).labels == {"team": "red"}
    await again.close()


async def test_many_processes_may_migrate_at_once(url: str) -> None:
    migrate(parse(url), "base")
    await asyncio.gather(*(asyncio.to_thread(migrate, parse(url)) for _ in range(4)))
    await (await open_accounts_database(url)).close()


async def test_a_server_that_does_not_keep_what_it_confirms_is_refused(service: Service) -> None:
    with psycopg.connect(service.address, autocommit=True) as connection:
        connection.execute("ALTER DATABASE steelyard SET synchronous_commit = off")
    with pytest.raises(
        AccountsDatabaseError, match="synchronous_commit is off: confirmed writes could be lost"
    ):
        await open_accounts_database(service.address)


async def test_admissions_of_an_old_leader_wait_for_the_new_one_and_are_refused(
    database: AccountsDatabase, url: str
) -> None:
    """A leader that is replaced in the middle of an admission: either it was first, or it admits nothing."""
    claims = database.claims
    first = await claims.lead("one", NOW)
    await claims.apply([("e", claims_suite.claim("e"))], 1, {0: 1}, first)
    other = await open_accounts_database(url)
    outcomes = await asyncio.gather(
        claims.admit("e", NOW, claims_suite.anybody, first),
        other.claims.lead("two", NOW + timedelta(seconds=1)),
        return_exceptions=True,
    )
    assert outcomes[1] == first + 1
    admitted = (await claims_suite.current(claims, "e")).admitted_at
    assert (admitted is None) == isinstance(outcomes[0], Exception)
    await other.close()


async def test_a_server_that_is_silent_is_not_waited_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to a server that is cut off end with an error, whatever they wait for, and leave no lock behind."""
    monkeypatch.setattr(postgresql_database, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(postgresql_database, "BLIND_SECONDS", 1.0)
    address = make_url(url)
    assert address.host
    assert address.port
    with proxy(address.port, host=address.host) as way:
        opened = await PostgresDatabase.open(parse(url).set(host="127.0.0.1", port=way.port))
        locked = asyncio.Event()

        async def raise_the_version(connection: AsyncConnection) -> None:
            await connection.execute(text("UPDATE version SET number = number + 1"))
            locked.set()
            way.cut()
            await connection.execute(text("UPDATE version SET number = number + 1"))

        async def ask(connection: AsyncConnection) -> int:
            return int((await connection.execute(text("SELECT number FROM version"))).scalar_one())

        before = await opened.read(ask)
        with pytest.raises(AccountsDatabaseError):
            await opened.write(raise_the_version, 5.0)
        assert locked.is_set()
        with pytest.raises(AccountsDatabaseError):
            await opened.write(ask, 1.0)
        # The server ends by itself what it hears nothing of: another client need not wait until the network is whole.
        beside_it = await PostgresDatabase.open(parse(url))
        await beside_it.write(
            lambda connection: connection.execute(text("UPDATE version SET number = number + 1"))
        )
        way.heal()
        assert await opened.read(ask) == before + 1
        await opened.close()
        await beside_it.close()
