"""The embedded API server's entry: `serve` for those who run one (`run.py`, tests)."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_common.figures import Figures
from steelyard_common.platform_identity import PlatformIdentity
from steelyard_common.serving.bounded import bind
from steelyard_local_kubernetes.apiserver import own_service, pki
from steelyard_local_kubernetes.apiserver.access.accounts import Accounts
from steelyard_local_kubernetes.apiserver.access.authentication import Authentication
from steelyard_local_kubernetes.apiserver.access.bootstrap import Aggregation, add_bootstrap_roles
from steelyard_local_kubernetes.apiserver.access.rbac import Rbac
from steelyard_local_kubernetes.apiserver.access.tokens import AccountTokens
from steelyard_local_kubernetes.apiserver.admission.cluster_addresses import Addresses
from steelyard_local_kubernetes.apiserver.admission.policies import Policies
from steelyard_local_kubernetes.apiserver.admission.quota import QuotaController
from steelyard_local_kubernetes.apiserver.admission.server import ServerAdmission
from steelyard_local_kubernetes.apiserver.admission.webhooks.dispatch import Webhooks
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.core import Core
from steelyard_local_kubernetes.apiserver.database import SqliteDatabase
from steelyard_local_kubernetes.apiserver.definitions import Definitions
from steelyard_local_kubernetes.apiserver.discovery import Discovery
from steelyard_local_kubernetes.apiserver.expiry import Expiry
from steelyard_local_kubernetes.apiserver.front import Front
from steelyard_local_kubernetes.apiserver.lifecycle import Lifecycle
from steelyard_local_kubernetes.apiserver.logs import PodLogs
from steelyard_local_kubernetes.apiserver.objects import Objects
from steelyard_local_kubernetes.apiserver.openapi import OpenApi
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.own_service import HOSTS, OwnService, service_address
from steelyard_local_kubernetes.apiserver.priorities import CLASSES, add_system_classes
from steelyard_local_kubernetes.apiserver.registry import Registry
from steelyard_local_kubernetes.apiserver.rest import Rest
from steelyard_local_kubernetes.apiserver.reviews import Reviews
from steelyard_local_kubernetes.apiserver.store import Store
from steelyard_local_kubernetes.apiserver.transport import Transport
from steelyard_local_kubernetes.at_work import AtWork
from steelyard_local_kubernetes.faults import Faults

QUEUED = 512
"""Connections that wait until they are accepted."""
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True)
class ApiServerConfig:
    """Configuration of a server; without a database it forgets everything at its end."""

    database: Path | None
    pki: Path
    tokens: Mapping[str, str]  # token -> user name
    pods: Path | None = None
    service_network: str = "127.200.128.0/17"
    host: str = "127.0.0.1"
    port: int = 0
    listener: int | None = None  # file descriptor of a listening socket, in place of host and port
    faults: Faults = field(default_factory=Faults)
    figures: Figures = field(default_factory=Figures)
    platform: PlatformIdentity | None = None  # None: files are not asked whose they are
    begin_anew: str = ""
    """Command that keeps the database aside and lets an empty one begin, for errors."""
    at_work: AtWork = field(default_factory=AtWork)
    collects_garbage: bool = True  # else a controller does (`controllers/garbage/`)


@dataclass(frozen=True)
class RunningServer:
    """Address of a running server, and the certificate authority that vouches for it; `core` answers in its process.

    `descriptor` is that of its listening socket.
    """

    url: str
    ca: Path
    port: int
    core: Core
    descriptor: int


@dataclass(frozen=True)
class Parts:
    """A server without its transport: what tests drive directly."""

    store: Store
    core: Core
    lifecycle: Lifecycle
    expiry: Expiry


async def make_parts(config: ApiServerConfig, clock: Clock) -> Parts:
    """The parts, with the first namespaces there."""
    own = config.platform.id if config.platform else None
    store = Store(SqliteDatabase(config.database, own, config.begin_anew) if config.database else None)
    registry = Registry()
    for _ in range(store.unreadable):
        config.faults.count("store", "row")
    # The store keeps it, as a listener of its commits. Before all else:
    # stored objects of a kind need their definition.
    Definitions(store, registry, clock, config.faults, config.at_work)
    QuotaController(store, config.faults)
    rbac = Rbac(store)
    webhooks = Webhooks(store, registry.versions, clock)
    policies = Policies(store, registry)
    admission = ServerAdmission(store, clock, config.service_network, rbac, webhooks, policies)
    objects = Objects(store, clock, admission)
    kind = registry.storage_kind("namespaces")
    for name in NAMESPACES:
        if store.get("namespaces", ("", name)) is None:
            objects.create(kind, "", {"metadata": {"name": name}}, Options())
    add_system_classes(objects, registry.storage_kind(CLASSES))
    add_bootstrap_roles(store, clock)
    Aggregation(store).aggregate()
    Accounts(store, objects, registry, config.pki).complete()
    await store.wait_durable()
    authentication = Authentication(
        config.tokens, AccountTokens(config.pki / "accounts.key", store, clock, config.platform)
    )
    logs = PodLogs(
        config.pods,
        lambda item: store.get("pods", item.key),
        lambda node: store.get("nodes", ("", node)) is not None,
    )
    core = Core(
        store,
        registry,
        Rest(objects),
        Discovery(registry),
        OpenApi(registry),
        logs,
        Reviews(rbac, authentication, objects, clock),
        config.pods,
        config.faults,
        config.figures,
    )
    lifecycle = Lifecycle(objects, registry, config.faults, collects_garbage=config.collects_garbage)
    return Parts(store, core, lifecycle, Expiry(store, clock, config.faults))


@asynccontextmanager
async def serve(config: ApiServerConfig, clock: Clock | None = None) -> AsyncIterator[RunningServer]:
    """A server that answers until the block is left."""
    clock = clock or Clock()
    names = (*HOSTS, service_address(config.service_network))
    context = pki.server_context(config.pki, config.host, clock.now(), names, config.platform)
    parts = await make_parts(config, clock)
    transport = Transport(parts.core, parts.core.reviews.authentication)
    front = Front(transport.answer)
    listener = None
    try:
        if config.listener is None:
            listener = bind(config.host, config.port, QUEUED)
            listener.setblocking(False)
        else:
            listener = socket.socket(fileno=config.listener)
            listener.setblocking(False)
            listener.set_inheritable(False)  # a Pod that held it would keep the port from the next server
        tasks = [
            asyncio.create_task(parts.lifecycle.run(), name="lifecycle"),
            asyncio.create_task(parts.expiry.run(), name="expiry"),
            asyncio.create_task(front.serve(listener, context), name="connections"),
        ]
        try:
            address, port = listener.getsockname()[:2]
            rest, network = parts.core.rest, config.service_network
            Addresses(parts.store, network).renew(apart=(own_service.NAMESPACE, own_service.NAME))
            OwnService(rest.objects, parts.core.registry, network, (address, port)).complete()
            await parts.store.wait_durable()
            host = f"[{config.host}]" if ":" in config.host else config.host
            url = f"https://{host}:{port}"
            yield RunningServer(url, config.pki / "ca.crt", port, parts.core, listener.fileno())
        finally:
            for task in tasks:
                task.cancel()
            parts.store.close()  # ends the watches, for which the site would wait
            await asyncio.gather(*tasks, return_exceptions=True)
            listener.close()  # now that nobody waits for it
            await front.shutdown(timeout=2)
    finally:
        # No listener came up, because the port is taken for one: the database's lock must not stay.
        if not parts.store.closed:
            parts.store.close()
