"""The processes of the cluster's Pods as this machine sees them, by their control groups: their use, and their ends."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steelyard_common.types import Json
from tests.engines.chart.helm import Cluster
from tests.engines.node.guard import CGROUPS

MEMORY = CGROUPS if (CGROUPS / "cgroup.procs").exists() else CGROUPS / "memory"
PROCESSOR = CGROUPS if (CGROUPS / "cgroup.procs").exists() else CGROUPS / "cpuacct"
"""Roots of the trees: one on newer machines, one for each controller on older ones."""
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Use:
    """Memory in MiB, resident and as the limit counts it, and seconds of processor time of a Pod's containers."""

    resident: float
    counted: float
    seconds: float


def use(cluster: Cluster, pod: Json) -> Use:
    """Return what the containers that run in a Pod use, and what they have used since they were started."""
    (memory,), (processor,) = _groups(MEMORY, cluster, pod), _groups(PROCESSOR, cluster, pod)
    figures = dict(line.split() for line in (memory / "memory.stat").read_text().splitlines())
    if MEMORY == CGROUPS:
        counted = (memory / "memory.current").read_text()
        times = dict(line.split() for line in (processor / "cpu.stat").read_text().splitlines())
        resident, seconds = figures["anon"], int(times["usage_usec"]) / 1e6
    else:
        counted = (memory / "memory.usage_in_bytes").read_text()
        resident, seconds = figures["total_rss"], int((processor / "cpuacct.usage").read_text()) / 1e9
    return Use(int(resident) / MEBIBYTE, int(counted) / MEBIBYTE, seconds)


def kill(cluster: Cluster, pod: Json) -> None:
    """Send SIGKILL to every process of a Pod but the one that holds it open."""
    names = [status["containerID"].rpartition("/")[2] for status in pod["status"]["containerStatuses"]]
    for group in _groups(MEMORY, cluster, pod):
        for name in names:
            for number in (group / name / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(number), signal.SIGKILL)


def _groups(root: Path, cluster: Cluster, pod: Json) -> list[Path]:
    return list((root / cluster.kubeconfig.parent.name).rglob(f"pod{pod['metadata']['uid']}"))


def pods(cluster: Cluster, *options: str) -> Iterator[Json]:
    """Yield the Pods of the release that run, in the order of their names."""
    for pod in cluster.get("pods", "--field-selector=status.phase=Running", *options)["items"]:
        if "steelyard/part" in pod["metadata"]["labels"]:
            yield pod
