"""The cluster itself: two at once, no way out, and nothing that stays after kill -9."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engines.node import guard
from tests.engines.node.cluster import NODE, ROOT, node_cluster
from tests.engines.node.pods import log, reaches, run_pod
from tests.kubernetes_api.api import Api

pytestmark = pytest.mark.skipif(NODE in os.environ, reason=f"{NODE} names a cluster that is not ours")
SECONDS = 180.0


@contextmanager
def running_cluster() -> "Iterator[tuple[subprocess.Popen[str], Path]]":
    """A cluster of a run of its own, which a test may kill, and its kubeconfig."""
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.engines.node.cluster"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert run.stdout is not None
    try:
        yield run, Path(run.stdout.readline().split(" ")[0])
    finally:
        run.kill()
        run.communicate()


def below(pid: int) -> dict[int, str]:
    """All processes below one, by their ids, with the times of their starts."""
    direct = children(pid)
    return {child: started(child) for child in direct} | {
        pid: begun for child in direct for pid, begun in below(child).items()
    }


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def started(pid: int) -> str:
    """The start of a process in ticks; empty where it has ended."""
    try:
        state, *words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if state in "ZX" else words[18]


def commands(pids: dict[int, str]) -> set[str]:
    return {Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids}


def links() -> set[str]:
    return set(os.listdir("/sys/class/net"))


def mounts(folder: Path) -> list[str]:
    """The machine's mounts that have to do with a cluster."""
    words = (str(folder), "containerd", "netns")
    return [
        line
        for line in Path("/proc/self/mounts").read_text().splitlines()
        if any(map(line.__contains__, words))
    ]


def groups(folder: Path) -> list[Path]:
    return [root / folder.name for root in guard.hierarchies() if (root / folder.name).exists()]


def until_gone(pids: dict[int, str], folder: Path | None = None) -> None:
    """Return once the processes have ended and, if asked, the folder and its cgroups are removed."""
    end = time.monotonic() + SECONDS
    while any(started(pid) == begun for pid, begun in pids.items()) or (folder and folder.exists()):
        assert time.monotonic() < end, {pid: started(pid) == begun for pid, begun in pids.items()}
        time.sleep(0.02)


async def with_a_pod(kubeconfig: Path) -> None:
    """Leave a Pod running, with all that holds it: a shim, mounts, a network of its own."""
    api = Api(kubeconfig)
    await run_pod(api, "stays", "sleep 1000")
    await reaches(api, "stays", "Running")
    await api.close()


async def test_two_side_by_side_each_with_its_own_pods_and_no_way_out() -> None:
    with node_cluster() as one, node_cluster() as other:
        apis = [Api(one), Api(other)]
        for number, api in enumerate(apis):
            address = ".".join(["192", "0", "2", "1"])
            await run_pod(api, "same", f"echo cluster {number}; nc -w 5 {address} 80 2>&1")
        for number, api in enumerate(apis):
            await reaches(api, "same", "Failed")
            lines = (await log(api, "same")).splitlines()
            assert lines[0] == f"cluster {number}"
            assert "unreachable" in lines[1]
        for api in apis:
            await api.close()


def test_nothing_is_left_after_its_run_is_killed() -> None:
    before = links()
    with running_cluster() as (run, kubeconfig):
        asyncio.run(with_a_pod(kubeconfig))
        pids, folder = below(run.pid), kubeconfig.parent
        assert {"containerd-shim", "kubelet", "sleep"} <= commands(pids)
        assert len(groups(folder)) == len(guard.hierarchies())
        assert links() == before, "its networks are its own"
        assert mounts(folder) == [], "its mounts, too"
        os.killpg(run.pid, signal.SIGKILL)
        until_gone(pids, folder)
        assert groups(folder) == []


def test_no_process_is_left_after_its_run_and_its_guard_are_killed_and_the_next_one_tidies() -> None:
    with running_cluster() as (run, kubeconfig):
        asyncio.run(with_a_pod(kubeconfig))
        pids, folder = below(run.pid), kubeconfig.parent
        (guarding,) = children(run.pid)
        os.kill(run.pid, signal.SIGKILL)
        os.kill(guarding, signal.SIGKILL)
        until_gone(pids)
        assert folder.exists()
        guard.sweep()
        assert not folder.exists()
        assert groups(folder) == []


def test_a_living_cluster_is_not_swept() -> None:
    with node_cluster() as kubeconfig:
        guard.sweep()
        asyncio.run(with_a_pod(kubeconfig))
