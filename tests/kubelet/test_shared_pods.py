"""A kubelet that reads the Pods of a cache which another part of its process keeps."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from steelyard_kube.cluster import Resource, WatchEvent
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.controllers.caches import Caches
from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
from steelyard_local_kubernetes.kubelet.testing import (
    ENDED,
    Machine,
    make_config,
    make_container,
    make_pod,
    phase,
)
from tests.kubelet.conftest import processes_of


class CountedWatches(MemoryCluster):
    """Counts the watches of Pods."""

    def __init__(self) -> None:
        super().__init__(now=lambda: datetime.now(UTC))
        self.watches = 0

    async def watch(self, resource: Resource, *arguments: Any, **options: Any) -> AsyncIterator[WatchEvent]:
        self.watches += resource == PODS
        async for event in super().watch(resource, *arguments, **options):
            yield event


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    made = Machine(make_config(tmp_path / "state"))
    made.cluster = CountedWatches()
    made.pods = caches = Caches(made.cluster, resources=(PODS,))
    stop = asyncio.Event()
    following = asyncio.create_task(caches.run(stop))
    yield made
    await made.stop()
    stop.set()
    await following
    await stop_all_pods(made.config, grace=0.0)
    assert processes_of(tmp_path) == []


async def test_pods_from_before_the_kubelet_and_later_ones_run(machine: Machine) -> None:
    assert isinstance(machine.pods, Caches)
    assert isinstance(machine.cluster, CountedWatches)
    await machine.cluster.create(PODS, make_pod(name="before"))
    await machine.pods.wait_for_sync()
    machine.start()
    await machine.until(lambda pod: phase(pod) in ENDED, "before")
    later = await machine.run(make_pod(make_container("exit 3"), name="later"))
    assert phase(later) == "Failed"
    assert machine.cluster.watches == 1


async def test_the_folder_of_a_pod_that_went_without_a_kubelet_is_removed(machine: Machine) -> None:
    assert isinstance(machine.pods, Caches)
    await machine.pods.wait_for_sync()
    machine.start()
    pod = await machine.run(make_pod())
    await machine.stop()
    await machine.cluster.delete(PODS, pod["metadata"]["name"], "default", grace_seconds=0)
    async with asyncio.timeout(60):
        while machine.pods.get(PODS, "default", "pod") is not None:  # noqa: ASYNC110  (the cache does it)
            await asyncio.sleep(0.005)
    workers = [task for task in asyncio.all_tasks() if task.get_name() == "pod pod"]
    assert not workers, "a kubelet that has ended hears of nothing"
    machine.start()
    await machine.until_gone()
