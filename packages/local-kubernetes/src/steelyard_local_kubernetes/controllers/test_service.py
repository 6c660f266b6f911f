"""The Service controller: which endpoints its slices list."""

from steelyard_common.types import Json
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import ENDPOINT_SLICES, PODS, SERVICES
from steelyard_local_kubernetes.controllers.objects import edge, make_pod, make_service
from steelyard_local_kubernetes.controllers.service import decide
from steelyard_local_kubernetes.controllers.sync import sync_service

KEY = ("default", "demo")


async def settle(cluster: MemoryCluster) -> list[Json]:
    for _ in range(5):
        before = cluster.store.version
        await sync_service(edge(cluster), KEY)
        if cluster.store.version == before:
            return cluster.store.objects(ENDPOINT_SLICES)
    raise AssertionError("the Service does not come to rest")


def ready_addresses(slices: list[Json]) -> list[str]:
    return [
        address
        for slice_ in slices
        for endpoint in slice_["endpoints"]
        if endpoint["conditions"]["ready"]
        for address in endpoint["addresses"]
    ]


async def test_a_service_lists_the_pods_that_it_selects() -> None:
    cluster = MemoryCluster()
    cluster.store.put(make_service())
    assert ready_addresses(await settle(cluster)) == []
    cluster.store.put(make_pod("a", "127.9.0.1", ready=True))
    cluster.store.put(make_pod("b", "127.9.0.2"))
    cluster.store.put(make_pod("c", "127.9.0.3", ready=True, labels={"app": "other"}))
    cluster.store.put(make_pod("d", ready=True))
    (one,) = await settle(cluster)
    assert ready_addresses([one]) == ["127.9.0.1"]
    assert [endpoint["targetRef"]["name"] for endpoint in one["endpoints"]] == ["a", "b"]
    assert one["ports"] == [{"name": "", "protocol": "TCP", "port": 8000}]
    assert one["metadata"]["labels"]["kubernetes.io/service-name"] == "demo"


async def test_a_pod_that_goes_leaves_the_list() -> None:
    cluster = MemoryCluster()
    cluster.store.put(make_service())
    cluster.store.put(make_pod("a", "127.9.0.1", ready=True))
    cluster.store.put(make_pod("b", "127.9.0.2", ready=True))
    assert len(ready_addresses(await settle(cluster))) == 2
    pod = cluster.store.find(PODS, "a", "default")
    assert pod is not None
    cluster.store.put({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert ready_addresses(await settle(cluster)) == ["127.9.0.2"]
    cluster.store.remove(PODS, "b", "default")
    assert ready_addresses(await settle(cluster)) == []


async def test_unready_addresses_are_published_where_the_service_asks() -> None:
    cluster = MemoryCluster()
    cluster.store.put(make_service(publishNotReadyAddresses=True))
    cluster.store.put(make_pod("a", "127.9.0.1"))
    assert ready_addresses(await settle(cluster)) == ["127.9.0.1"]


async def test_a_named_port_is_each_pods_own() -> None:
    cluster = MemoryCluster()
    cluster.store.put(make_service(ports=[{"name": "http", "port": 80, "targetPort": "web"}]))
    for name, ip, number in (("a", "127.9.0.1", 8000), ("b", "127.9.0.2", 9000)):
        containers = [{"name": "main", "ports": [{"name": "web", "containerPort": number}]}]
        cluster.store.put(make_pod(name, ip, ready=True, containers=containers))
    slices = await settle(cluster)
    ports = {slice_["endpoints"][0]["addresses"][0]: slice_["ports"][0]["port"] for slice_ in slices}
    assert ports == {"127.9.0.1": 8000, "127.9.0.2": 9000}


def test_a_service_without_a_selector_is_left_to_its_user() -> None:
    service = {
        **make_service(selector=None),
        "metadata": {"name": "demo", "namespace": "default", "uid": "u"},
    }
    assert not decide(service, [make_pod("a", "127.9.0.1")], [])


async def test_a_slice_that_was_deleted_comes_back() -> None:
    cluster = MemoryCluster()
    cluster.store.put(make_service())
    (one,) = await settle(cluster)
    cluster.store.remove(ENDPOINT_SLICES, one["metadata"]["name"], "default")
    assert len(await settle(cluster)) == 1
    assert cluster.store.find(SERVICES, "demo", "default")


async def test_a_load_balancer_answers_at_the_services_address() -> None:
    cluster = MemoryCluster()
    service = make_service()
    service["spec"] |= {"type": "LoadBalancer", "clusterIP": "127.9.128.1"}
    cluster.store.put(service)
    await settle(cluster)
    there = await cluster.get(SERVICES, "demo", "default")
    assert there["status"]["loadBalancer"]["ingress"] == [{"ip": "127.9.128.1", "ipMode": "VIP"}]
    await cluster.patch(SERVICES, "demo", {"spec": {"type": "ClusterIP"}}, "default")
    await settle(cluster)
    there = await cluster.get(SERVICES, "demo", "default")
    assert "ingress" not in there["status"]["loadBalancer"]


async def test_a_load_balancer_of_a_class_is_left_to_its_program() -> None:
    cluster = MemoryCluster()
    service = make_service()
    service["spec"] |= {"type": "LoadBalancer", "clusterIP": "127.9.128.1", "loadBalancerClass": "a/b"}
    cluster.store.put(service)
    await settle(cluster)
    assert "loadBalancer" not in (await cluster.get(SERVICES, "demo", "default")).get("status", {})


async def test_another_name_has_no_slices() -> None:
    cluster = MemoryCluster()
    cluster.store.put(make_service())
    cluster.store.put(make_pod("a", "127.9.0.1", ready=True))
    assert len(await settle(cluster)) == 1
    await cluster.patch(SERVICES, "demo", {"spec": {"type": "ExternalName"}}, "default")
    assert await settle(cluster) == []
