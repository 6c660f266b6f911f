"""Configuration of one Kubernetes: its folder, and what whoever starts it decides for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_common.awake import SleptSince
from steelyard_common.platform_identity import PlatformIdentity
from steelyard_common.types import Json
from steelyard_local_kubernetes.gpus.rules import GpuRules
from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.images import ImageFile, ImageResolver
from steelyard_local_kubernetes.kubelet.warm import WarmModules
from steelyard_local_kubernetes.network import Network
from steelyard_local_kubernetes.renewal import Renewal

NODE = "localhost"  # not the machine's own name: Pods would be bound to a node that is gone once that changes


def always() -> bool:
    """Agree to whatever is asked."""
    return True


@dataclass(frozen=True)
class KubernetesConfig:
    """One Kubernetes on one folder, which keeps its objects and what its Pods write."""

    folder: Path
    network: Network | None = None
    """Loopback addresses of Pods and Services; None: a network that no other Kubernetes of this user has."""
    port: int = 0
    """Port of the API server; 0: a free one."""
    images: ImageResolver | None = None
    """None: what `images.toml` of the folder names, and `python`, the Python that runs now."""
    warm: WarmModules = field(default_factory=WarmModules)
    gpus: GpuRules = field(default_factory=GpuRules)
    definitions: Sequence[Json] = ()
    """CustomResourceDefinitions that are there from the start. Their schemas are not checked: the caller vouches."""
    slept: SleptSince | None = None
    """Function that returns the seconds that the machine slept since a moment; None: it is watched from now on."""
    platform: PlatformIdentity | None = None
    """Owner whom the folder's files have to name; None: they are not asked whose they are."""
    begin_anew: str = ""
    """Command that keeps a lost or damaged database aside, for errors."""
    end_pods: Callable[[], bool] = always
    """Says at the end whether Pods end, too. Otherwise the next run on the folder adopts them."""
    renewal: Renewal = field(default_factory=Renewal)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def database(self) -> Path:
        return self.folder / "kubernetes.db"

    @property
    def at_work(self) -> Path:
        """Path of the marks of objects that are worked on (`at_work.py`)."""
        return self.folder / "at-work"

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def token(self) -> Path:
        """Path of the administrator's token, which is made where it is missing."""
        return self.pki / "token"

    @property
    def pods(self) -> Path:
        return self.folder / "pods"

    @property
    def hosts(self) -> Path:
        """Path of the names of Services, as /etc/hosts has them."""
        return self.folder / "hosts"

    def kubelet(self, network: Network, api: tuple[str, int] | None = None) -> KubeletConfig:
        """Return the configuration of the node, which Pods of an earlier run are ended with as well."""
        return KubeletConfig(
            node=NODE,
            pods=self.pods,
            images=self.images or ImageFile(self.folder / "images.toml"),
            hosts=self.hosts,
            network=network.pods,
            warm=self.warm,
            gpus=self.gpus,
            api=api,
        )
