"""The processes of one machine, each as one coroutine: the embedded Kubernetes, and the operator.

`steelyard service NAME` runs them (`cli/service.py`), for the supervisor or alone. A Kubernetes process that ends
leaves its Pods running, for the next one to adopt, unless it is asked to end them.
"""

import asyncio
import gc
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from steelyard.figures import Figures
from steelyard.gpu_settings import GpuSettings
from steelyard.local.at_work import AtWork
from steelyard.local.controllers.pods import is_true
from steelyard.local.faults import Faults
from steelyard.local.files import check_kubernetes, watch
from steelyard.local.identity import process_candidate
from steelyard.local.kubectl import IMAGE as KUBECTL
from steelyard.local.kubelet.config import KubeletConfig
from steelyard.local.network import Network
from steelyard.local.node import kubelet_config
from steelyard.local.pipe import Orders
from steelyard.local.platform_identity import load_identity
from steelyard.local.renewal import Renewal, sample_memory, watch_memory
from steelyard.local.set_aside import tell_set_aside
from steelyard.local.sleeps import sleep_watch
from steelyard.local.state import StateDir, write_atomically
from steelyard.operator.settings import OperatorSettings
from steelyard_kube.client import connect
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import AlreadyExists
from steelyard_kube.objects import annotations_of
from steelyard_kube.patches import merge_patch
from steelyard_kube.resource import CRDS, NODES

if TYPE_CHECKING:
    from steelyard.settings import Settings

_log = logging.getLogger(__name__)
CRD_SECONDS = 20.0
ADMINISTRATOR = "steelyard-admin"
RAY_LISTEN, RAY_SERVICE = "127.0.0.1:9443", "kube-system/steelyard-ray"


async def run_kubernetes(
    state: StateDir,
    *,
    port: int,
    network: Network,
    settings: Path | None = None,
    orders: Orders,
    renewal: Renewal,
    ready: Callable[[], None],
) -> None:
    """API server, controllers, kubelet and names in one loop, until the orders say stop, and whether Pods end.

    The server listens on `port`, or on the socket that an earlier program has left in `renewal`, which says afterwards
    whether the program is to restart.
    """
    from steelyard.local.apiserver.access.users import administrator
    from steelyard.local.apiserver.direct import direct_cluster
    from steelyard.local.apiserver.server import ApiServerConfig, serve

    check_kubernetes(state)
    config = ApiServerConfig(
        database=state.database,
        pki=state.pki,
        platform=load_identity(state),
        tokens={state.token.read_text().strip(): ADMINISTRATOR},
        pods=state.pods,
        service_network=network.services,
        port=port,
        listener=renewal.inherited,
        faults=(faults := Faults()),
        figures=(figures := Figures()),
        at_work=(at_work := AtWork(state.at_work)),
    )
    async with serve(config) as server:
        write_kubeconfig(state, server.url, server.ca)
        # Not by the kubeconfig: to carry a request over loopback takes longer than to answer it.
        cluster = direct_cluster(server.core, administrator(ADMINISTRATOR), server.url)
        try:
            await apply_crds(cluster)
            where = urlsplit(server.url)
            api = (where.hostname or "127.0.0.1", where.port or 443)
            node = replace(kubelet_config(state, network), gpus=gpu_settings(settings, state), api=api)
            async with asyncio.TaskGroup() as running:
                store = server.core.store
                running.create_task(
                    watch_memory(cluster, lambda: sample_memory(store.version), renewal, orders.stop),
                    name="memory",
                )
                running.create_task(
                    _run_parts(
                        cluster,
                        state,
                        node,
                        orders.stop,
                        ready,
                        faults=faults,
                        figures=figures,
                        at_work=at_work,
                    )
                )
            if renewal.wanted.is_set():
                renewal.keep(server.descriptor)
            if orders.end_pods.is_set():
                from steelyard.local.kubelet.stopping import stop_all_pods

                await stop_all_pods(kubelet_config(state, network))
        finally:
            await cluster.close()


async def _run_parts(  # noqa: PLR0913 (what the process shares with its parts)
    cluster: Cluster,
    state: StateDir,
    config: KubeletConfig,
    stop: asyncio.Event,
    ready: Callable[[], None],
    *,
    faults: Faults,
    figures: Figures,
    at_work: AtWork,
) -> None:
    """Run what works on the API until `stop`. A part that fails takes the process down: the supervisor starts
    it again.
    """
    from steelyard.local.controllers.caches import Caches
    from steelyard.local.controllers.run import run_controllers, utc_now
    from steelyard.local.kubelet.kubelet import run_kubelet
    from steelyard.local.names.run import run_names
    from steelyard.local.names.shown import PublishedNames
    from steelyard.local.queues.run import run_queues

    caches, shown, slept = Caches(cluster, faults), PublishedNames(), sleep_watch(state).since
    async with asyncio.TaskGroup() as parts:
        parts.create_task(watch([state.database], stop))
        parts.create_task(caches.run(stop))
        parts.create_task(run_names(caches, state.hosts, stop=stop, shown=shown, faults=faults))
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
        await caches.synced()
        await tell_set_aside(cluster, at_work, utc_now)
        # Until the kubelet has said what the machine offers, a Pod would only wait.
        nodes = (await cluster.list(NODES)).items
        while not stop.is_set() and not any(is_true(node, "Ready") for node in nodes):
            await asyncio.sleep(0.02)
            nodes = (await cluster.list(NODES)).items
        _collect_seldom()
        ready()


def gpu_settings(settings: Path | None, state: StateDir) -> GpuSettings:
    """The settings of GPUs. Without a file and a variable they are the defaults, and nothing else is loaded."""
    prefix = "STEELYARD_GPUS"
    if settings is None and not any(name.upper().startswith(prefix) for name in os.environ):
        return GpuSettings()
    from steelyard.settings import load

    return load(settings, state.path).gpus


def _collect_seldom() -> None:
    """Let Python search for cycles of garbage seldom, and not among what is there from the start.

    Objects of the API are trees without cycles. A collection for every 700 new ones, and now and then one of all that
    the modules hold, took 7 % of the processor time of a crowd of Jobs.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


async def run_operator_service(
    state: StateDir, *, settings: Path | None, stop: asyncio.Event, ready: Callable[[], None]
) -> None:
    """The operator, with the settings of a file or of this state folder."""
    from steelyard.monitoring import listen_address
    from steelyard.operator.main import run_operator
    from steelyard.settings import load
    from steelyard.tracing import traced

    loaded = load(settings, state.path)
    operator = operator_settings(loaded, state)

    def listening(url: str) -> None:
        _log.info("metrics are served on %s", url)
        write_atomically(state.operator_metrics, f"{url}\n")

    cluster = await connect(Path(loaded.kubernetes))
    try:
        await cluster.list(CRDS)  # says at once when the API does not answer or refuses the token
        ready()
        where = listen_address(operator.metrics, one_machine=state.runs(loaded.kubernetes))
        with traced("operator", loaded.telemetry.otlp_endpoint):
            await run_operator(
                cluster,
                operator,
                candidate=process_candidate(),
                stop=stop,
                metrics=where,
                listening=listening,
                sleeps=sleep_watch(state).sleeps,
            )
    finally:
        state.operator_metrics.unlink(missing_ok=True)
        await cluster.close()


def operator_settings(loaded: "Settings", state: StateDir) -> OperatorSettings:
    """The operator's part. On the embedded Kubernetes, what is not set lies in this folder; an empty text is set.

    Another cluster's nodes know neither the folder nor the local image.
    """
    training = loaded.operator.training
    here = {"outputs": str(state.outputs), "kubectl_delivery_image": KUBECTL}
    if state.runs(loaded.kubernetes):
        unset = {name: value for name, value in here.items() if name not in training.model_fields_set}
        training = training.model_copy(update=unset)
    ray = loaded.operator.ray
    if state.runs(loaded.kubernetes):
        # Its Pods and its API call this process itself, at an address that stays when it is started again.
        local = {"listen": RAY_LISTEN, "service": RAY_SERVICE}
        unset = {name: value for name, value in local.items() if name not in ray.model_fields_set}
        ray = ray.model_copy(update=unset)
    parts = {"storage": loaded.storage, "egress": loaded.egress, "training": training, "ray": ray}
    return loaded.operator.model_copy(update=parts)


def write_kubeconfig(state: StateDir, url: str, ca: Path) -> None:
    import yaml

    from steelyard.local.apiserver.pki import kubeconfig

    content = kubeconfig(url, ca, state.token.read_text().strip())
    write_atomically(state.kubeconfig, yaml.safe_dump(content, sort_keys=False))


async def apply_crds(cluster: Cluster) -> None:
    """Bring the resource definitions to this version's, and wait until they are served.

    A definition that another project has installed stays as it is.
    """
    from steelyard.local.definitions.building import EMBEDDED
    from steelyard.local.definitions.embedded import embedded_definitions
    from steelyard_schema.definitions import installed_definitions

    embedded = embedded_definitions()
    definitions = [*installed_definitions(), *embedded]
    present = {crd["metadata"]["name"]: crd for crd in (await cluster.list(CRDS)).items}
    for definition in definitions:
        name = definition["metadata"]["name"]
        if name not in present:
            try:
                await cluster.create(CRDS, definition)
                continue
            except AlreadyExists:  # a client was faster
                present[name] = await cluster.get(CRDS, name)
        if definition in embedded and EMBEDDED not in annotations_of(present[name]):
            continue
        # A merge patch of the whole spec. One that changes nothing would be no write, but all checks of the schema.
        patch = {"spec": definition["spec"]}
        if merge_patch(present[name], patch) != present[name]:
            await cluster.patch(CRDS, name, patch)
    async with asyncio.timeout(CRD_SECONDS):
        waiting = [definition["metadata"]["name"] for definition in definitions]
        while waiting:
            established = {
                definition["metadata"]["name"]: definition for definition in (await cluster.list(CRDS)).items
            }
            waiting = [name for name in waiting if not is_true(established.get(name, {}), "Established")]
            await asyncio.sleep(0.05 if waiting else 0)
