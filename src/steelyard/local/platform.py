"""The platform's process: its engines, opened once, and the services on them, each a coroutine.

`steelyard up` runs all of them in one process; `steelyard service NAME` one alone, along with others on the same
engines. A service that fails ends the process, and the supervisor starts it again. Nothing is lost: a service
acknowledges a message only when the results of the message are durable. If the disk is full, the process goes on: the
service that needs the room starts again once there is some, and the API answers whatever needs none.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from steelyard.broker.log import AGGREGATOR, EVENTS, STATE
from steelyard.local.engines import Engines, advice, engine_files, engines, on_servers
from steelyard.local.identity import process_candidate
from steelyard.local.images import STEPS
from steelyard.local.needs import Needs
from steelyard.local.resuming import retry_engine_failures
from steelyard.local.state import StateDir, process_name, write_note, write_platform
from steelyard.services.sinks.view import BackupOutlet
from steelyard.settings import Settings
from steelyard.telemetry.monitoring import listen_address, serve_metrics
from steelyard_common.disk_space import once_room
from steelyard_common.errors import UsageError
from steelyard_common.presence import watch
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.ids import random_id

if TYPE_CHECKING:
    from steelyard.api.http.app import App
    from steelyard_kube.client import RestCluster

_log = logging.getLogger(__name__)
LINEAGE = "lineage"
DRAIN_SECONDS = 5.0
Service = Callable[[asyncio.Event], Coroutine[None, None, None]]


async def run_platform(  # noqa: PLR0913 (what its caller decides)
    state: StateDir,
    settings: Settings,
    names: Sequence[str],
    *,
    port: int,
    stop: asyncio.Event,
    ready: Callable[[], None],
    settings_file: Path | None = None,
    replica: int = 1,
) -> None:
    """Run the named services until `stop`. Calls `ready` once they run and the API, if it is one of them, answers.

    `replica` is the number of this process among those that run the same service on the folder. Commands on the folder
    ask the first. Raises UsageError where the settings do not suffice.
    """
    if "api" in names:
        from steelyard.api.spool import spool_fault

        if fault := spool_fault(settings.api):
            raise UsageError(f"settings: api.spool: {fault}")
    async with (
        engines(settings, advice(state, settings_file), state.path) as opened,
        AsyncExitStack() as stack,
    ):
        names = [
            name for name in names if name != LINEAGE or len(names) == 1 or _has_lineage_receiver(settings)
        ]
        if not settings.storage_server.listen:  # the folder is served only where the settings ask for it
            names = [name for name in names if name != "storage"]
        loops = [name for name in names if name != "api"]
        measure_lag(loops, opened)
        needs = Needs(opened, settings, names)
        async with asyncio.TaskGroup() as group:
            group.create_task(watch(engine_files(settings), stop))
            services = await asyncio.gather(
                *[_service(name, opened, settings, state, stack, needs) for name in loops]
            )
            for name, service in zip(loops, services, strict=True):
                group.create_task(_keep_running(name, settings, partial(service, stop)))
            metrics_file = state.metrics(process_name(names[0] if len(names) == 1 else "platform", replica))
            stack.callback(metrics_file.unlink, missing_ok=True)
            # The API serves the figures itself; elsewhere as well only where the settings say so.
            api_has_metrics = "api" in names and settings.metrics is None
            if not api_has_metrics:
                await _serve_metrics(opened, settings, state, metrics_file, stack, needs)
            if "api" not in names:
                ready()
                return
            from steelyard.api.http.serve import serve
            from steelyard.local.administrator import administrator_token, choose_token

            accounts = opened.accounts_database.accounts
            chosen = await choose_token(state, settings, accounts)
            token = await administrator_token(state, accounts, chosen)
            url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            host, port = settings.api.host, settings.api.port or port
            app = await _api_app(opened, settings, state, chosen)
            api: asyncio.Future[Any] = group.create_task(
                serve(app, host, port, stop=stop, ready=url.set_result)
            )
            await asyncio.wait([url, api], return_when=asyncio.FIRST_COMPLETED)
            if url.done():  # otherwise the API was stopped before it listened
                await _retry_full_disk(
                    "api",
                    partial(
                        _write_addresses,
                        state,
                        settings,
                        url.result().rstrip("/"),
                        token=token if replica == 1 else None,
                        metrics_file=metrics_file if api_has_metrics else None,
                    ),
                )
                ready()


async def _serve_metrics(
    opened: Engines, settings: Settings, state: StateDir, file: Path, stack: AsyncExitStack, needs: Needs
) -> None:
    """Serve the figures at an address of their own until `stack` closes, and write that address to the file."""
    where = listen_address(settings.metrics, one_machine=state.runs(settings.kubernetes))
    if where is not None:
        url = await stack.enter_async_context(serve_metrics(where, opened.figures, needs.missing))
        _log.info("metrics are served on %s", url)
        write_note(file, f"{url}\n")


async def _write_addresses(
    state: StateDir, settings: Settings, url: str, *, token: str | None, metrics_file: Path | None
) -> None:
    """Write where the API answers: with a token, for commands on the folder; with a file, for readers of metrics."""
    if token is not None:
        write_platform(state, f"{(settings.api.public_url or reachable(url)).rstrip('/')}/v0", token)
    if metrics_file is not None:
        write_note(metrics_file, f"{reachable(url)}/metrics\n")


def drain_seconds(
    settings: Settings, *, one_machine: bool, environment: Mapping[str, str] = os.environ
) -> float:
    """Return how long the API goes on after it was asked to end: in a Pod, a Service routes to it for some seconds."""
    if settings.api.drain_seconds is not None:
        return settings.api.drain_seconds
    return DRAIN_SECONDS if not one_machine and "KUBERNETES_SERVICE_HOST" in environment else 0.0


def reachable(url: str) -> str:
    """Return the address by which this machine reaches a server: nothing can be sent to all addresses."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:", 1).replace("//[::]:", "//[::1]:", 1)


def _has_lineage_receiver(settings: Settings) -> bool:
    """Return whether a receiver of OpenLineage is named and its client installed; if not, there is no lineage."""
    from steelyard.services.lineage.lineage import HttpReceiver, receiver_url

    if not (url := receiver_url(settings.telemetry.openlineage_url)):
        return False
    try:
        HttpReceiver(url)
    except UsageError as error:
        _log.error("no lineage is sent: %s", error)
        return False
    return True


def _lineage(opened: Engines, settings: Settings) -> Service:
    from steelyard.services.lineage.lineage import HttpReceiver, LineageMetrics, receiver_url, run_lineage

    if not (url := receiver_url(settings.telemetry.openlineage_url)):
        raise UsageError("lineage: no receiver is named; set telemetry.openlineage_url or OPENLINEAGE_URL")
    receiver = HttpReceiver(url)
    from steelyard.services.lineage.events import Names

    namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or settings.telemetry.openlineage_namespace
    names, metrics = Names(namespace, settings.storage), LineageMetrics(opened.figures.registry)
    return lambda stop: run_lineage(opened.log, opened.store, receiver, names, stop=stop, metrics=metrics)


def _webhooks(opened: Engines, settings: Settings) -> Service:
    from steelyard.accounts.webhooks.events import find_source
    from steelyard.services.webhooks.sender import Sending, WebhookMetrics, run_webhooks

    database = opened.accounts_database
    policy = settings.egress.policy("webhooks")
    sending = Sending(database.webhooks, database.accounts, policy, settings.webhooks)
    source = find_source(opened.log.id, settings.api.public_url)
    metrics = WebhookMetrics(opened.figures.registry)
    return lambda stop: run_webhooks(opened.log, sending, source, stop=stop, metrics=metrics)


def measure_lag(names: Sequence[str], opened: Engines) -> None:
    """Add the lags of the consumers among the services to the figures."""
    from steelyard.services.lag import LagMetrics

    log, lag = opened.log, LagMetrics(opened.log, opened.figures.registry)
    if "aggregator" in names:
        lag.follow(EVENTS, AGGREGATOR, lambda: log.positions(AGGREGATOR, EVENTS))
    if "view-sink" in names:
        lag.follow(STATE, "view-sink", lambda: opened.view.positions(log.epoch))
    if "backup-sink" in names:
        lag.follow(STATE, "backup-sink", lambda: BackupOutlet(opened.backup).positions(log.epoch))
    if LINEAGE in names:
        from steelyard.services.lineage.lineage import read_progress

        async def positions() -> Mapping[int, int]:
            progress = await read_progress(opened.store)
            return progress.positions if progress else {}

        lag.follow(STATE, LINEAGE, positions)
    if "webhooks" in names:
        lag.follow(STATE, "webhooks", lambda: opened.accounts_database.webhooks.positions(log.epoch))
    if "orchestrator" in names:
        from steelyard.services.orchestrator.leader import CONSUMER

        lag.follow(STATE, CONSUMER, lambda: opened.accounts_database.claims.positions(log.epoch))
    opened.figures.look_up("consumer_lag", lag.update)


async def _keep_running(
    name: str, settings: Settings, run: Callable[[], Coroutine[None, None, None]]
) -> None:
    """Run a service, and run it again after a failure that passes: a full disk, or a server that is away.

    Files and databases of this machine are never away: what fails there is a fault, and ends the process.
    """
    if on_servers(settings):
        await retry_engine_failures(name, lambda: _retry_full_disk(name, run))
    else:
        await _retry_full_disk(name, run)


async def _retry_full_disk(name: str, run: Callable[[], Coroutine[None, None, None]]) -> None:
    await once_room(run, lambda error: _log.warning("%s waits for room on the disk: %s", name, error))


async def _api_app(opened: Engines, settings: Settings, state: StateDir, chosen: str) -> "App":
    """Return the API on the engines of this process; `chosen` is the token of `choose_token`."""
    from steelyard.accounts.secrets import Secrets
    from steelyard.api.http.app import Platform, make_app
    from steelyard.api.inference_sessions.replicas import Replicas
    from steelyard.local.administrator import signing_secret
    from steelyard.local.secret_keys import secret_keys
    from steelyard.services.backup.entity import Backup

    keys = secret_keys(state, settings)
    # Before an old key is taken out of the file, nothing must need it any more.
    await Secrets(opened.accounts_database.secrets, keys).encrypt_anew()
    drain = drain_seconds(settings, one_machine=state.runs(settings.kubernetes))
    changed = {"administrator_token": SecretStr(chosen), "drain_seconds": drain}
    api_settings = settings.api.model_copy(update=changed)
    if not settings.api.analysis_image and state.runs(settings.kubernetes):
        # On one machine methods name an image, as Dyff's do: that of the steps.
        api_settings = api_settings.model_copy(update={"analysis_image": f"{STEPS}@sha256:{'0' * 64}"})
    platform = Platform(
        log=opened.log,
        view=opened.view,
        accounts_database=opened.accounts_database,
        store=opened.store,
        settings=api_settings,
        signing_secret=await signing_secret(state, settings, opened.accounts_database.accounts),
        pods=state.pods,
        clock=_now,
        new_id=random_id,
        backup=Backup(opened.backup),
        figures=opened.figures,
        secret_keys=keys,
        egress=settings.egress,
        webhooks=settings.webhooks,
    )
    return make_app(platform, Replicas(discovery_environment(state, settings, os.environ)))


def discovery_environment(
    state: StateDir, settings: Settings, environment: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the environment by which replicas are found: one machine has no DNS for its Services, a cluster has."""
    own = {"STEELYARD_HOSTS": str(state.hosts)} if state.runs(settings.kubernetes) else {}
    return {**own, **environment}


async def _service(
    name: str, opened: Engines, settings: Settings, state: StateDir, stack: AsyncExitStack, needs: Needs
) -> Service:
    """Return one service on its engines, as a coroutine function of `stop`; what else it needs is added to `needs`."""
    log, view, backup = opened.log, opened.view, opened.backup
    match name:
        case "aggregator":
            from steelyard.services.aggregator.aggregator import run_aggregator

            return lambda stop: run_aggregator(log, stop=stop)
        case "view-sink":
            from steelyard.services.sinks.view import run_view_sink

            return lambda stop: run_view_sink(log, view, stop=stop)
        case "backup-sink":
            return lambda stop: _back_up(opened, settings, stop)
        case "lineage":
            return _lineage(opened, settings)
        case "webhooks":
            return _webhooks(opened, settings)
        case "storage":
            from steelyard.services.storage_server.run import make_server, run_storage_server

            chosen = settings.storage_server
            server = make_server(settings.storage, chosen, registry=opened.figures.registry)
            return lambda stop: run_storage_server(server, chosen.listen, stop=stop)
        case "reaper":
            from steelyard.services.reaper.files import FileMetrics
            from steelyard.services.reaper.reaper import run_reaper

            metrics = FileMetrics(opened.figures.registry)
            return lambda stop: run_reaper(log, opened.store, backup=backup, stop=stop, metrics=metrics)
    from steelyard.local.cluster_access import connect_cluster
    from steelyard.services.informer import status_informer
    from steelyard.services.orchestrator import orchestrator

    cluster = await connect_cluster(settings.kubernetes)
    stack.push_async_callback(cluster.close)
    if name == "informer":
        needs.add_cluster(cluster, status_informer.LEASE, settings.lease_namespace)
    else:
        needs.add_cluster(cluster, orchestrator.LEASE, settings.orchestrator.lease_namespace)
    return _cluster_service(name, opened, settings, state, cluster)


async def _back_up(opened: Engines, settings: Settings, stop: asyncio.Event) -> None:
    """Run both sinks of the backup, for the newest JSON of each entity and for the archive; and the mirror."""
    from steelyard.services.backup.mirror import run_mirror
    from steelyard.services.backup.sink import run_archive_sink
    from steelyard.services.sinks.view import run_backup_sink

    log, backup = opened.log, opened.backup
    async with asyncio.TaskGroup() as group:
        group.create_task(run_backup_sink(log, backup, stop=stop))
        if settings.mirror:
            target = open_store(settings.mirror)
            group.create_task(run_mirror(opened.store, backup, target, stop=stop))
        group.create_task(run_archive_sink(log, backup, settings.archive, stop=stop))


def _cluster_service(
    name: str, opened: Engines, settings: Settings, state: StateDir, cluster: "RestCluster"
) -> Service:
    from steelyard.accounts.secrets import Secrets
    from steelyard.local.secret_keys import secret_keys
    from steelyard.services.informer import status_informer as informer
    from steelyard.services.informer.runner_logs import RunnerLogs
    from steelyard.services.orchestrator.metrics import OrchestratorMetrics
    from steelyard.services.orchestrator.orchestrator import run_orchestrator
    from steelyard.services.orchestrator.rules import make_rules

    candidate = process_candidate()
    if name == "informer":
        leading = opened.figures.leading.labels(informer.LEASE)
        # On one machine the API reads the files of the kubelet itself.
        logs = None if state.runs(settings.kubernetes) else RunnerLogs(cluster, opened.store, opened.log)
        return lambda stop: informer.run_informer(
            opened.log,
            cluster,
            candidate=candidate,
            stop=stop,
            namespace=settings.lease_namespace,
            leading=leading,
            runner_logs=logs,
        )
    claims, chosen, rules = (
        opened.accounts_database.claims,
        settings.orchestrator,
        make_rules(settings.quotas),
    )
    metrics = OrchestratorMetrics(opened.figures)
    secrets = Secrets(opened.accounts_database.secrets, secret_keys(state, settings))
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
        secrets=secrets,
    )


def _now() -> datetime:
    return datetime.now(UTC)
