"""A whole platform in one event loop: real services on engines in memory, asked through ASGI with real tokens.

`async with make_platform() as platform:` gives clients by what they may do; nothing listens on the network.
"""

import asyncio
import base64
import hashlib
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import httpx
import orjson

from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.accounts.secrets import SecretKeys
from steelyard.accounts.tokens import Tokens, bootstrap
from steelyard.api.http.app import App, Platform, make_app
from steelyard.api.inference_sessions.replicas import Replicas
from steelyard.api.platform import Backup
from steelyard.api.settings import ApiSettings
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import EVENTS, Log, Message
from steelyard.services.aggregator.aggregator import run_aggregator
from steelyard.services.sinks.view import run_view_sink
from steelyard.views.in_memory import MemoryView
from steelyard.views.view import View
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import Store, open_store
from steelyard_schema.account import AccessGrant, Identity
from steelyard_schema.commands import StatusData, StatusPatch, UpdateEntityStatus, command_time
from steelyard_schema.egress import EgressSettings
from steelyard_schema.ids import random_id

NO_EGRESS = EgressSettings()
HOOKS = EgressSettings(webhooks=("hooks.example.org", "http://127.0.0.1"), networks=("127.0.0.0/8",))
NOW = datetime(2030, 1, 1, tzinfo=UTC)
_numbers = count()


@dataclass
class Clock:
    """Goes on by a microsecond at each reading, and by leaps when a test says so."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        self.now += timedelta(microseconds=1)
        return self.now


@dataclass
class Engines:
    """The engines, which outlive an API process."""

    log: Log
    view: View
    accounts_database: AccountsDatabase
    store: Store
    clock: Clock = field(default_factory=Clock)
    secret_keys: SecretKeys | None = field(default_factory=lambda: SecretKeys([b"k" * 32]))


@dataclass
class MemoryPlatform:
    """A running platform and the administrator's client."""

    app: App
    engines: Engines
    admin: httpx.AsyncClient
    clients: AsyncExitStack
    """Closes what `client` opens."""

    def client(self, token: str | None) -> httpx.AsyncClient:
        return client_of(self.app, token)

    async def holder(self, *grants: AccessGrant, account: str | None = None) -> httpx.AsyncClient:
        """The client of an account that may do exactly this."""
        accounts, now = self.engines.accounts_database.accounts, self.engines.clock()
        made = await accounts.create(account or f"account-{next(_numbers)}", Identity(), now)
        made = await accounts.set_permissions(made.id or "", grants)
        subject, expires = f"accounts/{made.id}", now + timedelta(hours=1)
        token = await Tokens(accounts).mint(made, subject, grants, expires, now)
        return await self.clients.enter_async_context(self.client(token))

    async def created(self, resource: str, **fields: Any) -> Json:
        """A new entity of the administrator's."""
        response = await self.admin.post(f"/{resource}", json={"account": "acme", **fields})
        assert response.status_code == 200, response.text
        made: Json = response.json()
        return made

    async def says(self, kind: str, id: str, status: str, source: str = "informer", reason: str = "") -> None:
        """Another service's word, and the view showing it."""
        patch = StatusPatch(status=status, reason=reason or None, message=None)
        data = StatusData(id=id, kind=kind, attributes=patch)
        await self.settled(kind, id)
        headers = {
            "id": uuid.uuid4().hex,
            "source": source,
            "time": command_time(self.engines.clock()),
        }
        await self.engines.log.publish(
            [Message(EVENTS, id, UpdateEntityStatus(data=data).dump_json(), headers)]
        )
        await self._shown(kind, id, status)

    async def settled(self, kind: str, id: str) -> Json:
        """The entity, once the view shows it."""
        return await self._shown(kind, id, None)

    async def _shown(self, kind: str, id: str, status: str | None) -> Json:
        async with asyncio.timeout(60):
            while True:
                version = self.engines.view.version()
                stored = await self.engines.view.get(kind, id)
                entity: Json = orjson.loads(stored.json) if stored else {}
                if stored and status in (None, entity["status"]):
                    return entity
                await self.engines.view.wait_for_change(version, 1)


def client_of(app: App, token: str | None) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://api/v0", headers=headers)


async def make_engines() -> Engines:
    accounts_database = await open_accounts_database("memory:")
    return Engines(MemoryLog(), MemoryView(), accounts_database, open_store(f"memory://api-{next(_numbers)}"))


@asynccontextmanager
async def make_platform(
    engines: Engines | None = None,
    *,
    services: bool = True,
    settings: ApiSettings | None = None,
    replicas: Replicas | None = None,
    new_id: Callable[[], str] = random_id,
    backup: Backup | None = None,
    egress: EgressSettings = HOOKS,
) -> AsyncIterator[MemoryPlatform]:
    """Run the API with its services; with `services=False` no command is applied, and all stay in the outbox."""
    made = engines or await make_engines()
    chosen = settings or ApiSettings()
    platform = Platform(
        made.log,
        made.view,
        made.accounts_database,
        made.store,
        chosen,
        b"secret",
        made.clock,
        new_id,
        backup=backup,
        egress=egress,
        secret_keys=made.secret_keys,
    )
    app = make_app(platform, replicas)
    token = await bootstrap(made.accounts_database.accounts, "administrator", made.clock())
    async with AsyncExitStack() as stack:
        if engines is None:
            stack.push_async_callback(made.accounts_database.close)
        if services:
            await stack.enter_async_context(running_services(made))
        await stack.enter_async_context(app.running())
        if services:
            await app.api.completeness.wait()  # as `serve` does
        yield MemoryPlatform(app, made, await stack.enter_async_context(client_of(app, token)), stack)


@asynccontextmanager
async def running_services(engines: Engines) -> AsyncIterator[None]:
    """The aggregator and the view's sink."""
    stop = asyncio.Event()
    tasks = [
        asyncio.create_task(run_aggregator(engines.log, stop=stop)),
        asyncio.create_task(run_view_sink(engines.log, engines.view, stop=stop)),
    ]
    try:
        yield
    finally:
        stop.set()
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


SCHEMA: Json = {"arrowSchema": "AAAA"}


def md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def dataset(files: Mapping[str, bytes] | None = None) -> Json:
    """Fields of a request."""
    some = files if files is not None else {"data.parquet": b"rows"}
    artifacts = [
        {"kind": "parquet", "path": path, "digest": {"md5": md5(data)}} for path, data in some.items()
    ]
    return {"name": "digits", "artifacts": artifacts, "schema": SCHEMA}


def data_source(**fields: Any) -> Json:
    """Fields of a request."""
    return {"name": "rows", "sourceKind": "huggingface", "source": "org/rows@main", **fields}


def uploaded_source(files: Mapping[str, bytes]) -> Json:
    """Fields of a request for a data source whose files are uploaded."""
    artifacts = [{"path": path, "digest": {"md5": md5(data)}} for path, data in files.items()]
    return {"name": "rows", "sourceKind": "upload", "artifacts": artifacts}


def service(model: str | None = None) -> Json:
    image = {"host": "localhost", "name": "steelyard/runner-mock", "digest": "sha256:" + "0" * 64}
    runner = {"kind": "mock", "image": image, "resources": {"cpu": "100m"}}
    fields: Json = {
        "name": "service",
        "runner": runner,
        "interface": {"endpoint": "v1/x", "outputSchema": SCHEMA},
    }
    return fields | ({"model": model} if model else {})


def model() -> Json:
    return {
        "name": "model",
        "artifact": {"kind": "Mock"},
        "storage": {"medium": "Mock"},
        "source": {"kind": "Mock"},
        "resources": {"storage": "0"},
    }


def grant(
    resource: str, functions: Sequence[str], accounts: Sequence[str] = (), entities: Sequence[str] = ()
) -> AccessGrant:
    return AccessGrant.parse(
        {
            "resources": [resource],
            "functions": list(functions),
            "accounts": list(accounts),
            "entities": list(entities),
        }
    )
