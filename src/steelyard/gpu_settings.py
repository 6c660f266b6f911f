"""Settings of the machine's GPUs: the table `[gpus]` of `steelyard.toml`.

It stands apart from the other settings because the kubelet reads it, which needs none of them.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class GpuSettings(BaseModel):
    """Rules by which the process kubelet gives out the GPUs of its machine."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    shares: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Pods that may use one GPU at the same time, by turns. From 2 on nothing divides its memory.",
    )
    unasked: Literal["none", "all"] = Field(
        default="none",
        description="GPUs that a container sees which asks for none: `none`, or `all` of the machine's.",
    )
    others: Literal["wait", "ignore"] = Field(
        default="wait",
        description="A GPU that a process outside all Pods uses: `wait` for the process's end, or `ignore` it.",
    )
    library: str = Field(
        default="pynvml", description="Python module that speaks to NVML, with the interface of nvidia-ml-py."
    )
