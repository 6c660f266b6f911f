"""The platform's process: its engines, opened once, and the services on them, each a coroutine.

`steelyard up` runs all of them in one process; `steelyard service NAME` one alone, beside others on the same engines.
A service that fails takes the process down, and the supervisor starts it anew: nothing is lost, because a service says
that it has read a message only when what follows from it is durable.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from steelyard.accounts.ledger import Accounts
from steelyard.accounts.open import Ledger, open_ledger
from steelyard.broker.log import Log
from steelyard.broker.open import open_log
from steelyard.kube.client import connect
from steelyard.kube.cluster import Cluster
from steelyard.local.state import StateDir, write_platform
from steelyard.settings import Settings
from steelyard.storage.store import Store, open_store
from steelyard.views.open import open_view
from steelyard.views.view import View

ADMINISTRATOR = "administrator"
Service = Callable[[asyncio.Event], Coroutine[None, None, None]]


@dataclass(frozen=True)
class Engines:
    """What the services work on."""

    log: Log
    view: View
    ledger: Ledger
    store: Store
    backup: Store


@asynccontextmanager
async def engines(settings: Settings) -> AsyncIterator[Engines]:
    """Opened by the addresses in the settings; closed in the opposite order."""
    async with AsyncExitStack() as stack:
        log = await open_log(settings.log)
        stack.push_async_callback(log.close)
        view = await open_view(settings.view)
        stack.push_async_callback(view.close)
        ledger = await open_ledger(settings.accounts)
        stack.push_async_callback(ledger.close)
        yield Engines(log, view, ledger, open_store(settings.storage), open_store(settings.backup))


async def run_platform(
    state: StateDir,
    settings: Settings,
    names: Sequence[str],
    *,
    port: int,
    stop: asyncio.Event,
    ready: Callable[[], None],
) -> None:
    """The named services until `stop`. `ready` is called once they run, and the API answers where it is among them."""
    async with engines(settings) as opened, AsyncExitStack() as stack:
        chosen = [_service(name, opened, settings, state, stack) for name in names if name != "api"]
        async with asyncio.TaskGroup() as group:
            for service in await asyncio.gather(*chosen):
                group.create_task(service(stop))
            if "api" in names:
                await _serve(group, opened, settings, state, port, stop, ready)
            else:
                ready()


async def _serve(
    group: asyncio.TaskGroup,
    opened: Engines,
    settings: Settings,
    state: StateDir,
    port: int,
    stop: asyncio.Event,
    ready: Callable[[], None],
) -> None:
    from steelyard.api.app import Platform, make_app
    from steelyard.api.serve import serve

    host, port = settings.api.host, settings.api.port or port
    public = settings.api.public_url or f"http://{host}:{port}"
    platform = Platform(
        log=opened.log,
        view=opened.view,
        ledger=opened.ledger,
        store=opened.store,
        settings=settings.api.model_copy(update={"public_url": public}),
        signing_secret=state.signing_secret.read_text().strip().encode(),
        pods=state.pods,
        clock=_now,
    )
    token = await administrator_token(opened.ledger.accounts)

    def answers(_: str) -> None:
        write_platform(state, f"{public}/v0", token)
        ready()

    group.create_task(serve(make_app(platform), host, port, stop=stop, ready=answers))


async def administrator_token(accounts: Accounts) -> str:
    """A token of the first administrator, whose account is made on a new database."""
    from steelyard.accounts.tokens import bootstrap

    return await bootstrap(accounts, ADMINISTRATOR, _now())


async def _service(
    name: str, opened: Engines, settings: Settings, state: StateDir, stack: AsyncExitStack
) -> Service:
    """One service as a coroutine function of `stop`, on its engines."""
    from steelyard.services import aggregator, reaper, sinks

    log, view, backup = opened.log, opened.view, opened.backup
    match name:
        case "aggregator":
            return lambda stop: aggregator.run_aggregator(log, stop=stop)
        case "view-sink":
            return lambda stop: sinks.run_view_sink(log, view, stop=stop)
        case "backup-sink":
            return lambda stop: sinks.run_backup_sink(log, backup, stop=stop)
        case "reaper":
            return lambda stop: reaper.run_reaper(log, view, stop=stop)
    cluster = await connect(Path(settings.kubernetes))
    stack.push_async_callback(cluster.close)
    return _on_cluster(name, opened, settings, cluster, f"{state.path.name}-{os.getuid()}")


def _on_cluster(name: str, opened: Engines, settings: Settings, cluster: Cluster, owner: str) -> Service:
    from steelyard.services import informer, orchestrator

    if name == "informer":
        return lambda stop: informer.run_informer(opened.log, cluster, identity=owner, stop=stop)
    claims, chosen = opened.ledger.claims, settings.orchestrator
    return lambda stop: orchestrator.run_orchestrator(
        opened.log, claims, cluster, chosen, owner=owner, stop=stop
    )


def _now() -> datetime:
    return datetime.now(UTC)
