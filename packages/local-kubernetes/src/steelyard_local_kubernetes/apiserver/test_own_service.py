"""The server's own Service: there from the first start, with the port of the last one, by names that TLS believes."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.resource import ENDPOINT_SLICES, SERVICES, Resource
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.direct import direct_cluster
from steelyard_local_kubernetes.apiserver.own_service import HOSTS
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, RunningServer, serve

ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
KINDS = (SERVICES, ENDPOINT_SLICES, ENDPOINTS)


NETWORK = "127.210.128.0/17"


@asynccontextmanager
async def running(folder: Path, network: str = NETWORK) -> AsyncIterator[tuple[RunningServer, Cluster]]:
    config = ApiServerConfig(folder / "kubernetes.db", folder / "pki", {}, service_network=network)
    async with serve(config) as server:
        cluster = direct_cluster(server.core, administrator("tester"), server.url)
        yield server, cluster
        await cluster.close()


async def own(cluster: Cluster) -> list[Json]:
    """Return the Service, its EndpointSlice and its Endpoints."""
    return [await cluster.get(kind, "kubernetes", "default") for kind in KINDS]


async def test_the_service_is_as_on_a_cluster(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, cluster):
        service, endpoint_slice, endpoints = await own(cluster)
        port = server.port
    assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    assert service["spec"] == {
        "clusterIP": "127.210.128.1",
        "clusterIPs": ["127.210.128.1"],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }
    behind = [{"name": "https", "port": port, "protocol": "TCP"}]
    assert endpoint_slice["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
    assert endpoint_slice["endpoints"] == [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]
    assert endpoint_slice["ports"] == behind
    assert endpoints["subsets"] == [{"addresses": [{"ip": "127.0.0.1"}], "ports": behind}]


async def test_another_start_changes_the_port_alone(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, cluster):
        first = await own(cluster)
    # The system chooses the port of each start: rarely it is the same one again.
    async with running(tmp_path) as (server, cluster):
        second, second_port = await own(cluster), server.port
    assert second[0]["spec"]["ports"][0]["targetPort"] == second_port
    assert second[1]["ports"][0]["port"] == second_port
    assert second[2]["subsets"][0]["ports"][0]["port"] == second_port
    # Programs that have its address go on.
    assert [obj["metadata"]["uid"] for obj in first] == [obj["metadata"]["uid"] for obj in second]
    assert first[0]["spec"]["clusterIP"] == second[0]["spec"]["clusterIP"]


async def test_a_start_in_another_network_changes_the_address(tmp_path: Path) -> None:
    """Another server may have the network of an earlier start by now."""
    async with running(tmp_path):
        pass
    async with running(tmp_path, "127.211.128.0/17") as (_, cluster):
        service, *_ = await own(cluster)
    assert service["spec"]["clusterIP"] == "127.211.128.1"


@pytest.mark.parametrize("number", range(len(KINDS)), ids=[kind.kind for kind in KINDS])
async def test_what_is_deleted_is_there_again_at_once(tmp_path: Path, number: int) -> None:
    async with running(tmp_path) as (_, cluster):
        before = (await own(cluster))[number]
        await cluster.delete(KINDS[number], "kubernetes", "default")
        after = (await own(cluster))[number]
    assert before["metadata"].pop("uid") != after["metadata"].pop("uid")
    for obj in (before, after):
        for name in ("resourceVersion", "creationTimestamp"):
            del obj["metadata"][name]
    assert before == after


async def test_what_is_changed_is_set_back_and_what_is_added_stays(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, cluster):
        before, *_ = await own(cluster)
        change = {"metadata": {"labels": {"team": "a"}}, "spec": {"ports": [{"port": 7}]}}
        await cluster.patch(SERVICES, "kubernetes", change, "default")
        after, *_ = await own(cluster)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == {**before["metadata"]["labels"], "team": "a"}


async def test_another_service_may_have_the_first_address(tmp_path: Path) -> None:
    """A database of a version that made no such Service may have one there."""
    async with running(tmp_path) as (server, cluster):
        store = server.core.store
        item = store.get("services", ("default", "kubernetes"))
        assert item is not None
        taken = {**item.parse(), "metadata": {"name": "other", "namespace": "default", "uid": "a"}}
        store.put("services", taken)
        await cluster.delete(SERVICES, "kubernetes", "default")
        service, *_ = await own(cluster)
    assert service["spec"]["clusterIP"] not in ("127.210.128.1", "", "None")


async def test_a_quota_that_allows_no_service_stops_no_start(tmp_path: Path) -> None:
    quota: Json = {"metadata": {"name": "none", "namespace": "default"}, "spec": {"hard": {"services": "0"}}}
    async with running(tmp_path) as (_, cluster):
        await cluster.create(QUOTAS, quota)
        await cluster.delete(SERVICES, "kubernetes", "default")
    async with running(tmp_path) as (_, cluster):
        assert (await cluster.list(SERVICES, namespace="default")).items == []
        await cluster.delete(QUOTAS, "none", "default")
    async with running(tmp_path) as (_, cluster):
        await own(cluster)


@pytest.mark.parametrize("name", [*HOSTS, "127.210.128.1"])
async def test_tls_knows_the_server_by_the_names_of_its_service(tmp_path: Path, name: str) -> None:
    async with running(tmp_path) as (server, _):
        context = ssl.create_default_context(cafile=server.ca)
        async with asyncio.timeout(60):
            _, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=context, server_hostname=name
            )
            writer.close()
            await writer.wait_closed()
