"""The garbage collector: a dependent whose deletion is refused is tried again, with pauses that grow."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from steelyard_kube.resource import CONFIG_MAPS, CRDS, JOBS
from steelyard_kube.served import KindVersion
from steelyard_local_kubernetes.controllers.garbage.run import run_garbage_collector
from tests.exploration.virtual_time import run
from tests.refusals.judging import MINUTE, judge
from tests.refusals.refusing import RefusingCluster, lasting_ways

VERBS = frozenset({"delete", "list", "watch"})


class ServingCluster(RefusingCluster):
    async def list_kinds(self) -> Sequence[KindVersion]:
        return [KindVersion(resource, VERBS, preferred=True) for resource in (CONFIG_MAPS, JOBS, CRDS)]


async def collect(cluster: ServingCluster, seconds: float) -> None:
    """Let the collector work with two objects whose owner is gone."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": "uid-gone"}
    for name in ("bad", "good"):
        metadata = {"name": name, "namespace": "default", "ownerReferences": [owner]}
        cluster.store.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    collector = asyncio.ensure_future(run_garbage_collector(cluster, stop=cluster.stop))
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await cluster.stop.wait()
    cluster.stop.set()
    await collector


@pytest.mark.parametrize("way", lasting_ways("delete"))
def test_a_refused_deletion_waits(way: str) -> None:
    async def case() -> RefusingCluster:
        cluster = ServingCluster(way, lambda attempt: attempt.verb == "delete" and attempt.name == "bad")
        await collect(cluster, 2 * MINUTE)
        return cluster

    cluster = run(case())
    # What it deletes has no owner that could be told: the log alone says it, as with Kubernetes' own collector.
    judge(cluster, silent=True)
    assert [obj["metadata"]["name"] for obj in cluster.store.objects(CONFIG_MAPS)] == ["bad"]
