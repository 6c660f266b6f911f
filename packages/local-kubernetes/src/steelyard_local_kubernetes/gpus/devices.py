"""GPUs as the kubelet counts them, and the interface of what finds them; NVIDIA's is in `nvidia.py`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Device:
    """One GPU, or one instance of MIG, at one moment."""

    uuid: str
    resource: str  # nvidia.com/gpu, or of an instance of MIG for one nvidia.com/mig-1g.10gb
    name: str
    memory: int = 0  # bytes
    used: int = 0  # bytes
    processes: tuple[int, ...] = ()  # that compute on it, numbered as the machine numbers them
    number: int | None = None  # in the order of the bus; None while numbers are not to be trusted
    fault: str = ""  # why it is given to no Pod


@dataclass(frozen=True)
class Snapshot:
    """State of the machine's GPUs at one moment. With a `problem` it says nothing, and the one before still counts."""

    devices: tuple[Device, ...] = ()
    present: frozenset[str] = (
        frozenset()
    )  # UUIDs of all GPUs, also of those that only their instances stand for
    problem: str = ""


class Finder(Protocol):
    """Interface of one vendor's GPUs. A snapshot may take any time: it never holds up the kubelet's loop."""

    @property
    def vendor(self) -> str:
        """First part of the names of its resources, such as nvidia.com."""

    def absence(self) -> str:
        """Return why this machine is without GPUs that can be counted, and what to do; empty where it may have some."""

    def has_driver(self) -> bool:
        """Return whether programs here could use such GPUs, counted or not."""

    async def snapshot(self) -> Snapshot: ...

    def variables(self, devices: Sequence[Device]) -> dict[str, str]:
        """The variables by which a program sees these devices and no others."""

    async def close(self) -> None: ...
