"""Rules by which the process kubelet gives out the GPUs of its machine."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class GpuRules:
    """Choices of whoever starts the kubelet; their values are as they were checked."""

    shares: int = 1
    """Pods that may use one GPU at the same time, by turns."""
    unasked: Literal["none", "all"] = "none"
    """GPUs that a container sees which asks for none."""
    others: Literal["wait", "ignore"] = "wait"
    """Treatment of a GPU that a process outside all Pods uses: wait for the process's end, or ignore it."""
    library: str = "pynvml"
    """Python module that speaks to NVML, with the interface of nvidia-ml-py."""
