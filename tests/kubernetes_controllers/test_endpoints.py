"""Services: the EndpointSlices behind them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.objects import read_labels
from steelyard_kube.resource import ENDPOINT_SLICES, NODES, PODS, SERVICES
from tests.kubernetes_controllers.sandbox import Sandbox, make, template, until


def pod(name: str, node: str, app: str = "web") -> Json:
    content = template(app=app, nodeName=node)
    return {"apiVersion": "v1", "kind": "Pod", **content, "metadata": {"name": name, "labels": {"app": app}}}


@pytest.fixture
async def node(sandbox: Sandbox) -> AsyncIterator[str]:
    """A node without a kubelet: the real controller lists no Pod whose node it does not find."""
    name = f"node-{sandbox.namespace}"
    await sandbox.cluster.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    yield name
    await sandbox.cluster.delete(NODES, name)


async def slices(sandbox: Sandbox, name: str) -> list[Json]:
    return [
        one
        for one in await sandbox.all(ENDPOINT_SLICES)
        if read_labels(one).get("kubernetes.io/service-name") == name
    ]


async def endpoints(sandbox: Sandbox, name: str, *wanted: tuple[str, bool]) -> list[Json]:
    """The Service's slices once they list just these addresses, and whether each is ready."""
    present: list[Json] = []

    async def probe() -> list[Json]:
        nonlocal present
        present = await slices(sandbox, name)
        listed = [
            (endpoint["addresses"][0], endpoint["conditions"]["ready"])
            for one in present
            for endpoint in one.get("endpoints") or ()
        ]
        return present if sorted(listed) == sorted(wanted) else []

    try:
        return await until(probe)
    except AssertionError:
        pods = await sandbox.all(PODS)
        raise AssertionError(f"{wanted} is not behind {name}: {present}; {pods}") from None


async def test_ready_pods_stand_behind_a_service(sandbox: Sandbox, node: str) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    await sandbox.create(make("v1", "Service", "web", selector={"app": "web"}, ports=ports))
    assert len(await endpoints(sandbox, "web")) == 1, "a slice without endpoints"
    for name in ("one", "two", "other"):
        await sandbox.create(pod(name, node, "other" if name == "other" else "web"))
    pods = {one["metadata"]["name"]: one for one in await sandbox.pods(3)}
    await sandbox.run(pods["one"], ip="10.9.0.1")
    await sandbox.run(pods["two"], ip="10.9.0.2", ready=False)
    await sandbox.run(pods["other"], ip="10.9.0.3")
    (one,) = await endpoints(sandbox, "web", ("10.9.0.1", True), ("10.9.0.2", False))
    assert one["ports"] == [{"name": "http", "port": 8000, "protocol": "TCP"}]
    assert one["addressType"] == "IPv4"
    assert read_labels(one)["endpointslice.kubernetes.io/managed-by"] == "endpointslice-controller.k8s.io"
    first = next(end for end in one["endpoints"] if end["addresses"] == ["10.9.0.1"])
    assert first["conditions"] == {"ready": True, "serving": True, "terminating": False}
    assert (first["targetRef"]["kind"], first["targetRef"]["name"]) == ("Pod", "one")
    await sandbox.run(pods["two"], ip="10.9.0.2")
    await endpoints(sandbox, "web", ("10.9.0.1", True), ("10.9.0.2", True))
    await sandbox.cluster.delete(PODS, "one", sandbox.namespace, grace_seconds=0)
    await endpoints(sandbox, "web", ("10.9.0.2", True))
    await sandbox.end(pods["two"])
    await endpoints(sandbox, "web")
    await sandbox.delete(SERVICES, "web")

    async def gone() -> bool:
        return not await slices(sandbox, "web")

    await until(gone, "no slices")


async def test_addresses_may_be_published_before_they_are_ready(sandbox: Sandbox, node: str) -> None:
    spec: dict[str, Any] = {"selector": {"app": "web"}, "ports": [{"port": 80}], "clusterIP": "None"}
    await sandbox.create(make("v1", "Service", "early", publishNotReadyAddresses=True, **spec))
    await sandbox.create(pod("one", node))
    await sandbox.run((await sandbox.pods(1))[0], ip="10.9.0.1", ready=False)
    (one,) = await endpoints(sandbox, "early", ("10.9.0.1", True))
    assert one["endpoints"][0]["conditions"] == {"ready": True, "serving": False, "terminating": False}
    assert one["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]


async def test_a_service_without_a_selector_has_the_slices_that_others_make(sandbox: Sandbox) -> None:
    await sandbox.create(make("v1", "Service", "free", ports=[{"port": 80}]))
    await sandbox.create(make("v1", "Service", "web", selector={"app": "web"}, ports=[{"port": 80}]))
    await endpoints(sandbox, "web")
    assert not await slices(sandbox, "free")
