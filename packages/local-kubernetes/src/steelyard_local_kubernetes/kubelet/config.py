"""Configuration of the process kubelet; its starter makes it (`steelyard service kubernetes`, tests)."""

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from steelyard_local_kubernetes.gpus.devices import Finder
from steelyard_local_kubernetes.gpus.rules import GpuRules
from steelyard_local_kubernetes.kubelet.images import ImageResolver
from steelyard_local_kubernetes.kubelet.warm import WarmModules


@dataclass(frozen=True)
class KubeletConfig:
    """One node and its folders. `pods` lies in the state folder; everything else about a Pod lies below it."""

    node: str
    pods: Path
    images: ImageResolver
    hosts: Path  # the shared hosts file; next to it lie the namespaces' own, shown to Pods as /etc/hosts
    network: str = "127.200.0.0/17"  # each Pod gets an address of its own from here, never twice
    cpu: float | None = None  # allocatable cores; None: the machine's
    memory: int | None = None  # allocatable bytes; None: the machine's
    keep: tuple[Path, ...] = ()  # stays visible under volumes mounted above it; the state folder always does
    mounts: Literal["auto", "never"] = "auto"  # never: as on a machine without mount namespaces
    pids: Literal["auto", "never"] = "auto"  # never: as where containers have the machine's process numbers
    binds: Literal["auto", "never"] = (
        "auto"  # never: as where the kernel lets no process answer calls of bind
    )
    python: str = sys.executable  # runs the shims
    lease_seconds: float = 300.0  # shims end their trees when the lease was not renewed for so long
    crash_backoff: float = 10.0  # seconds before the second restart; doubles up to 30 times that
    warm: WarmModules = field(default_factory=WarmModules)
    gpus: GpuRules = field(default_factory=GpuRules)
    finder: Finder | None = None  # finds GPUs; None: NVIDIA's
    api: tuple[str, int] | None = None  # where the API server answers, for programs in Pods
    interval: float = 0.5  # between two checks of listening sockets and memory, only while Pods run

    @property
    def lease(self) -> Path:
        return self.pods / ".lease"

    @property
    def claims(self) -> Path:
        """Folder of what Pods keep under a claim's name, next to the Pods' own folders."""
        return self.pods.with_name("claims")

    def allocatable(self) -> dict[str, float]:
        """CPU in cores, memory and disk in bytes, Pods."""
        memory = self.memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        disk = shutil.disk_usage(self.pods if self.pods.exists() else "/").total
        amounts = {"cpu": self.cpu or float(os.cpu_count() or 1), "memory": float(memory), "pods": 1000.0}
        return {**amounts, "ephemeral-storage": float(disk)}
