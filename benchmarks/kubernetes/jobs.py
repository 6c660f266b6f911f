"""Jobs of `true`: from creation to Complete one by one, and many at once, with the processor time of each."""

import asyncio
import statistics
import time
from dataclasses import dataclass

from benchmarks.kubernetes.running import IMAGE, Running
from steelyard_common.types import Json, sequence
from steelyard_kube.client import RestCluster, connect
from steelyard_kube.resource import JOBS

PATIENCE = 900.0
SETTLE_SECONDS = 3.0  # events are written a second after what they tell


@dataclass(frozen=True)
class Latency:
    """Milliseconds from the request that creates a Job to the event that it is Complete."""

    jobs: int
    median: float
    worst: float  # the 99th percentile
    processor: float  # milliseconds per Job, of all processes
    own: float  # milliseconds per Job, of the Kubernetes process
    requests: float  # per Job, of whoever sends them


@dataclass(frozen=True)
class Rate:
    """Rate at which Jobs that were created together become Complete."""

    jobs: int
    seconds: float
    processor: float
    own: float
    requests: float

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


def make_job(name: str) -> Json:
    container = {"name": "main", "image": IMAGE, "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template},
    }


def is_complete(job: Json) -> bool:
    conditions = sequence(job.get("status") or {}, "conditions")
    return any(entry["type"] == "Complete" and entry["status"] == "True" for entry in conditions)


class Completions:
    """Times at which Jobs are seen to be Complete."""

    def __init__(self, cluster: RestCluster) -> None:
        self._cluster = cluster
        self.at: dict[str, float] = {}
        self._awaited: dict[str, asyncio.Event] = {}

    async def follow(self, version: str) -> None:
        while True:
            async for event in self._cluster.watch(JOBS, resource_version=version):
                version = event.object["metadata"]["resourceVersion"]
                if event.type == "MODIFIED" and is_complete(event.object):
                    name = event.object["metadata"]["name"]
                    self.at.setdefault(name, time.monotonic())
                    self._awaited.setdefault(name, asyncio.Event()).set()

    async def wait(self, names: list[str]) -> None:
        async with asyncio.timeout(PATIENCE):
            for name in names:
                await self._awaited.setdefault(name, asyncio.Event()).wait()
                del self._awaited[name]


class Usage:
    """Use of the machine in a stretch of time, and the requests that the API server answered in it."""

    def __init__(self, server: Running, cluster: RestCluster) -> None:
        self._server, self._cluster = server, cluster
        self.processor, self.own, self.requests = 0.0, 0.0, 0.0

    async def begin(self) -> None:
        # Before the times, and at the end after them: to tell all its figures takes the server as long as half a Job.
        requests = await requests_of(self._cluster)
        self._before = (self._server.processor(), self._server.own_processor(), requests)

    async def end(self, jobs: int) -> tuple[float, float, float]:
        """Milliseconds of all processes, of the server's alone, and requests; each per Job."""
        all_after, own_after = self._server.processor(), self._server.own_processor()
        requests = await requests_of(self._cluster)
        all_before, own_before, requests_before = self._before
        return (
            1000 * (all_after - all_before) / jobs,
            1000 * (own_after - own_before) / jobs,
            (requests - requests_before) / jobs,
        )


async def requests_of(cluster: RestCluster) -> float:
    """Requests that the server has answered so far, by its own count."""
    async with cluster._answer("GET", "/metrics") as answer:
        text = (await answer.read()).decode()
    lines = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


async def one_by_one(server: Running, jobs: int) -> Latency:
    cluster = await connect(server.state.kubeconfig)
    completions = Completions(cluster)
    following = asyncio.create_task(completions.follow((await cluster.list(JOBS)).resource_version))
    usage, times = Usage(server, cluster), list[float]()
    try:
        await _warm_up(cluster, completions)
        await usage.begin()
        for number in range(jobs):
            began, name = time.monotonic(), f"single-{number:05d}"
            await cluster.create(JOBS, make_job(name))
            await completions.wait([name])
            times.append(1000 * (completions.at[name] - began))
        await asyncio.sleep(SETTLE_SECONDS)
        used = await usage.end(jobs)
    finally:
        following.cancel()
        await cluster.close()
    times.sort()
    return Latency(jobs, statistics.median(times), times[int(0.99 * len(times))], *used)


async def _warm_up(cluster: RestCluster, completions: Completions) -> None:
    await cluster.create(JOBS, make_job("warm-up"))
    await completions.wait(["warm-up"])
    await cluster.delete(JOBS, "warm-up", "default")
    completions.at.clear()
    await asyncio.sleep(SETTLE_SECONDS)


async def together(server: Running, jobs: int, in_flight: int = 16) -> Rate:
    cluster = await connect(server.state.kubeconfig)
    completions = Completions(cluster)
    following = asyncio.create_task(completions.follow((await cluster.list(JOBS)).resource_version))
    usage, limit = Usage(server, cluster), asyncio.Semaphore(in_flight)
    names = [f"many-{number:05d}" for number in range(jobs)]

    async def create(name: str) -> None:
        async with limit:
            await cluster.create(JOBS, make_job(name))

    try:
        await _warm_up(cluster, completions)
        await usage.begin()
        began = time.monotonic()
        await asyncio.gather(*map(create, names))
        await completions.wait(names)
        seconds = max(completions.at.values()) - began
        await asyncio.sleep(SETTLE_SECONDS)
        used = await usage.end(jobs)
    finally:
        following.cancel()
        await cluster.close()
    return Rate(jobs, seconds, *used)
