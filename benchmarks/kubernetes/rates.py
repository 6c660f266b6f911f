"""Reads, writes and watches of one API server, the embedded one or a real one: the same requests by the same client."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from steelyard_common.types import Json
from steelyard_kube.client import RestCluster, connect
from steelyard_kube.resource import CONFIG_MAPS

WATCHERS = 20
Processor = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """One kind of request: how many a second, and milliseconds of the server's processors for each."""

    what: str
    rate: float
    processor: float
    median: float  # milliseconds of one of them
    worst: float  # the 99th percentile


def config_map(name: str) -> Json:
    data = {"text": "x" * 500, "number": "0"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    }


async def rates(kubeconfig: Path, processor: Processor, count: int) -> list[Row]:
    cluster = await connect(kubeconfig)
    names = [f"rate-{number:05d}" for number in range(count)]

    async def create(name: str) -> object:
        return await cluster.create(CONFIG_MAPS, config_map(name))

    async def change(name: str) -> object:
        return await cluster.patch(CONFIG_MAPS, name, {"data": {"number": "1"}}, "default")

    async def change_alone(name: str) -> object:
        return await cluster.patch(CONFIG_MAPS, name, {"data": {"number": "2"}}, "default")

    async def get(name: str) -> object:
        return await cluster.get(CONFIG_MAPS, name, "default")

    try:
        await create("rate-warm")
        rows = [
            await _measured("create, 16 at once", create, names, 16, processor),
            await _measured("change, 16 at once", change, names, 16, processor),
            await _measured("change, one at a time", change_alone, names[: count // 4], 1, processor),
            await _measured("get, 16 at once", get, names, 16, processor),
            await _watched(cluster, names[: count // 4], 1, processor),
            await _watched(cluster, names[: count // 4], WATCHERS, processor),
        ]
    finally:
        await cluster.close()
    return rows


async def _measured(
    what: str,
    call: Callable[[str], Awaitable[object]],
    names: list[str],
    in_flight: int,
    processor: Processor,
) -> Row:
    limit, times = asyncio.Semaphore(in_flight), list[float]()

    async def one(name: str) -> None:
        async with limit:
            began = time.perf_counter()
            await call(name)
            times.append(1000 * (time.perf_counter() - began))

    before, began = processor(), time.perf_counter()
    await asyncio.gather(*map(one, names))
    return _row(what, times, time.perf_counter() - began, processor() - before, len(names))


async def _watched(cluster: RestCluster, names: list[str], watchers: int, processor: Processor) -> Row:
    """Milliseconds from the request that changes an object to the event of it; the rate is that of events."""
    version = (await cluster.list(CONFIG_MAPS, "default")).resource_version
    sent: dict[str, float] = {}
    times: list[float] = []

    async def watch() -> None:
        left = set(names)
        async for event in cluster.watch(CONFIG_MAPS, "default", resource_version=version):
            name = event.object["metadata"]["name"]
            if event.type == "MODIFIED" and name in left:
                times.append(1000 * (time.perf_counter() - sent[name]))
                left.discard(name)
            if not left:
                return

    watching = [asyncio.create_task(watch()) for _ in range(watchers)]
    await asyncio.sleep(0.5)
    before, began = processor(), time.perf_counter()
    for name in names:
        sent[name] = time.perf_counter()
        await cluster.patch(CONFIG_MAPS, name, {"data": {"number": f"of {watchers} watchers"}}, "default")
    await asyncio.gather(*watching)
    seconds, events = time.perf_counter() - began, watchers * len(names)
    what = f"change until its event, {watchers} watcher{'s' if watchers > 1 else ''}"
    return _row(what, times, seconds, processor() - before, events)


def _row(what: str, times: list[float], seconds: float, used: float, count: int) -> Row:
    times.sort()
    return Row(
        what, count / seconds, 1000 * used / count, statistics.median(times), times[int(0.99 * len(times))]
    )
