"""Services: the EndpointSlices behind them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from steelyard.kube.objects import labels_of
from steelyard.kube.resource import ENDPOINT_SLICES, NODES, PODS, SERVICES
from steelyard.types import Json
from tests.kubernetes_controllers.world import World, make, template, until


def pod(name: str, node: str, app: str = "web") -> Json:
    content = template(app=app, nodeName=node)
    return {"apiVersion": "v1", "kind": "Pod", **content, "metadata": {"name": name, "labels": {"app": app}}}


@pytest.fixture
async def node(world: World) -> AsyncIterator[str]:
    """A node without a kubelet: the real controller lists no Pod whose node it does not find."""
    name = f"node-{world.namespace}"
    await world.cluster.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    yield name
    await world.cluster.delete(NODES, name)


async def slices(world: World, name: str) -> list[Json]:
    return [
        one
        for one in await world.all(ENDPOINT_SLICES)
        if labels_of(one).get("kubernetes.io/service-name") == name
    ]


async def endpoints(world: World, name: str, *wanted: tuple[str, bool]) -> list[Json]:
    """The Service's slices once they list just these addresses, and whether each is ready."""

    async def probe() -> list[Json]:
        present = await slices(world, name)
        listed = [
            (endpoint["addresses"][0], endpoint["conditions"]["ready"])
            for one in present
            for endpoint in one.get("endpoints") or ()
        ]
        return present if sorted(listed) == sorted(wanted) else []

    return await until(probe, f"{wanted} behind {name}")


async def test_ready_pods_stand_behind_a_service(world: World, node: str) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    await world.create(make("v1", "Service", "web", selector={"app": "web"}, ports=ports))
    assert len(await endpoints(world, "web")) == 1, "a slice without endpoints"
    for name in ("one", "two", "other"):
        await world.create(pod(name, node, "other" if name == "other" else "web"))
    pods = {one["metadata"]["name"]: one for one in await world.pods(3)}
    await world.run(pods["one"], ip="10.9.0.1")
    await world.run(pods["two"], ip="10.9.0.2", ready=False)
    await world.run(pods["other"], ip="10.9.0.3")
    (one,) = await endpoints(world, "web", ("10.9.0.1", True), ("10.9.0.2", False))
    assert one["ports"] == [{"name": "http", "port": 8000, "protocol": "TCP"}]
    assert one["addressType"] == "IPv4"
    assert labels_of(one)["endpointslice.kubernetes.io/managed-by"] == "endpointslice-controller.k8s.io"
    first = next(end for end in one["endpoints"] if end["addresses"] == ["10.9.0.1"])
    assert first["conditions"] == {"ready": True, "serving": True, "terminating": False}
    assert (first["targetRef"]["kind"], first["targetRef"]["name"]) == ("Pod", "one")
    await world.run(pods["two"], ip="10.9.0.2")
    await endpoints(world, "web", ("10.9.0.1", True), ("10.9.0.2", True))
    await world.cluster.delete(PODS, "one", world.namespace, grace_seconds=0)
    await endpoints(world, "web", ("10.9.0.2", True))
    await world.end(pods["two"])
    await endpoints(world, "web")
    await world.delete(SERVICES, "web")

    async def gone() -> bool:
        return not await slices(world, "web")

    await until(gone, "no slices")


async def test_addresses_may_be_published_before_they_are_ready(world: World, node: str) -> None:
    spec: dict[str, Any] = {"selector": {"app": "web"}, "ports": [{"port": 80}], "clusterIP": "None"}
    await world.create(make("v1", "Service", "early", publishNotReadyAddresses=True, **spec))
    await world.create(pod("one", node))
    await world.run((await world.pods(1))[0], ip="10.9.0.1", ready=False)
    (one,) = await endpoints(world, "early", ("10.9.0.1", True))
    assert one["endpoints"][0]["conditions"] == {"ready": True, "serving": False, "terminating": False}
    assert one["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]


async def test_a_service_without_a_selector_has_the_slices_that_others_make(world: World) -> None:
    await world.create(make("v1", "Service", "free", ports=[{"port": 80}]))
    await world.create(make("v1", "Service", "web", selector={"app": "web"}, ports=[{"port": 80}]))
    await endpoints(world, "web")
    assert not await slices(world, "free")
