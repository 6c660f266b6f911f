"""The one node of the machine: its name, and its kubelet's configuration for a state folder.

The Kubernetes process runs the kubelet with it, supervisor and `down` end its Pods with it.
"""

from steelyard.local.kubelet.config import KubeletConfig
from steelyard.local.network import Network
from steelyard.local.state import StateDir

NODE = "localhost"  # not the machine's own name: Pods would be bound to a node that is gone once that changes


def kubelet_config(state: StateDir, network: Network) -> KubeletConfig:
    return KubeletConfig(
        node=NODE, pods=state.pods, images=state.images, hosts=state.hosts, network=network.pods
    )
