"""The engines that the settings name, tried one by one, and made ready: `steelyard config` calls these.

A platform that runs on them meanwhile notices nothing: a trial writes one object, and removes it.
"""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.open import open_accounts_database, prepare_accounts_database
from steelyard.addresses import without_password
from steelyard.broker.log import LogError
from steelyard.broker.open import open_log, prepare_log
from steelyard.settings import Settings
from steelyard.sqlite import DatabaseError
from steelyard.storage.store import BadLocation, ObjectMissing, StorageError, open_store, probe
from steelyard.views.open import open_view
from steelyard.views.view import ViewError

_PROBE = ".steelyard/probe"
NOT_MADE = "is not there yet; the first start makes it"


@dataclass(frozen=True)
class Check:
    """Result of the trial of one engine. `fault` says why it cannot be used, and is empty where it can."""

    engine: str
    address: str
    facts: tuple[str, ...] = ()
    fault: str = ""


async def check_engines(settings: Settings) -> AsyncIterator[Check]:
    """Try each engine of the settings, one after the other."""
    trials: dict[str, Callable[[str], Awaitable[tuple[str, ...]]]] = {
        "log": _try_log,
        "view": _try_view,
        "accounts": _try_accounts,
        "storage": _try_storage,
        "backup": _try_storage,
    }
    for engine, trial in trials.items():
        address = getattr(settings, engine)
        try:
            facts = (NOT_MADE,) if not_made_yet(address) else await trial(address)
            yield Check(engine, without_password(address), facts)
        except (
            AccountsDatabaseError,
            BadLocation,
            DatabaseError,
            LogError,
            StorageError,
            ViewError,
        ) as error:
            yield Check(engine, without_password(address), fault=str(error))


async def prepare_engines(settings: Settings) -> AsyncIterator[Check]:
    """Make the topics and tables of each server that needs some, or migrate those of an earlier version.

    Raises AccountsDatabaseError, LogError.
    """
    made = await prepare_log(settings.log)
    if made is not None:
        yield Check(
            "log", without_password(settings.log), ("topics: made" if made else "topics: up to date",)
        )
    prepared = await prepare_accounts_database(settings.accounts)
    if prepared is not None:
        before, after = prepared
        change = "made" if before is None else "up to date" if before == after else f"migrated from {before}"
        yield Check("accounts", without_password(settings.accounts), (f"schema {after}: {change}",))


def not_made_yet(address: str) -> bool:
    """Tell whether an address names a file or a folder that is not there: a look must not make it."""
    scheme, _, path = address.partition(":")
    return scheme in ("sqlite", "file") and not Path(unquote(path.removeprefix("//"))).exists()


async def _try_log(address: str) -> tuple[str, ...]:
    log = await open_log(address)
    try:
        return (f"log {log.id[:8]}", f"epoch {log.epoch}", f"{log.partitions} partitions", *await log.facts())
    finally:
        await log.close()


async def _try_view(address: str) -> tuple[str, ...]:
    view = await open_view(address)
    try:
        origin = await view.origin()
    finally:
        await view.close()
    kind = "transactions, indexes" if address.startswith("mongodb") else "can be opened"
    return (kind, f"epoch {origin.epoch}" if origin else "no log yet")


async def _try_accounts(address: str) -> tuple[str, ...]:
    opened = await open_accounts_database(address)
    try:
        return await opened.database.facts()
    finally:
        await opened.close()


async def _try_storage(address: str) -> tuple[str, ...]:
    """Write, read, list and remove an object; compare the store's clock with ours."""
    store = open_store(address)
    await probe(store)
    key = f"{_PROBE}/{secrets.token_hex(8)}"
    now = datetime.now(UTC)
    await store.create(key, key.encode())
    try:
        info = await store.head(key)
        listed = [info.key async for info in store.list(f"{_PROBE}/")]
        if key not in listed or await store.get(key) != key.encode():
            raise StorageError(f"{store.url}: an object that was written is not read or listed at once")
        await store.copy(key, f"{key}-copy")
        await store.delete(f"{key}-copy")
    finally:
        await store.delete(key)
    try:
        await store.head(key)
    except ObjectMissing:
        ahead = (info.last_modified - now).total_seconds()
        return ("writes, copies, lists and removes", "creates once", f"clock {ahead:+.1f} s")
    raise StorageError(f"{store.url}: an object that was removed is still there")
