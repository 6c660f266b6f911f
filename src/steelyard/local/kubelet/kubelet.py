"""The process kubelet's entry points: `run_kubelet` beside the API server, `stop_all_pods` for `steelyard down`."""

import asyncio
from typing import TYPE_CHECKING

from steelyard.local.kubelet.config import KubeletConfig

if TYPE_CHECKING:
    from steelyard.kube.cluster import Cluster

__all__ = ["KubeletConfig", "run_kubelet", "stop_all_pods"]


async def run_kubelet(cluster: "Cluster", config: KubeletConfig, *, stop: asyncio.Event) -> None:
    """Runs the node's Pods until `stop`; then returns and leaves them running, for the next one to adopt."""
    raise NotImplementedError


async def stop_all_pods(config: KubeletConfig, *, grace: float = 5.0) -> None:
    """Ends every process of every Pod by the shims' records alone; for `down`, after the kubelet has ended."""
    raise NotImplementedError
