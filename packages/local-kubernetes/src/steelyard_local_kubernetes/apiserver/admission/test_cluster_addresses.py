"""Addresses of Services after a start in another network, which another installation may have had meanwhile."""

import ipaddress
import logging
from pathlib import Path

import pytest

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.resource import SERVICES
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.direct import direct_cluster
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, serve

FIRST, SECOND = "127.210.128.0/17", "127.211.128.0/17"
PORTS = [{"port": 80, "protocol": "TCP", "targetPort": 80}]


def make_service(name: str, **spec: object) -> Json:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"ports": PORTS, **spec}}


async def started(folder: Path, network: str, *make: Json) -> dict[str, Json]:
    """Start a server, make Services on it, and return all of them by their names."""
    config = ApiServerConfig(folder / "kubernetes.db", folder / "pki", {}, service_network=network)
    async with serve(config) as server:
        cluster: Cluster = direct_cluster(server.core, administrator("tester"), server.url)
        for service in make:
            await cluster.create(SERVICES, service)
        services = (await cluster.list(SERVICES)).items
        await cluster.close()
    return {service["metadata"]["name"]: service for service in services}


async def test_a_start_in_another_network_gives_new_addresses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"web-{number}" for number in range(7)]
    others = [
        make_service("headless", clusterIP="None"),
        {
            "metadata": {"name": "alias", "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "a.example"},
        },
    ]
    before = await started(tmp_path, FIRST, *map(make_service, names), *others)
    with caplog.at_level(logging.WARNING):
        after = await started(tmp_path, SECOND)
    network = ipaddress.ip_network(SECOND)
    addresses = {after[name]["spec"]["clusterIP"] for name in names}
    assert len(addresses) == len(names)
    assert all(ipaddress.ip_address(address) in network for address in addresses)
    for name in names:
        assert after[name]["spec"]["clusterIPs"] == [after[name]["spec"]["clusterIP"]]
        assert after[name]["metadata"]["uid"] == before[name]["metadata"]["uid"]
        assert after[name]["metadata"]["resourceVersion"] != before[name]["metadata"]["resourceVersion"]
    assert after["kubernetes"]["spec"]["clusterIP"] == "127.211.128.1"
    assert [after[name] for name in ("headless", "alias")] == [before[name] for name in ("headless", "alias")]
    (line,) = [text for text in caplog.messages if "new addresses for" in text]
    assert f"default/web-0 {before['web-0']['spec']['clusterIP']} -> " in line
    assert line.endswith(" and 2 more")


async def test_a_start_in_the_same_network_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = await started(tmp_path, FIRST, make_service("web"))
    after = await started(tmp_path, FIRST)
    assert after["web"] == before["web"]
    assert not [text for text in caplog.messages if "new addresses for" in text]
