"""Renewal of the Kubernetes process: it executes its own program again when a crowd has left its memory in pieces.

Python gives back a megabyte of small objects only when all of it is free, so that the memory of thousands of objects
stays although next to nothing of it is in use. `watch_memory` orders it; who started the process then executes the
program again, with the listening socket. A client that connects meanwhile waits: the socket outlives the program, as
does the process with its number.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from steelyard_common.processes import resident
from steelyard_common.types import mapping
from steelyard_kube.cluster import Cluster
from steelyard_kube.resource import PODS

log = logging.getLogger(__name__)
SAMPLE_SECONDS = 60.0
QUIET_SAMPLES = 6
"""Samples in a row without much to do: one more than the minutes after which the last changes are forgotten."""
QUIET_WRITES = 200  # between two samples; leases and heartbeats alone come to less
GROWTH = 1.25  # since the first sample
ENDED = ("Succeeded", "Failed")


@dataclass
class Renewal:
    """Order to restart in place, and the listening sockets of the program before this one and of the next."""

    inherited: int | None = None
    """File descriptor of the socket on which the program before this one listened, if there was one."""
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    listener: int | None = None
    """File descriptor, of a copy that stays open; None until the server has stopped for the renewal."""

    def order(self, stop: asyncio.Event) -> None:
        """Order the renewal: the program stops, and restarts unless it was asked to end before."""
        if not stop.is_set():
            self.wanted.set()
            stop.set()

    def keep(self, listener: int) -> None:
        """Keep the socket open beyond the end of the server that listens on it."""
        self.listener = os.dup(listener)


@dataclass(frozen=True)
class Sample:
    """Resident bytes of the process at one time, and the version of the last write to the API."""

    memory: int
    version: int


@dataclass
class MemoryHistory:
    """Summary of the samples until now."""

    first: int = 0  # bytes resident at the first sample
    version: int = 0
    quiet: int = 0  # samples in a row

    def add(self, sample: Sample) -> bool:
        """Add a sample; return whether to restart."""
        written, self.version = sample.version - self.version, sample.version
        self.quiet = self.quiet + 1 if written < QUIET_WRITES else 0
        self.first = self.first or sample.memory
        return self.quiet >= QUIET_SAMPLES and sample.memory > self.first * GROWTH


def sample_memory(version: int) -> Sample:
    """Return a sample of this process, for the version of the last write."""
    return Sample(resident([os.getpid()]), version)


async def watch_memory(
    cluster: Cluster,
    take: Callable[[], Sample],
    renewal: Renewal,
    stop: asyncio.Event,
    seconds: float = SAMPLE_SECONDS,
) -> None:
    """Order a renewal once it is due and no Pod runs; return then, or at `stop`. Takes a sample every so many seconds.

    While a Pod runs, its connections by Services, its log and its terminals pass through this process.
    """
    history = MemoryHistory()
    # What the process has loaded by then is its first size; later, a crowd might be there already.
    await _pause(stop, seconds / 6)
    while not stop.is_set():
        sample = take()
        if history.add(sample) and not await _any_pod_runs(cluster):
            log.info("%.0f MB of memory, %.0f MB at first", sample.memory / 1e6, history.first / 1e6)
            renewal.order(stop)
            return
        await _pause(stop, seconds)


async def _any_pod_runs(cluster: Cluster) -> bool:
    pods = (await cluster.list(PODS)).items
    return any(mapping(pod, "status").get("phase") not in ENDED for pod in pods)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass
