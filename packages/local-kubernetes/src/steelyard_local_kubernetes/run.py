"""Runs one Kubernetes: API server, controllers, queues, kubelet and names, in one event loop.

`run` is the whole contract: `steelyard service kubernetes`, `python -m steelyard_local_kubernetes` and the fixture of
pytest call it. What it serves is described by a kubeconfig.
"""

import asyncio
import contextlib
import gc
import secrets
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from steelyard_common.awake import SleepWatch, SleptSince, utc_now
from steelyard_common.durable import write_atomically
from steelyard_common.figures import Figures
from steelyard_common.presence import watch
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError, NotFound
from steelyard_kube.events import EventRecorder
from steelyard_kube.resource import NODES, find_resource
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.direct import direct_cluster
from steelyard_local_kubernetes.apiserver.pki import kubeconfig
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, serve
from steelyard_local_kubernetes.at_work import SET_ASIDE, AtWork, Mark
from steelyard_local_kubernetes.config import KubernetesConfig
from steelyard_local_kubernetes.controllers.caches import Caches
from steelyard_local_kubernetes.controllers.pods import is_true
from steelyard_local_kubernetes.controllers.run import run_controllers
from steelyard_local_kubernetes.faults import Faults
from steelyard_local_kubernetes.installation import install_definitions
from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.kubelet import run_kubelet
from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
from steelyard_local_kubernetes.names.run import run_names
from steelyard_local_kubernetes.names.shown import PublishedNames
from steelyard_local_kubernetes.network import claim, claims_folder
from steelyard_local_kubernetes.queues.run import run_queues
from steelyard_local_kubernetes.renewal import sample_memory, watch_memory

ADMINISTRATOR = "steelyard-admin"


async def run(
    config: KubernetesConfig, stop: asyncio.Event, ready: Callable[[Path], None] = lambda kubeconfig: None
) -> None:
    """Run one Kubernetes until `stop`. `ready` gets the path of the kubeconfig once the node takes Pods.

    A part that fails ends the others: the exception says why, and whoever runs it may run it again on the folder.
    Raises Refused where the folder's database is not usable, for a person to decide.
    """
    with contextlib.ExitStack() as claims:
        if (network := config.network) is None:
            config.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            network, claimed = claim(config.folder.resolve(), 0, claims_folder())
            claims.callback(claimed.release)
        for folder in (config.pki, config.pods):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        faults, figures, at_work = Faults(), Figures(), AtWork(config.at_work)
        server_config = ApiServerConfig(
            database=config.database,
            pki=config.pki,
            platform=config.platform,
            begin_anew=config.begin_anew,
            tokens={_read_token(config): ADMINISTRATOR},
            pods=config.pods,
            service_network=network.services,
            port=config.port,
            listener=config.renewal.inherited,
            faults=faults,
            figures=figures,
            at_work=at_work,
        )
        async with serve(server_config) as server:
            write_kubeconfig(config, server.url, server.ca)
            # Not by the kubeconfig: to carry a request over loopback takes longer than to answer it.
            cluster = direct_cluster(server.core, administrator(ADMINISTRATOR), server.url)
            try:
                await install_definitions(cluster, config.definitions)
                where = urlsplit(server.url)
                node = config.kubelet(network, (where.hostname or "127.0.0.1", where.port or 443))
                slept = config.slept or SleepWatch(utc_now, time.monotonic).since
                async with asyncio.TaskGroup() as running:
                    store = server.core.store
                    running.create_task(
                        watch_memory(cluster, lambda: sample_memory(store.version), config.renewal, stop),
                        name="memory",
                    )
                    running.create_task(watch([config.database], stop))
                    running.create_task(
                        _run_parts(
                            cluster, node, stop, lambda: ready(config.kubeconfig),
                            faults=faults, figures=figures, at_work=at_work, slept=slept,
                        )
                    )  # fmt: skip
                if config.renewal.wanted.is_set():
                    config.renewal.keep(server.descriptor)
                if config.end_pods():
                    await stop_all_pods(config.kubelet(network))
            finally:
                await cluster.close()


async def _run_parts(  # noqa: PLR0913 (what the process shares with its parts)
    cluster: Cluster,
    config: KubeletConfig,
    stop: asyncio.Event,
    ready: Callable[[], None],
    *,
    faults: Faults,
    figures: Figures,
    at_work: AtWork,
    slept: SleptSince,
) -> None:
    """Run what works on the API until `stop`."""
    caches, shown = Caches(cluster, faults), PublishedNames()
    async with asyncio.TaskGroup() as parts:
        parts.create_task(caches.run(stop))
        parts.create_task(run_names(caches, config.hosts, stop=stop, shown=shown, faults=faults))
        parts.create_task(
            run_controllers(
                cluster, caches, stop=stop, faults=faults, slept=slept, figures=figures, at_work=at_work
            )
        )
        parts.create_task(run_queues(cluster, caches, stop=stop, now=utc_now, faults=faults))
        kubelet = run_kubelet(
            cluster,
            config,
            stop=stop,
            shown=shown,
            faults=faults,
            slept=slept,
            figures=figures,
            pods=caches,
            at_work=at_work,
        )
        parts.create_task(kubelet)
        await caches.wait_for_sync()
        await tell_set_aside(cluster, at_work, utc_now)
        # Until the kubelet has said what the machine offers, a Pod would only wait.
        nodes = (await cluster.list(NODES)).items
        while not stop.is_set() and not any(is_true(node, "Ready") for node in nodes):
            await asyncio.sleep(0.02)
            nodes = (await cluster.list(NODES)).items
        _collect_seldom()
        ready()


def _collect_seldom() -> None:
    """Let Python search for cycles of garbage seldom, and not among the objects that are there from the start.

    Objects of the API are trees without cycles. A collection for every 700 new ones, and now and then one of all that
    the modules hold, took 7 % of the processor time of a crowd of Jobs.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _read_token(config: KubernetesConfig) -> str:
    """Return the administrator's token, which is made where there is none."""
    if not config.token.exists():
        write_atomically(config.token, secrets.token_urlsafe(32))
    return config.token.read_text().strip()


def write_kubeconfig(config: KubernetesConfig, url: str, ca: Path) -> None:
    """Write the administrator's kubeconfig."""
    content = kubeconfig(url, ca, _read_token(config))
    write_atomically(config.kubeconfig, yaml.safe_dump(content, sort_keys=False))


async def tell_set_aside(cluster: Cluster, at_work: AtWork, now: Callable[[], datetime]) -> None:
    """Record an event on each object that is set aside; `kubectl describe` shows it."""
    events = EventRecorder(cluster, component="steelyard-kubernetes", now=now)
    for mark in list(at_work.set_aside):
        try:
            resource = find_resource({"apiVersion": mark.api_version, "kind": mark.kind})
            obj = await cluster.get(resource, mark.name, mark.namespace or None)
        except NotFound:
            at_work.release(mark)
        except (KeyError, ApiError):
            continue
        else:
            if Mark.from_object(resource, obj) != mark:
                at_work.release(mark)
            else:
                events.record(obj, "Warning", SET_ASIDE, mark.message)
    await events.flush()
