"""An embedded Kubernetes in a process of its own, and what it and everything that it starts take of the machine."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from steelyard.local.files import prepare
from steelyard.local.state import StateDir
from steelyard_local_kubernetes.network import claim, claims_folder

IMAGE = "localhost/benchmark"
READY_SECONDS = 60.0
STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Running:
    """An embedded Kubernetes that answers."""

    pid: int
    state: StateDir

    def processor(self) -> float:
        """Processor seconds of the process, of what it started, and of their ended and collected children."""
        return sum(processor_of(pid) for pid in tree(self.pid))

    def own_processor(self) -> float:
        """Processor seconds of the process alone: API server, controllers and kubelet."""
        return processor_of(self.pid, children=False)

    def memory(self) -> float:
        """Proportional set size of the process in MB."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024

    def stored(self) -> float:
        """Size of the database and its log in MB."""
        files = self.state.path.glob("kubernetes.db*")
        return sum(file.stat().st_size for file in files) / 2**20


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    state = StateDir(folder)
    prepare(state)
    state.images.write_text(f'["{IMAGE}"]\npython = "{sys.executable}"\n')
    network, lock = claim(folder, 0, claims_folder())
    try:
        with (folder / "log").open("wb") as log:
            command = ["-m", "steelyard.cli.service", "kubernetes", "--state-dir", str(folder)]
            process = subprocess.Popen(
                [sys.executable, *command, "--network", str(network.number)], stdout=log, stderr=log
            )
        try:
            _await_node(process, state)
            yield Running(process.pid, state)
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)
    finally:
        lock.release()


def _await_node(process: subprocess.Popen[bytes], state: StateDir) -> None:
    """Wait until a Pod could be placed: the hosts file and the kubeconfig are the last that is written."""
    end = time.monotonic() + READY_SECONDS
    while not (state.kubeconfig.exists() and state.hosts.exists()):
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit((state.path / "log").read_text())
        time.sleep(0.02)


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    pids = [pid]
    for number in pids:
        for task in Path(f"/proc/{number}/task").glob("*/children"):
            pids += [int(child) for child in task.read_text().split()]
    return pids


def processor_of(pid: int, *, children: bool = True) -> float:
    """Processor seconds of a process, and of the children that it has collected."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(int(field) for field in fields[11 : 15 if children else 13]) / os.sysconf("SC_CLK_TCK")
