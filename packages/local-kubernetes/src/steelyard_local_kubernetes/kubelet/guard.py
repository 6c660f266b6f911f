"""Watches what running Pods take that is not theirs: memory beyond a limit, a port on every address.

The kubelet runs it. It checks once in each interval, and only while Pods run: /proc/net/tcp names the listening
sockets, and whose a socket is gets asked only when one is new.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from steelyard_common import processes
from steelyard_local_kubernetes.kubelet.records import OUT_OF_MEMORY, Failure
from steelyard_local_kubernetes.kubelet.worker import PodWorker
from steelyard_local_kubernetes.pod_traits import may_bind_all
from steelyard_local_kubernetes.quantity import quantity_text

log = logging.getLogger(__name__)
_EVERYWHERE = frozenset(
    ("0" * 8, "0" * 32, "0000000000000000FFFF000000000000")
)  # 0.0.0.0, ::, ::ffff:0.0.0.0


@dataclass(frozen=True)
class Listener:
    """A socket that listens on all addresses."""

    port: int
    inode: int


def parse_listeners(lines: Iterable[str]) -> tuple[set[Listener], bool]:
    """The sockets that listen on all addresses, and whether the table's listening part has ended."""
    listeners_: set[Listener] = set()
    for line in lines:
        fields = line.split()
        if len(fields) < 10 or fields[0] == "sl":
            continue
        # The kernel lists listening sockets first: the connections of a busy machine need not be read.
        if fields[3] != "0A":
            return listeners_, True
        address, port = fields[1].split(":")
        if address in _EVERYWHERE:
            listeners_.add(Listener(int(port, 16), int(fields[9])))
    return listeners_, False


def listeners(tables: tuple[str, ...] = ("/proc/net/tcp", "/proc/net/tcp6")) -> set[Listener]:
    """All sockets of the machine that listen on all addresses."""
    listeners_: set[Listener] = set()
    for table in tables:
        try:
            fd = os.open(table, os.O_RDONLY)
        except FileNotFoundError:  # no IPv6
            continue
        rest, ended = "", False
        while not ended and (read := os.read(fd, 1 << 14)):
            *lines, rest = (rest + read.decode()).split("\n")
            more, ended = parse_listeners(lines)
            listeners_ |= more
        os.close(fd)
    return listeners_


class Guard:
    """The checks of all running Pods. Set `wake` when a container has been started: it sleeps while none runs."""

    def __init__(self, interval: float, workers: Callable[[], list[PodWorker]]) -> None:
        self.interval, self.workers = interval, workers
        self.wake = asyncio.Event()
        self._judged: set[Listener] = set()  # belong to no process that must not have them
        self._shims: frozenset[int] = frozenset()
        self._checks = 0

    async def run(self) -> None:
        while True:
            await self.wake.wait()
            await asyncio.sleep(self.interval)
            if not self._check_all():
                self.wake.clear()
                self._judged.clear()

    def _check_all(self) -> bool:
        """Check the Pods with running processes, not the many ended ones; return False if nothing runs."""
        workers = [worker for worker in self.workers() if worker.containers.shim_pids()]
        if not workers:
            return False
        self._checks += 1
        shims = frozenset(pid for worker in workers for pid in worker.containers.shim_pids().values())
        self._check(workers, shims)
        return True

    def _check(self, workers: list[PodWorker], shims: frozenset[int]) -> None:
        """Check these Pods. The machine's processes are read at most once, and not at all when nothing asks for it."""
        # A container may have listened before its shim was known here: with
        # other shims every listener is judged again.
        if shims != self._shims:
            self._judged.clear()
            self._shims = shims
        current = listeners()
        fresh = current - self._judged
        # Memory only at every second check: for it the processes of the whole machine are read.
        limited = self._checks % 2 == 0 and any(_may_have_limits(worker) for worker in workers)
        if not fresh and not limited:
            return
        parents = processes.parents()
        failed = False
        for worker in workers:
            try:
                if fresh and not may_bind_all(worker.pod, available=worker.node.can.binds):
                    self._check_listeners(worker, fresh, parents)
                if limited:
                    _check_memory(worker, parents)
            except Exception as error:  # noqa: BLE001 - one Pod's fault must not leave the others unguarded
                log.warning(
                    "pod %s: its limits cannot be enforced: %s", worker.pod["metadata"]["name"], error
                )
                failed = True
        # After a failure the next check judges the same sockets again, for the Pod that could not be checked.
        if not failed:
            self._judged = current

    def _check_listeners(self, worker: PodWorker, fresh: set[Listener], parents: dict[int, int]) -> None:
        ports = {listener.inode: listener.port for listener in fresh}
        for name, shim in worker.containers.shim_pids().items():
            for pid in processes.tree([shim], parents) - {shim}:
                for inode in processes.socket_inodes(pid) & ports.keys():
                    worker.fail(
                        Failure(
                            "BoundToAllAddresses",
                            f"process {pid} of container {name!r} listens on port {ports[inode]} of all addresses;"
                            f" it must bind the Pod's own, {worker.ip} ($(POD_IP))",
                        )
                    )


def _may_have_limits(worker: PodWorker) -> bool:
    try:
        return bool(worker.memory_limits())
    except Exception:  # noqa: BLE001 - said where its memory is judged
        return True


def _check_memory(worker: PodWorker, parents: dict[int, int]) -> None:
    for name, limit in worker.memory_limits().items():
        shim = worker.containers.shim_pids().get(name)
        pids = processes.tree([shim], parents) - {shim} if shim else set()
        # The first sum counts shared pages several times and costs little: only
        # what exceeds the limit by it is counted exactly.
        if processes.resident(pids) > limit and (used := processes.proportional(pids)) > limit:
            amounts = (
                f"{quantity_text('memory', used)} of memory, its limit is {quantity_text('memory', limit)}"
            )
            # As on a node the container's state gives the reason alone.
            if worker.containers.kill(name, OUT_OF_MEMORY):
                worker.events.record(
                    worker.pod, "Warning", OUT_OF_MEMORY, f"container {name!r} used {amounts}"
                )
