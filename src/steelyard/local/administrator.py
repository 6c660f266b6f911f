"""The first administrator's token, and the key that signs URLs of files, as an API server of the platform has them.

`platform.py` calls it. Servers on one accounts database have the same ones, whatever their own folders hold.
"""

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from steelyard.accounts.database import Accounts, AccountsDatabaseError
from steelyard.accounts.signing import Signatures
from steelyard.local.state import StateDir, write_note
from steelyard.settings import Settings
from steelyard_common.errors import UsageError
from steelyard_common.lock import FileLock, LockHeld
from steelyard_schema.ids import random_id

ADMINISTRATOR = "administrator"
CURRENT_SECONDS = 30.0
"""Longest time at a start until the accounts database has answered again."""


async def choose_token(state: StateDir, settings: Settings, accounts: Accounts) -> str:
    """Return the first administrator's token where all servers have the same: the settings' one, or a derived one.

    Empty where it is the folder's own, on one machine. Raises UsageError.
    """
    from steelyard.accounts.given_token import token_fault

    if chosen := settings.api.administrator_token.get_secret_value():
        if fault := token_fault(chosen):
            raise UsageError(f"settings: api.administrator_token: {fault}")
        return chosen
    return "" if _is_own(state, settings) else (await _derive(accounts, b"administrator's token")).hex()


async def administrator_token(state: StateDir, accounts: Accounts, chosen: str = "") -> str:
    """Return the first administrator's token, which is good from now on.

    It is the `chosen` one, else the folder's own while that is valid, which ends no client's at a restart. Raises
    AccountsDatabaseError.
    """
    from steelyard.accounts.tokens import Tokens, Unauthenticated, admit, bootstrap

    now = datetime.now(UTC)
    if chosen:
        await admit(accounts, ADMINISTRATOR, chosen, now)
        return chosen
    async with _alone(state):
        if state.api_token.exists():
            await _wait_until_current(accounts)
            token = state.api_token.read_text().strip()
            try:
                if (await Tokens(accounts).authenticate(token, now)).expires - now > timedelta(days=30):
                    return token
            except Unauthenticated:
                pass  # revoked, or of a database that is gone
        token = await bootstrap(accounts, ADMINISTRATOR, now)
        write_note(state.api_token, token)
        return token


@asynccontextmanager
async def _alone(state: StateDir) -> AsyncIterator[None]:
    """Keep API servers that start at once on one folder from each making a token: the last one would end the others."""
    lock = FileLock(state.lock("administrator"))
    while True:
        try:
            lock.acquire()
            break
        except LockHeld:
            await asyncio.sleep(0.02)
    try:
        yield
    finally:
        lock.release()


async def _wait_until_current(accounts: Accounts) -> None:
    """Wait until the database has answered lately enough to be believed.

    The imports of a start block the event loop, on a busy machine for longer than a database's last answer counts.
    Raises AccountsDatabaseError when it does not answer.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + CURRENT_SECONDS
    while True:
        try:
            accounts.version()
        except AccountsDatabaseError:
            if loop.time() > end:
                raise
            await asyncio.sleep(0.05)
        else:
            return


async def signing_secret(state: StateDir, settings: Settings, accounts: Accounts) -> bytes:
    """Return the key that signs URLs of files: the same in all API servers of one accounts database.

    Where the database is the folder's own, the folder has the key. Elsewhere servers of other machines share the
    database, and the key is derived from its first signing key, which is never removed.
    """
    if _is_own(state, settings):
        return state.signing_secret.read_text().strip().encode()
    return await _derive(accounts, b"URLs of files")


def _is_own(state: StateDir, settings: Settings) -> bool:
    """Return whether the accounts database is the folder's own file."""
    return settings.accounts.startswith(f"sqlite:{state.path.resolve()}/")


async def _derive(accounts: Accounts, purpose: bytes) -> bytes:
    """Return a key for a purpose, which all servers of one accounts database derive alike."""
    pem = await Signatures(accounts, random_id).first_key(datetime.now(UTC))
    return hmac.digest(pem, purpose, "sha256")
