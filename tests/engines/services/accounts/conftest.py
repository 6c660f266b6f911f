"""Databases of the accounts on a real PostgreSQL: one for each test, and servers that a test may kill."""

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy import make_url

from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.accounts.postgresql.database import parse
from steelyard.accounts.postgresql.schema import migrate
from tests.engines.services.postgresql import postgresql
from tests.engines.services.service import Service
from tests.engines.services.suite import POSTGRESQL


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


@pytest.fixture
def service() -> Iterator[Service]:
    """A server of the test's own, which it may kill, with all tables."""
    with postgresql() as service:
        migrate(parse(service.address))
        yield service
