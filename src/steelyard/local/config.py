"""The engines that the settings name, tried one by one, and made ready: `steelyard config` calls these.

A platform that runs on them meanwhile notices nothing: a trial writes one object, and removes it.
"""

import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import httpx

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.given_token import LEAST_GIVEN, token_fault
from steelyard.accounts.open import open_accounts_database, prepare_accounts_database
from steelyard.accounts.secrets import KeyFileError, SecretUnreadable
from steelyard.api.spool import spool_fault
from steelyard.broker.log import LogError
from steelyard.broker.open import open_log, prepare_log
from steelyard.engines.addresses import without_password
from steelyard.local.account_copies import describe_copies
from steelyard.local.check_secret_keys import try_secret_keys
from steelyard.local.cluster_access import connect_cluster
from steelyard.local.state import StateDir
from steelyard.settings import Settings
from steelyard.sqlite import DatabaseError
from steelyard.views.open import open_view, prepare_view
from steelyard.views.view import ViewError
from steelyard_common.errors import SteelyardError, UsageError
from steelyard_evaluation.storage.store import BadLocation, ObjectMissing, StorageError, open_store, probe
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError, Forbidden, NotFound, Unreachable
from steelyard_kube.resource import LEASES

DYFF_GROUP = "dyff.io"
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
            if engine == "backup" and not not_made_yet(address):
                facts = (*facts, await describe_copies(open_store(address, patience=patience)))
            yield Check(engine, without_password(address), facts)
        except (
            AccountsDatabaseError,
            BadLocation,
            DatabaseError,
            KeyFileError,
            LogError,
            OSError,
            SecretUnreadable,
            SteelyardError,
            StorageError,
            ViewError,
        ) as error:
            yield Check(engine, without_password(address), fault=str(error))


async def check_surroundings(
    settings: Settings,
    state: StateDir,
    begin: Callable[[str, str], None] = lambda engine, address: None,
    environment: Mapping[str, str] = os.environ,
) -> AsyncIterator[Check]:
    """Try Kubernetes as this process reaches it, and say which settings are missing that servers on a cluster need.

    On one machine neither is missing: its own Kubernetes and its own address are known.
    """
    begin("kubernetes", settings.kubernetes)
    yield await try_kubernetes(settings, state, environment)
    begin("settings", "api")
    faults = missing_settings(settings, one_machine=state.runs(settings.kubernetes))
    yield Check("settings", "api", ("nothing is missing",), "; ".join(faults))


def missing_settings(settings: Settings, *, one_machine: bool) -> list[str]:
    """Return what is wrong with settings that are otherwise missed only at the first request that needs them."""
    faults = []
    if fault := token_fault(settings.api.administrator_token.get_secret_value() or "-" * LEAST_GIVEN):
        faults.append(f"api.administrator_token: {fault}")
    if fault := spool_fault(settings.api):
        faults.append(f"api.spool: {fault}")
    if not (one_machine or settings.api.public_url or settings.api.hosts):
        faults.append(
            "api.public_url: is not set; links for uploads and downloads begin with it, and are refused without it"
        )
    stores = ("s3:", "gs:", "az:")
    if not one_machine and settings.api.signed_urls == "store" and not settings.storage.startswith(stores):
        faults.append(f"api.signed_urls: only an object store signs URLs, and storage is {settings.storage}")
    return faults


async def try_kubernetes(settings: Settings, state: StateDir, environment: Mapping[str, str]) -> Check:
    address, own = settings.kubernetes, state.runs(settings.kubernetes)
    if own and not state.kubeconfig.exists():
        in_a_pod = "KUBERNETES_SERVICE_HOST" in environment
        said = "this Pod has no account: not tried" if in_a_pod else NOT_MADE
        return Check("kubernetes", address, (said,))
    try:
        cluster = await connect_cluster(address)
    except UsageError as error:
        return Check("kubernetes", address, fault=str(error).removeprefix(f"kubernetes {address}: "))
    try:
        kinds = await cluster.group_versions()
        if DYFF_GROUP not in kinds:
            return Check("kubernetes", address, fault=f"the definitions of {DYFF_GROUP} are not installed")
        return Check(
            "kubernetes", address, (cluster.url, await lease_fact(cluster, settings.lease_namespace))
        )
    except Unreachable as error:
        if own:
            return Check("kubernetes", address, ("does not run; `steelyard up` starts it",))
        return Check("kubernetes", address, fault=error.message)
    except ApiError as error:
        return Check("kubernetes", address, fault=str(error))
    finally:
        await cluster.close()


async def lease_fact(cluster: Cluster, namespace: str) -> str:
    """Return whether the account may read leases, as that of the operator, orchestrator and informer has to."""
    try:
        await cluster.get(LEASES, "steelyard-operator", namespace)
    except NotFound:
        pass
    except Forbidden:
        return (
            f"this account may not read leases in {namespace}: not one of operator, orchestrator or informer"
        )
    return f"reads leases in {namespace}"


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
