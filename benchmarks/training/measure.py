"""One measurement: a fresh API server, N training jobs, one operator, first until all run, then until all succeeded.

The operator starts last; the clock runs from its first write, as a watch sees it. In between it is killed and started
again, while all Pods run. Writes are those of the whole cluster less the benchmark's own, so that both operators are
counted by one rule.
"""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.operator.cluster import TOKEN
from benchmarks.operator.measure import peak_memory, process, processor, watched
from benchmarks.peers import peer_python
from benchmarks.training.jobs import make_job, templates
from steelyard_common.types import Json
from steelyard_kube.client import RestCluster, connect
from steelyard_kube.resource import PODS, PYTORCH_JOBS

HERE = Path(__file__).parent
IN_FLIGHT = 32
PATIENCE = 900.0
REPLICAS, WIDE, TRIES = 4, 256, 3
QUIET_SECONDS, QUIET_SHARE = 2.0, 0.1


@dataclass(frozen=True)
class Figures:
    """Figures of one operator with N jobs. Times are in seconds."""

    operator: str
    jobs: int
    to_running: float
    to_succeeded: float
    writes: int
    processor: float
    memory_mb: float
    restart: float
    """Seconds from its start until it rests again, all jobs running."""
    restart_processor: float
    restart_writes: int
    restart_memory_mb: float

    @property
    def rate(self) -> float:
        return self.jobs / (self.to_running + self.to_succeeded)


@asynccontextmanager
async def server(folder: Path) -> AsyncIterator[tuple[RestCluster, subprocess.Popen[bytes]]]:
    """The API server with its simulated Pods, and a connection to it."""
    with process([sys.executable, "-m", "benchmarks.training.cluster", str(folder)]) as running:
        async with asyncio.timeout(PATIENCE):
            while not (folder / "kubeconfig").exists():
                if running.poll() is not None:
                    raise SystemExit("the API server did not start")
                await asyncio.sleep(0.05)
        cluster = await connect(folder / "kubeconfig")
        try:
            yield cluster, running
        finally:
            await cluster.close()


async def measure(operator: str, jobs: int, folder: Path) -> Figures:
    async with server(folder) as (cluster, simulation):
        await _make(cluster, jobs)
        command, environment = _command(operator, folder)
        start = await _version(cluster)
        with process(command, **environment) as first:
            to_running = await until_all(cluster, jobs, "Running", start, first)
            await _rest(first)  # what comes after, such as events, is its work, too
            used, memory = processor(first.pid), peak_memory(first.pid)
        between = await _version(cluster)
        with process(command, **environment) as second:
            rested = await _rest(second)
            again = await _version(cluster)
            spent, restart_memory = processor(second.pid), peak_memory(second.pid)
            simulation.send_signal(signal.SIGUSR1)
            to_succeeded = await until_all(cluster, jobs, "Succeeded", again, second, time.monotonic())
            await _rest(second)
            used, memory = used + processor(second.pid) - spent, max(memory, peak_memory(second.pid))
        simulated = 2 * jobs * REPLICAS
        writes = between - start + await _version(cluster) - again - simulated
        return Figures(
            operator, jobs, to_running, to_succeeded, writes, used, memory,
            rested, spent, again - between, restart_memory,
        )  # fmt: skip


async def bring_up(operator: str, jobs: int, folder: Path) -> float:
    """Processor seconds from an operator's first write until all jobs run and it rests."""
    async with server(folder) as (cluster, _):
        await _make(cluster, jobs)
        command, environment = _command(operator, folder)
        start = await _version(cluster)
        with process(command, **environment) as running:
            span = await watched(
                cluster, PYTORCH_JOBS, jobs, lambda job: holds(job, "Running"), start, running
            )
            await _rest(running)
            return processor(running.pid) - span.starting


async def wide(operator: str, folder: Path) -> float:
    """Seconds from a job of 256 replicas being applied to its last Pod being there: the median of a few."""
    async with server(folder) as (cluster, _):
        command, environment = _command(operator, folder)
        with process(command, **environment) as running:
            seconds = []
            for number in range(TRIES):
                await _rest(running)
                seconds.append(await _until_made(cluster, f"wide-{number}"))
            return sorted(seconds)[TRIES // 2]


async def _until_made(cluster: RestCluster, name: str) -> float:
    version = str(await _version(cluster))
    began, made = time.monotonic(), 0
    await cluster.create(PYTORCH_JOBS, make_job(name, WIDE))
    async with asyncio.timeout(PATIENCE):
        async for event in cluster.watch(PODS, resource_version=version):
            made += event.type == "ADDED"
            if made == WIDE:
                break
    return time.monotonic() - began


async def _make(cluster: RestCluster, jobs: int) -> None:
    limit = asyncio.Semaphore(IN_FLIGHT)

    async def one(number: int) -> None:
        async with limit:
            await cluster.create(PYTORCH_JOBS, make_job(f"job-{number:05d}", REPLICAS))

    await asyncio.gather(*(one(number) for number in range(jobs)))


async def until_all(
    cluster: RestCluster,
    jobs: int,
    stage: str,
    version: int,
    running: subprocess.Popen[bytes],
    since: float = 0.0,
) -> float:
    """Seconds from `since`, or else from the first write of a job's status, to the last job's condition."""
    span = await watched(cluster, PYTORCH_JOBS, jobs, lambda job: holds(job, stage), version, running)
    return span.ended - (since or span.began)


def holds(job: Json, stage: str) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == stage and condition["status"] == "True" for condition in conditions)


async def _rest(running: subprocess.Popen[bytes]) -> float:
    """Seconds from now until the process has begun to rest: it uses a tenth of a core at most, for two seconds."""
    began = time.monotonic()
    async with asyncio.timeout(PATIENCE):
        while True:
            before, at = processor(running.pid), time.monotonic()
            await asyncio.sleep(QUIET_SECONDS)
            used = processor(running.pid) - before
            if before > QUIET_SHARE and used < QUIET_SHARE * QUIET_SECONDS:
                return at - began


async def _version(cluster: RestCluster) -> int:
    """One more with each write to the cluster."""
    return int((await cluster.list(PYTORCH_JOBS, "nowhere")).resource_version)


def _command(operator: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    kubeconfig = folder / "kubeconfig"
    if operator == "steelyard":
        return [sys.executable, "-m", "benchmarks.operator.steelyard_operator", str(kubeconfig)], {}
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    written = folder / "templates.json"
    written.write_text(json.dumps({str(count): templates(count) for count in (REPLICAS, WIDE)}))
    environment = {
        "API": cluster["server"],
        "TOKEN": TOKEN,
        "CA": str(folder / "pki" / "ca.crt"),
        "TEMPLATES": str(written),
    }
    command = ["-m", "kopf", "run", "--quiet", "-n", "default", str(HERE / "kopf_operator.py")]
    return [str(peer_python("kopf")), *command], environment
