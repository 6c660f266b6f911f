"""The engines that the settings name, tried one by one, and made ready: `steelyard config` calls these.

A platform that runs on them meanwhile notices nothing: a trial writes one object, and removes it.
"""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import httpx

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.open import open_accounts_database, prepare_accounts_database
from steelyard.accounts.secrets import KeyFileError, SecretUnreadable
from steelyard.addresses import without_password
from steelyard.broker.log import LogError
from steelyard.broker.open import open_log, prepare_log
from steelyard.local.check_secret_keys import try_secret_keys
from steelyard.settings import Settings
from steelyard.sqlite import DatabaseError
from steelyard.storage.store import BadLocation, ObjectMissing, StorageError, open_store, probe
from steelyard.views.open import open_view, prepare_view
from steelyard.views.view import ViewError

_PROBE = ".steelyard/probe"
PATIENCE = timedelta(seconds=5)
"""Time for which an object store that does not answer is asked again; a person waits for the result."""
_SIGNED_FOR = timedelta(minutes=5)
NOT_MADE = "is not there yet; the first start makes it"


@dataclass(frozen=True)
class Check:
    """Result of the trial of one engine. `fault` says why it cannot be used, and is empty where it can."""

    engine: str
    address: str
    facts: tuple[str, ...] = ()
    fault: str = ""


async def check_engines(
    settings: Settings,
    begin: Callable[[str, str], None] = lambda engine, address: None,
    patience: timedelta = PATIENCE,
) -> AsyncIterator[Check]:
    """Try each engine of the settings, one after the other; `begin` is called with its name and address first."""
    storage_trial = partial(_try_storage, patience=patience)
    trials: dict[str, Callable[[str], Awaitable[tuple[str, ...]]]] = {
        "log": _try_log,
        "view": _try_view,
        "accounts": _try_accounts,
        "secrets": partial(_try_secrets, accounts=settings.accounts),
        "storage": (
            partial(_try_storage_and_urls, patience=patience)
            if settings.api.signed_urls == "store"
            else storage_trial
        ),
        "backup": storage_trial,
        **({"mirror": storage_trial} if settings.mirror else {}),
    }
    for engine, trial in trials.items():
        address = settings.secret_keys if engine == "secrets" else getattr(settings, engine)
        begin(engine, without_password(address))
        try:
            facts = (NOT_MADE,) if not_made_yet(address) else await trial(address)
            yield Check(engine, without_password(address), facts)
        except (
            AccountsDatabaseError,
            BadLocation,
            DatabaseError,
            KeyFileError,
            LogError,
            SecretUnreadable,
            StorageError,
            ViewError,
        ) as error:
            yield Check(engine, without_password(address), fault=str(error))


async def prepare_engines(settings: Settings) -> AsyncIterator[Check]:
    """Make the topics, indexes and tables of each server that needs some, or migrate those of an earlier version.

    Raises AccountsDatabaseError, LogError, ViewError.
    """
    topics = await prepare_log(settings.log)
    if topics is not None:
        yield Check("log", without_password(settings.log), (f"topics: {topics}",))
    if await prepare_view(settings.view):
        yield Check("view", without_password(settings.view), ("indexes: ready",))
    prepared = await prepare_accounts_database(settings.accounts)
    if prepared is not None:
        before, after = prepared
        change = "made" if before is None else "up to date" if before == after else f"migrated from {before}"
        yield Check("accounts", without_password(settings.accounts), (f"schema {after}: {change}",))


def not_made_yet(address: str) -> bool:
    """Return whether an address names a file or a folder that is not there: a check must not make it."""
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
        facts, origin = await view.facts(), await view.origin()
    finally:
        await view.close()
    return (*facts, f"epoch {origin.epoch}" if origin else "no log yet")


async def _try_accounts(address: str) -> tuple[str, ...]:
    opened = await open_accounts_database(address)
    try:
        return await opened.database.facts()
    finally:
        await opened.close()


async def _try_secrets(path: str, accounts: str) -> tuple[str, ...]:
    return await try_secret_keys(Path(path), None if not_made_yet(accounts) else accounts)


async def _try_storage_and_urls(address: str, patience: timedelta) -> tuple[str, ...]:
    return (*await _try_storage(address, patience), await _try_urls(address, patience))


async def _try_urls(address: str, patience: timedelta) -> str:
    """Try the store's own URLs: each must open one object for one method, and must not let its holder read another
    object by a copy."""
    store = open_store(address, patience=patience)
    key, other = f"staging/probe/{secrets.token_hex(8)}", f"{_PROBE}/{secrets.token_hex(8)}"
    write = await store.sign("PUT", key, _SIGNED_FOR)
    if write is None:
        return "signs no URLs, so that the API's are given"
    try:
        await store.create(other, b"other")
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.put(write.url, content=b"own", headers=write.headers)
            if not answer.is_success or await store.get(key) != b"own":
                raise StorageError(
                    f"{store.url}: its own signed URL does not write: {answer.status_code} {answer.text[:200]}"
                )
            if (await client.get(write.url)).is_success:
                raise StorageError(f"{store.url}: a URL that is signed for writing reads, too")
            source = urlsplit(write.url)
            path = source.path.replace(quote(key), quote(other))
            sources = {
                "x-amz-copy-source": path,
                "x-goog-copy-source": path,
                "x-ms-copy-source": f"{source.scheme}://{source.netloc}{path}",
            }
            for headers in (sources, {**sources, **write.headers}):
                await client.put(write.url, headers=headers)
                if await store.get(key) == b"other":
                    raise StorageError(
                        f"{store.url}: its signed URLs copy what their holders may not read;"
                        " set api.signed_urls to 'api'"
                    )
    except httpx.HTTPError as error:
        raise StorageError(f"{store.url}: its own signed URL leads nowhere: {error}") from error
    finally:
        await store.delete(key)
        await store.delete(other)
    return "signs URLs for one object and method"


async def _try_storage(address: str, patience: timedelta) -> tuple[str, ...]:
    """Write, read, list and remove an object; compare the store's clock with ours."""
    store = open_store(address, patience=patience)
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
