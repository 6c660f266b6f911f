"""The client in the server's process keeps the contract of every cluster, and sends nothing over a network."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from steelyard_kube.client import RestCluster
from steelyard_kube.errors import NotFound, Unreachable
from steelyard_kube.resource import CONFIG_MAPS
from steelyard_kube.simulation import contract
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.direct import direct_cluster
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, make_parts


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[RestCluster]:
    parts = await make_parts(ApiServerConfig(None, tmp_path, {}), Clock())
    running = asyncio.create_task(parts.lifecycle.run())
    direct = direct_cluster(parts.core, administrator("tester"))
    yield direct
    await direct.close()
    running.cancel()
    parts.store.close()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("case", contract.CASES, ids=lambda case: case.__name__)
async def test_the_contract_holds(case: contract.Case, cluster: RestCluster) -> None:
    await case(cluster, "default")


async def test_no_connection_is_opened(cluster: RestCluster) -> None:
    await cluster.create(CONFIG_MAPS, contract.config_map("default", "one"))
    assert cluster._session is None


async def test_a_watch_that_is_left_is_over(cluster: RestCluster) -> None:
    listing = await cluster.list(CONFIG_MAPS)
    watch = cluster.watch(CONFIG_MAPS, resource_version=listing.resource_version)
    async with aclosing(watch) as events:  # type: ignore[type-var]
        await cluster.create(CONFIG_MAPS, contract.config_map("default", "one"))
        assert (await anext(events)).object["metadata"]["name"] == "one"
    with pytest.raises(StopAsyncIteration):
        await anext(watch)


async def test_a_closed_client_sends_nothing(cluster: RestCluster) -> None:
    await cluster.close()
    with pytest.raises(Unreachable):
        await cluster.get(CONFIG_MAPS, "one", "default")


async def test_a_name_is_taken_as_it_is(cluster: RestCluster) -> None:
    with pytest.raises(NotFound, match="a b"):
        await cluster.get(CONFIG_MAPS, "a b", "default")
