"""The embedded Kubernetes of a state folder, as `steelyard service kubernetes` runs it, for the supervisor or alone.

It runs Steelyard's images and definitions, and forks Steelyard's steps. A process that ends leaves its Pods running,
for the next one to adopt, unless it is asked to end them.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from steelyard.local.files import check_kubernetes
from steelyard.local.image_resolver import image_resolver
from steelyard.local.pipe import Orders
from steelyard.local.platform_identity import begin_anew, load_identity
from steelyard.local.sleeps import sleep_watch
from steelyard.local.state import StateDir
from steelyard.local.warm_modules import WARM_MODULES
from steelyard_local_kubernetes.config import KubernetesConfig
from steelyard_local_kubernetes.gpus.rules import GpuRules
from steelyard_local_kubernetes.network import Network
from steelyard_local_kubernetes.renewal import Renewal
from steelyard_schema.definitions import load_definitions


def kubernetes_config(state: StateDir) -> KubernetesConfig:
    """Return the configuration of a folder's Kubernetes: what ends its Pods needs no more."""
    return KubernetesConfig(state.path, images=image_resolver(state.images), warm=WARM_MODULES)


async def run_kubernetes(
    state: StateDir,
    *,
    port: int,
    network: int,
    settings: Path | None = None,
    orders: Orders,
    renewal: Renewal,
    ready: Callable[[], None],
) -> None:
    """Run Kubernetes until the orders say stop, and whether Pods end.

    The server listens on `port`, or on the socket that an earlier program has left in `renewal`, which says afterwards
    whether the program is to restart.
    """
    from steelyard_local_kubernetes.run import run

    check_kubernetes(state)
    config = replace(
        kubernetes_config(state),
        network=Network(network),
        port=port,
        gpus=gpu_rules(settings, state),
        definitions=load_definitions(),
        slept=sleep_watch(state).since,
        platform=load_identity(state),
        begin_anew=begin_anew(state),
        end_pods=orders.end_pods.is_set,
        renewal=renewal,
    )
    await run(config, orders.stop, lambda kubeconfig: ready())


def gpu_rules(settings: Path | None, state: StateDir) -> GpuRules:
    """Return the rules of GPUs in the settings.

    Without a file and a variable they are the defaults, and nothing else is loaded.
    """
    prefix = "STEELYARD_GPUS"
    if settings is None and not any(name.upper().startswith(prefix) for name in os.environ):
        return GpuRules()
    from steelyard.settings import load

    return GpuRules(**load(settings, state.path).gpus.model_dump())
