"""Types of Services: what a server gives them, keeps, drops when the type changes, and refuses."""

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import Api


def service(name: str, **spec: object) -> Json:
    return {"metadata": {"name": name}, "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}], **spec}}


async def made(api: Api, core: str, name: str, **spec: object) -> Json:
    body = (await api.post(f"{core}/services", service(name, **spec))).ok(201).json
    assert isinstance(body["spec"], dict)
    return body["spec"]


async def test_a_node_port_is_given_kept_and_dropped_with_the_type(api: Api, core: str) -> None:
    spec = await made(api, core, "s", type="NodePort")
    number = spec["ports"][0]["nodePort"]
    assert 30_000 <= number <= 32_767
    assert spec["externalTrafficPolicy"] == "Cluster"
    # A client that writes the whole Service without what the server gave.
    there = (await api.get(f"{core}/services/s")).json
    bare = {**service("s", type="NodePort"), "metadata": there["metadata"]}
    kept = (await api.put(f"{core}/services/s", bare)).ok(200).json["spec"]
    assert kept["ports"][0]["nodePort"] == number
    assert kept["clusterIP"] == spec["clusterIP"]
    inside = (await api.merge(f"{core}/services/s", {"spec": {"type": "ClusterIP"}})).ok(200).json["spec"]
    assert "nodePort" not in inside["ports"][0]
    assert "externalTrafficPolicy" not in inside


async def test_a_node_port_belongs_to_one_service(api: Api, core: str) -> None:
    number = (await made(api, core, "a", type="NodePort"))["ports"][0]["nodePort"]
    taken = await api.post(
        f"{core}/services", service("b", type="NodePort", ports=[{"port": 80, "nodePort": number}])
    )
    assert taken.status == 422
    assert "provided port is already allocated" in taken.json["message"]
    low = await api.post(
        f"{core}/services", service("b", type="NodePort", ports=[{"port": 80, "nodePort": 80}])
    )
    assert "The range of valid ports is 30000-32767" in low.json["message"]
    # What goes gives its number back.
    await api.delete(f"{core}/services/a")
    await made(api, core, "b", type="NodePort", ports=[{"port": 80, "nodePort": number}])


async def test_both_protocols_of_a_port_share_a_node_port(api: Api, core: str) -> None:
    ports = [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}]
    spec = await made(api, core, "dns", type="NodePort", ports=ports)
    assert spec["ports"][0]["nodePort"] == spec["ports"][1]["nodePort"]


async def test_a_load_balancer_has_node_ports_unless_it_wants_none(api: Api, core: str) -> None:
    spec = await made(api, core, "a", type="LoadBalancer")
    assert spec["allocateLoadBalancerNodePorts"] is True
    assert spec["ports"][0]["nodePort"]
    spec = await made(api, core, "b", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in spec["ports"][0]
    local = await made(api, core, "c", type="LoadBalancer", externalTrafficPolicy="Local")
    assert local["healthCheckNodePort"]


async def test_another_name_has_no_address(api: Api, core: str) -> None:
    spec = await made(api, core, "s", type="ExternalName", externalName="a.example.com", ports=[])
    assert set(spec) == {"selector", "sessionAffinity", "type", "externalName"}
    inside = {"spec": {"type": "ClusterIP", "externalName": None, "ports": [{"port": 80}]}}
    assert (await api.merge(f"{core}/services/s", inside)).ok(200).json["spec"]["clusterIP"]
    there = {"spec": {"type": "ExternalName", "externalName": "b.example.com"}}
    again = (await api.merge(f"{core}/services/s", there)).ok(200).json["spec"]
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "internalTrafficPolicy"} & set(again)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"type": "ExternalName"}, "spec.externalName: Required value"),
        ({"type": "ExternalName", "externalName": "a b"}, "spec.externalName: Invalid value"),
        ({"type": "NodePort", "clusterIP": "None"}, "may not be set to 'None' for NodePort services"),
        ({"loadBalancerClass": "a/b"}, "may only be used when `type` is 'LoadBalancer'"),
        ({"ports": [{"port": 80, "nodePort": 30000}]}, "may not be used when `type` is 'ClusterIP'"),
    ],
    ids=["no name", "bad name", "headless", "class", "node port"],
)
async def test_fields_of_another_type_are_refused(api: Api, core: str, spec: Json, message: str) -> None:
    answer = await api.post(f"{core}/services", service("s", **spec))
    assert answer.status == 422
    assert message in answer.json["message"]
