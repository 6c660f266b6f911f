"""Tests of the first administrator's token: one for the installation, whatever processes start."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from pydantic import SecretStr

from steelyard.accounts.database import Accounts, AccountsDatabaseError
from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.tokens import Tokens, Unauthenticated
from steelyard.local.administrator import administrator_token, choose_token, signing_secret
from steelyard.local.state import StateDir
from steelyard.settings import Settings, load
from steelyard_common.errors import UsageError

GIVEN = "a-token-that-somebody-has-chosen-0123456789"


class SlowAccounts:
    """Accounts whose database has not answered lately the first times that it is asked."""

    def __init__(self, accounts: Accounts, times: int) -> None:
        self._accounts, self._left = accounts, times

    def __getattr__(self, name: str) -> object:
        return getattr(self._accounts, name)

    def version(self) -> int:
        self._left -= 1
        if self._left >= 0:
            raise AccountsDatabaseError("no answer for 7 s")
        return self._accounts.version()


async def test_a_start_waits_until_the_accounts_database_has_answered_again(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    state.api_token.parent.mkdir(parents=True)
    database = await open_accounts_database("memory:")
    token = await administrator_token(state, database.accounts)
    unanswered = cast(Accounts, SlowAccounts(database.accounts, 3))
    assert await administrator_token(state, unanswered) == token
    await database.close()


async def test_servers_that_start_at_once_on_one_folder_have_one_token(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.pki.mkdir()
    settings = load(None, tmp_path)
    database = await open_accounts_database(settings.accounts)
    servers = (administrator_token(state, database.accounts) for _ in range(5))
    (token,) = set(await asyncio.gather(*servers))
    assert await may_enter(database.accounts, token, "")
    assert state.api_token.read_text() == token
    await database.close()


@pytest.fixture
async def accounts() -> AsyncIterator[Accounts]:
    database = await open_accounts_database("memory:")
    yield database.accounts
    await database.close()


def settings_of_a_server(folder: Path, token: str = "") -> Settings:
    loaded = load(None, folder)
    api = loaded.api.model_copy(update={"administrator_token": SecretStr(token)})
    return loaded.model_copy(update={"accounts": "postgresql://s@db/p", "api": api})


async def start(state: StateDir, settings: Settings, accounts: Accounts) -> str:
    """Do what the start of an API server does, and return the administrator's token."""
    return await administrator_token(state, accounts, await choose_token(state, settings, accounts))


async def may_enter(accounts: Accounts, token: str, given: str) -> bool:
    try:
        principal = await Tokens(accounts, given=given).authenticate(token, datetime.now(UTC))
    except Unauthenticated:
        return False
    return principal.allows("accounts", "create", "anybody", "x")


@pytest.mark.parametrize("given", [GIVEN, ""], ids=["given", "derived"])
async def test_servers_with_folders_of_their_own_have_one_token_and_one_signing_secret(
    accounts: Accounts, tmp_path: Path, given: str
) -> None:
    tokens, secrets = set(), set()
    for name in ("one", "two", "one"):
        state = StateDir(tmp_path / name)  # not made: a Pod has none
        settings = settings_of_a_server(state.path, given)
        token = await start(state, settings, accounts)
        tokens.add(token)
        secrets.add(await signing_secret(state, settings, accounts))
        assert not state.path.exists()
        for known in tokens:
            assert await may_enter(accounts, known, token)
    assert len(tokens) == len(secrets) == 1
    assert given in tokens or not given
    assert len((await accounts.list())[0].apiKeys) == 1


async def test_another_given_token_takes_the_place_of_the_one_before(
    accounts: Accounts, tmp_path: Path
) -> None:
    state, other = StateDir(tmp_path), GIVEN[::-1]
    derived = await start(state, settings_of_a_server(tmp_path), accounts)
    for token in (GIVEN, other):
        await start(state, settings_of_a_server(tmp_path, token), accounts)
    for refused in (derived, GIVEN):
        assert not await may_enter(accounts, refused, refused)
    assert await may_enter(accounts, other, other)
    assert not await may_enter(accounts, other, ""), "a process that does not know the token believes none"


@pytest.mark.parametrize("token", ["short", GIVEN + " ", GIVEN + "\n", GIVEN + "é"])
async def test_a_given_token_that_is_easy_to_guess_or_to_miss_is_refused_and_not_repeated(
    accounts: Accounts, tmp_path: Path, token: str
) -> None:
    with pytest.raises(UsageError, match=r"api\.administrator_token: should") as refused:
        await start(StateDir(tmp_path), settings_of_a_server(tmp_path, token), accounts)
    assert token.strip() not in str(refused.value)
