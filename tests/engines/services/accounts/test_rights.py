"""Conditions that a PostgreSQL server has to meet for the accounts: rights, tables, and commits that are kept."""

import secrets

import psycopg
import pytest
from sqlalchemy import make_url

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.open import open_accounts_database
from tests.engines.services.accounts.conftest import beside
from tests.engines.services.service import Service


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


async def test_a_database_without_tables_is_refused_with_the_way_on(url: str) -> None:
    empty = beside(url, "postgres")
    with pytest.raises(
        AccountsDatabaseError, match=r"no tables of Steelyard yet; `steelyard config init` makes them"
    ):
        await open_accounts_database(empty)
    with pytest.raises(AccountsDatabaseError, match=r'database "missing" does not exist$'):
        await open_accounts_database(beside(url, "missing"))


async def test_a_server_that_does_not_keep_what_it_confirms_is_refused(service: Service) -> None:
    with psycopg.connect(service.address, autocommit=True) as connection:
        connection.execute("ALTER DATABASE steelyard SET synchronous_commit = off")
    with pytest.raises(
        AccountsDatabaseError, match="synchronous_commit is off: confirmed writes could be lost"
    ):
        await open_accounts_database(service.address)
