"""The platform's process: its engines, opened once, and the services on them, each a coroutine.

`steelyard up` runs all of them in one process; `steelyard service NAME` one alone, beside others on the same engines.
A service that fails takes the process down, and the supervisor starts it anew: nothing is lost, because a service says
that it has read a message only when what follows from it is durable. For want of room on a disk a service alone is
begun anew, once there is some: the API goes on answering what can be answered.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from steelyard.accounts.database import Accounts
from steelyard.disk_space import once_room
from steelyard.kube.client import connect
from steelyard.kube.cluster import Cluster
from steelyard.local.engines import Engines, advice, engines, files_of
from steelyard.local.files import watch
from steelyard.local.identity import process_candidate
from steelyard.local.state import StateDir, write_atomically, write_platform
from steelyard.monitoring import listen_address, served
from steelyard.schema.ids import random_id
from steelyard.settings import Settings

_log = logging.getLogger(__name__)
ADMINISTRATOR = "administrator"
Service = Callable[[asyncio.Event], Coroutine[None, None, None]]


async def run_platform(
    state: StateDir,
    settings: Settings,
    names: Sequence[str],
    *,
    port: int,
    stop: asyncio.Event,
    ready: Callable[[], None],
    settings_file: Path | None = None,
) -> None:
    """The named services until `stop`. `ready` is called once they run, and the API answers where it is among them."""
    async with engines(settings, advice(state, settings_file)) as opened, AsyncExitStack() as stack:
        running = [name for name in names if name != "api"]
        chosen = [_service(name, opened, settings, state, stack) for name in running]
        async with asyncio.TaskGroup() as group:
            group.create_task(watch(files_of(settings), stop))
            for name, service in zip(running, await asyncio.gather(*chosen), strict=True):
                group.create_task(_once_room(name, partial(service, stop)))
            if "api" in names:
                await _serve(group, opened, settings, state, port, stop, ready)
            else:
                where = listen_address(settings.metrics, one_machine=state.runs(settings.kubernetes))
                if where is not None:
                    url = await stack.enter_async_context(served(where, opened.registry))
                    _log.info("metrics are served on %s", url)
                ready()


async def _once_room(name: str, run: Callable[[], Coroutine[None, None, None]]) -> None:
    await once_room(run, lambda error: _log.warning("%s waits for room on the disk: %s", name, error))


async def _serve(
    group: asyncio.TaskGroup,
    opened: Engines,
    settings: Settings,
    state: StateDir,
    port: int,
    stop: asyncio.Event,
    ready: Callable[[], None],
) -> None:
    from steelyard.api.http.app import Platform, make_app
    from steelyard.api.http.serve import serve
    from steelyard.api.inference_sessions.replicas import Replicas

    replicas = Replicas(
        {"STEELYARD_HOSTS": str(state.hosts), **os.environ}
    )  # one machine has no DNS for its Services
    host, port = settings.api.host, settings.api.port or port
    platform = Platform(
        log=opened.log,
        view=opened.view,
        accounts_database=opened.accounts_database,
        store=opened.store,
        settings=settings.api,
        signing_secret=state.signing_secret.read_text().strip().encode(),
        pods=state.pods,
        clock=_now,
        new_id=random_id,
        registry=opened.registry,
    )
    token = await administrator_token(state, opened.accounts_database.accounts)

    async def say(url: str) -> None:
        write_platform(state, f"{(settings.api.public_url or url).rstrip('/')}/v0", token)
        ready()

    def answers(url: str) -> None:
        group.create_task(_once_room("api", partial(say, url)))

    group.create_task(serve(make_app(platform, replicas), host, port, stop=stop, ready=answers))


async def administrator_token(state: StateDir, accounts: Accounts) -> str:
    """The first administrator's token: the folder's own as long as it is good, so that a restart ends no client's."""
    from steelyard.accounts.tokens import Tokens, Unauthenticated, bootstrap

    now = _now()
    if state.api_token.exists():
        token = state.api_token.read_text().strip()
        try:
            if (await Tokens(accounts).authenticate(token, now)).expires - now > timedelta(days=30):
                return token
        except Unauthenticated:
            pass  # revoked, or of a database that is gone
    token = await bootstrap(accounts, ADMINISTRATOR, now)
    write_atomically(state.api_token, token)
    return token


async def _service(
    name: str, opened: Engines, settings: Settings, state: StateDir, stack: AsyncExitStack
) -> Service:
    """One service as a coroutine function of `stop`, on its engines."""
    from steelyard.services.aggregator import aggregator
    from steelyard.services.reaper import reaper
    from steelyard.services.sinks import view as sinks

    log, view, backup = opened.log, opened.view, opened.backup
    match name:
        case "aggregator":
            return lambda stop: aggregator.run_aggregator(log, stop=stop)
        case "view-sink":
            return lambda stop: sinks.run_view_sink(log, view, stop=stop)
        case "backup-sink":
            return lambda stop: sinks.run_backup_sink(log, backup, stop=stop)
        case "reaper":
            return lambda stop: reaper.run_reaper(log, opened.store, stop=stop)
    cluster = await connect(Path(settings.kubernetes))
    stack.push_async_callback(cluster.close)
    return _on_cluster(name, opened, settings, cluster)


def _on_cluster(name: str, opened: Engines, settings: Settings, cluster: Cluster) -> Service:
    from steelyard.services.informer import status_informer as informer
    from steelyard.services.orchestrator.metrics import OrchestratorMetrics
    from steelyard.services.orchestrator.orchestrator import run_orchestrator
    from steelyard.services.orchestrator.rules import rules_of

    candidate = process_candidate()
    if name == "informer":
        return lambda stop: informer.run_informer(opened.log, cluster, candidate=candidate, stop=stop)
    claims, chosen, rules = opened.accounts_database.claims, settings.orchestrator, rules_of(settings.quotas)
    metrics = OrchestratorMetrics(opened.registry)
    return lambda stop: run_orchestrator(
        opened.log,
        claims,
        cluster,
        chosen,
        rules,
        candidate=candidate,
        new_id=random_id,
        stop=stop,
        metrics=metrics,
    )


def _now() -> datetime:
    return datetime.now(UTC)
