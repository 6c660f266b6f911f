"""Migrations of the accounts on a real PostgreSQL, up and down, with data."""

import asyncio

import psycopg
import pytest
from sqlalchemy import create_engine, inspect

from steelyard.accounts.database import TooManyKeys
from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.accounts.postgresql.database import parse
from steelyard.accounts.postgresql.schema import migrate, newest
from steelyard.testing.engines import accounts as accounts_suite
from steelyard.testing.engines import secrets as secrets_suite
from steelyard_schema.account import Identity

NOW = accounts_suite.NOW


async def test_session_keys_from_before_the_migration_count(database: AccountsDatabase, url: str) -> None:
    await database.accounts.add_session_key(
        accounts_suite.key("old", subject="inferencesessions/s"), "digest"
    )
    await database.close()
    assert migrate(parse(url), "0006") == (newest(), "0006")
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE keys SET purpose = NULL")
    assert migrate(parse(url)) == ("0006", newest())
    again = await open_accounts_database(url)
    new = accounts_suite.key("new", subject="inferencesessions/s")
    with pytest.raises(TooManyKeys, match="1 tokens"):
        await again.accounts.add_session_key(new, "digest", most=1)
    await again.close()


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
    assert await again.accounts.find_by_name("alice") == made
    assert await again.secrets.list("acme") == []
    await again.secrets.put(secrets_suite.secret(), 1)
    await again.close()


async def test_migrations_go_up_and_down_with_data(database: AccountsDatabase, url: str) -> None:
    made = await database.accounts.create("alice", Identity(), NOW)
    await database.close()
    migrate(parse(url), newest())
    again = await open_accounts_database(url)
    assert await again.accounts.find_by_name("alice") == made
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
    assert await again.accounts.find_by_name("alice") == made
    assert (await again.accounts.set_labels(made.id or "", {"team": "red"})).labels == {"team": "red"}
    await again.close()


async def test_many_processes_may_migrate_at_once(url: str) -> None:
    migrate(parse(url), "base")
    await asyncio.gather(*(asyncio.to_thread(migrate, parse(url)) for _ in range(4)))
    await (await open_accounts_database(url)).close()
