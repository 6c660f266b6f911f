"""Ten thousand Jobs: created, finished and deleted; what the server holds before, then and afterwards."""

import asyncio
import time
from dataclasses import dataclass

from benchmarks.kubernetes.jobs import Completions, make_job
from benchmarks.kubernetes.running import Running
from steelyard_kube.client import RestCluster, connect
from steelyard_kube.errors import NotFound
from steelyard_kube.events import REMEMBERED_SECONDS
from steelyard_kube.resource import EVENTS, JOBS, PODS, Resource
from steelyard_local_kubernetes.apiserver.expiry import HISTORY_SECONDS, SWEEP_SECONDS

AT_ONCE = 200  # Jobs that are created and not yet Complete: the node takes a thousand Pods
IN_FLIGHT = 16
SETTLE_SECONDS = 5.0
# Both changes and what was told of them: the store keeps the one, the recorders of events the other.
FORGOTTEN_SECONDS = max(HISTORY_SECONDS, REMEMBERED_SECONDS) + 3 * SWEEP_SECONDS
PATIENCE = 1800.0


@dataclass(frozen=True)
class ServerSize:
    """Memory and database of the server, in MB, and how many seconds it took to come there."""

    when: str
    memory: float
    stored: float
    seconds: float


async def crowd(server: Running, jobs: int) -> list[ServerSize]:
    """Two times the same: what the second leaves beyond the first is what grows."""
    cluster = await connect(server.state.kubeconfig)
    try:
        held = [await _held(server, "before", time.monotonic())]
        for turn in ("first", "second"):
            began = time.monotonic()
            await _finish(cluster, [f"{turn}-{number:05d}" for number in range(jobs)])
            held.append(await _held(server, f"{turn} time: {jobs:,} Jobs finished", began))
            began = time.monotonic()
            await _delete_all(cluster)
            held.append(await _held(server, f"{turn} time: all deleted", began))
        began = time.monotonic()
        await asyncio.sleep(FORGOTTEN_SECONDS)
        held.append(await _held(server, "when changes and events are forgotten", began))
    finally:
        await cluster.close()
    return held


async def _finish(cluster: RestCluster, names: list[str]) -> None:
    completions, limit = Completions(cluster), asyncio.Semaphore(AT_ONCE)
    following = asyncio.create_task(completions.follow((await cluster.list(JOBS)).resource_version))

    async def one(name: str) -> None:
        async with limit:
            await cluster.create(JOBS, make_job(name))
            await completions.wait([name])

    try:
        await asyncio.gather(*map(one, names))
    finally:
        following.cancel()


async def _delete_all(cluster: RestCluster) -> None:
    """Delete the Jobs; their Pods follow, and their events are deleted, which else would go after an hour."""
    await _delete(cluster, JOBS)
    async with asyncio.timeout(PATIENCE):
        while (await cluster.list(PODS, "default")).items:  # noqa: ASYNC110
            await asyncio.sleep(1)
    await _delete(cluster, EVENTS)


async def _delete(cluster: RestCluster, resource: Resource) -> None:
    limit = asyncio.Semaphore(IN_FLIGHT)

    async def one(name: str) -> None:
        async with limit:
            try:
                await cluster.delete(resource, name, "default")
            except NotFound:  # it has expired
                return

    listing = await cluster.list(resource, "default")
    await asyncio.gather(*(one(obj["metadata"]["name"]) for obj in listing.items))


async def _held(server: Running, when: str, began: float) -> ServerSize:
    seconds = time.monotonic() - began
    await asyncio.sleep(SETTLE_SECONDS)
    return ServerSize(when, server.memory(), server.stored(), seconds)
