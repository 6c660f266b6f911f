"""The accounts on a real PostgreSQL when a server or a client is killed, or a server is silent."""

import asyncio
import re
from pathlib import Path

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection

from steelyard.accounts import test_survival
from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.accounts.postgresql import database as postgresql_database
from steelyard.accounts.postgresql.database import PostgresDatabase, parse
from steelyard.testing.engines import outbox as outbox_suite
from tests.engines.services.proxy import proxy
from tests.engines.services.service import Service
from tests.integration.test_webhooks import check_killed_sender


@pytest.mark.parametrize("sent", [1, 3], ids=["before any answer", "amid the answers"])
async def test_no_event_is_lost_when_a_sender_is_killed(url: str, tmp_path: Path, sent: int) -> None:
    await check_killed_sender(tmp_path, url, sent)


async def test_what_was_confirmed_is_there_after_a_client_was_killed(
    database: AccountsDatabase, url: str
) -> None:
    await test_survival.test_what_was_confirmed_is_there_after_kill_9(database, url)


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
