"""The comparison of a claim with resources, of which only the one in its account's namespace is the entity's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from steelyard.services.orchestrator.cache import ResourceCache
from steelyard.services.orchestrator.comparison import find_unreported, is_unsettled
from steelyard.services.orchestrator.manifest import manifest
from steelyard.services.orchestrator.test_waiting import claim_of
from steelyard.services.simulation.entities import ACCOUNT, START, make_model
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import MODELS
from steelyard_schema.names import account_namespace

MODEL = make_model()
CLAIM = replace(claim_of(MODEL), admitted_at=START, status="Admitted")


@asynccontextmanager
async def following(cache: ResourceCache) -> AsyncIterator[None]:
    task = asyncio.create_task(cache.run())
    try:
        await cache.wait_until_listed()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("namespace", "is_own"),
    [(account_namespace(ACCOUNT), True), ("acct-mallory", False)],
    ids=["in the account's namespace", "in another"],
)
async def test_only_a_resource_in_the_accounts_namespace_is_the_entitys(namespace: str, is_own: bool) -> None:
    cluster = MemoryCluster()
    resource = manifest(MODEL)
    resource["metadata"]["namespace"] = namespace
    cluster.store.put(resource)
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "lastTransitionTime": START.isoformat(),
    }
    name = resource["metadata"]["name"]
    cluster.store.set_status(MODELS, name, namespace, {"conditions": [condition]})
    cache = ResourceCache(cluster, lambda id, resource, gone: None)
    async with following(cache):
        assert is_unsettled(CLAIM, cache) is not is_own
        assert (find_unreported(CLAIM, cache) is not None) is is_own
