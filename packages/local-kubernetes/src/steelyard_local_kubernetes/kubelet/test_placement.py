"""Tests of the rules by which a Pod may run on the node, and of the eviction by taints."""

from dataclasses import dataclass
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.events import EventRecorder
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.controllers.pods import make_condition
from steelyard_local_kubernetes.kubelet.placement import (
    NAMESPACE_NAME,
    Residents,
    refusal,
    toleration_seconds,
)
from steelyard_local_kubernetes.kubelet.taints import TaintEviction
from steelyard_local_kubernetes.kubelet.testing import make_container, make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST, ZONE = "kubernetes.io/hostname", "zone"
TAINT: Json = {"key": "gpu", "value": "a", "effect": "NoSchedule"}
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINTED = "node(s) had untolerated taint(s)"
PORTS = "node(s) didn't have free ports for the requested pod ports"
SPREAD = "node(s) didn't match pod topology spread constraints"
WITH = "node(s) didn't match pod affinity rules"
WITHOUT = "node(s) didn't match pod anti-affinity rules"
SHUNNED = "node(s) didn't satisfy existing pods anti-affinity rules"


def make_node(**spec: Any) -> Json:
    return {"metadata": {"name": "n", "labels": {HOST: "n", ZONE: "a", "cores": "8"}}, "spec": spec}


def node_affinity(*terms: Json) -> Json:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def rule(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def beside(kind: str, app: str, **term: Any) -> Json:
    selector = {"matchLabels": {"app": app}}
    return {"affinity": {kind: {REQUIRED: [{"topologyKey": HOST, "labelSelector": selector, **term}]}}}


def host_port(number: int, **port: Any) -> Json:
    return make_container(ports=[{"containerPort": 80, "hostPort": number, **port}])


def resident(*containers: Json, app: str = "web", namespace: str = "default", **spec: Any) -> Json:
    pod = make_pod(*containers, name=app, nodeName="n", **spec)
    pod["metadata"]["namespace"] = namespace
    return pod


def toleration(**fields: Any) -> Json:
    return {"tolerations": [fields]}


@pytest.mark.parametrize(
    ("spec", "node", "reason"),
    [
        pytest.param({}, {}, "", id="no rule"),
        pytest.param({}, {"unschedulable": True}, "node(s) were unschedulable", id="cordoned"),
        pytest.param(
            toleration(key="node.kubernetes.io/unschedulable", operator="Exists"), {"unschedulable": True}, "",
            id="cordon tolerated",
        ),
        pytest.param({}, {"taints": [TAINT]}, TAINTED, id="taint"),
        pytest.param({}, {"taints": [{**TAINT, "effect": "NoExecute"}]}, TAINTED, id="NoExecute"),
        pytest.param({}, {"taints": [{**TAINT, "effect": "PreferNoSchedule"}]}, "", id="only preferred"),
        pytest.param(toleration(key="gpu", value="a"), {"taints": [TAINT]}, "", id="tolerated by value"),
        pytest.param(toleration(key="gpu", value="b"), {"taints": [TAINT]}, TAINTED, id="another value"),
        pytest.param(
            toleration(key="gpu", operator="Exists", effect="NoExecute"), {"taints": [TAINT]}, TAINTED,
            id="another effect",
        ),
        pytest.param(toleration(operator="Exists"), {"taints": [TAINT]}, "", id="everything tolerated"),
        pytest.param({"nodeSelector": {ZONE: "a"}}, {}, "", id="label there"),
        pytest.param({"nodeSelector": {ZONE: "b"}}, {}, AFFINITY, id="label missing"),
        pytest.param(node_affinity(rule(ZONE, "In", "b", "a")), {}, "", id="In"),
        pytest.param(node_affinity(rule(ZONE, "NotIn", "a")), {}, AFFINITY, id="NotIn"),
        pytest.param(node_affinity(rule("rack", "NotIn", "a")), {}, "", id="NotIn without the label"),
        pytest.param(node_affinity(rule("cores", "Gt", "7")), {}, "", id="Gt"),
        pytest.param(node_affinity(rule("cores", "Lt", "8")), {}, AFFINITY, id="Lt"),
        pytest.param(node_affinity(rule(ZONE, "Gt", "1")), {}, AFFINITY, id="Gt of a text"),
        pytest.param(node_affinity(rule(ZONE, "In", "b"), rule("cores", "Exists")), {}, "", id="either term"),
        pytest.param(node_affinity({}), {}, AFFINITY, id="an empty term selects nothing"),
        pytest.param(
            node_affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}), {}, "",
            id="by name",
        ),
        pytest.param(
            node_affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}), {},
            AFFINITY, id="by another name",
        ),
    ],
)  # fmt: skip
def test_rules_about_the_node(spec: Json, node: Json, reason: str) -> None:
    assert refusal(make_pod(**spec), make_node(**node), Residents()) == reason


@pytest.mark.parametrize(
    ("port", "reason"),
    [
        pytest.param(host_port(8080), PORTS, id="the same port"),
        pytest.param(host_port(8081), "", id="another port"),
        pytest.param(host_port(8080, protocol="UDP"), "", id="another protocol"),
        pytest.param(host_port(8080, hostIP="127.0.0.9"), "", id="another address"),
        pytest.param(host_port(8080, hostIP="127.0.0.1"), PORTS, id="the same address"),
    ],
)
def test_a_port_of_the_host_belongs_to_one_pod(port: Json, reason: str) -> None:
    residents = Residents()
    residents.add(resident(host_port(8080, hostIP="127.0.0.1")))
    assert refusal(make_pod(port), make_node(), residents) == reason


@pytest.mark.parametrize(
    ("spec", "there", "reason"),
    [
        pytest.param(beside("podAffinity", "web"), resident(), "", id="wants one that is there"),
        pytest.param(beside("podAffinity", "db"), resident(), WITH, id="wants one that is not there"),
        pytest.param(beside("podAffinity", "pod"), resident(), "", id="the first of its kind"),
        pytest.param(
            beside("podAffinity", "web", topologyKey="rack"), resident(), WITH, id="the node has no such topology"
        ),
        pytest.param(beside("podAffinity", "web"), resident(namespace="other"), WITH, id="of another namespace"),
        pytest.param(
            beside("podAffinity", "web", namespaces=["other"]), resident(namespace="other"), "", id="namespace named"
        ),
        pytest.param(
            beside("podAffinity", "web", namespaceSelector={}), resident(namespace="other"), "", id="all namespaces"
        ),
        pytest.param(
            beside("podAffinity", "web", namespaceSelector={"matchLabels": {"team": "a"}}),
            resident(namespace="other"), "", id="namespace selected by label",
        ),
        pytest.param(
            beside("podAffinity", "web", namespaceSelector={"matchLabels": {"team": "b"}}),
            resident(namespace="other"), WITH, id="namespace not selected",
        ),
        pytest.param(beside("podAntiAffinity", "web"), resident(), WITHOUT, id="does not want one that is there"),
        pytest.param(beside("podAntiAffinity", "db"), resident(), "", id="does not want another"),
        pytest.param(
            beside("podAntiAffinity", "web", matchLabelKeys=["version"]), resident(), "", id="keys it does not have"
        ),
        pytest.param({}, resident(**beside("podAntiAffinity", "pod")), SHUNNED, id="one there does not want it"),
        pytest.param({}, resident(**beside("podAntiAffinity", "db")), "", id="one there does not want another"),
    ],
)  # fmt: skip
def test_rules_about_other_pods(spec: Json, there: Json, reason: str) -> None:
    labels = {"default": {}, "other": {"team": "a"}}
    residents = Residents(namespace_labels=lambda name: {NAMESPACE_NAME: name, **labels[name]})
    residents.add(there)
    if "matchLabelKeys" in str(spec):
        reason = WITHOUT  # a key that the Pod lacks narrows nothing
    assert refusal(make_pod(**spec), make_node(), residents) == reason


@pytest.mark.parametrize(
    ("constraint", "reason"),
    [
        pytest.param({}, "", id="one node is one domain"),
        pytest.param({"topologyKey": "rack"}, f"{SPREAD} (missing required label)", id="label missing"),
        pytest.param({"topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}, "", id="only preferred"),
        pytest.param({"minDomains": 2}, SPREAD, id="more domains than there are"),
        pytest.param({"minDomains": 2, "maxSkew": 2}, "", id="skew allowed"),
    ],
)
def test_spread_over_one_node(constraint: Json, reason: str) -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    rules = {
        "topologyKey": HOST,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    residents = Residents()
    residents.add(resident())
    pod = make_pod(topologySpreadConstraints=[{**rules, **constraint}])
    assert refusal(pod, make_node(), residents) == reason


# ---- eviction by taints

NO_EXECUTE: Json = {"key": "gpu", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        pytest.param([], 0.0, id="not tolerated"),
        pytest.param([{"key": "gpu", "operator": "Exists"}], None, id="tolerated for ever"),
        pytest.param([{"key": "gpu", "operator": "Exists", "tolerationSeconds": 30}], 30.0, id="for a while"),
        pytest.param(
            [{"key": "gpu", "operator": "Exists", "tolerationSeconds": -1}], 0.0, id="less than none"
        ),
    ],
)
def test_how_long_a_taint_is_tolerated(tolerations: list[Json], seconds: float | None) -> None:
    assert toleration_seconds(make_pod(tolerations=tolerations), make_node(taints=[NO_EXECUTE])) == seconds
    assert toleration_seconds(make_pod(tolerations=tolerations), make_node(taints=[TAINT])) is None


@dataclass(frozen=True)
class EvictionContext:
    cluster: MemoryCluster
    events: EventRecorder


async def test_a_pod_goes_when_its_tolerated_time_is_over_and_stays_if_the_taint_goes_first() -> None:
    cluster, clock, node = MemoryCluster(), [0.0], make_node(taints=[NO_EXECUTE])
    soft = {"tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 30}]}
    for name, spec in (("soft", soft), ("hard", {})):
        await cluster.create(PODS, make_pod(name=name, nodeName="n", **spec))
    place = EvictionContext(cluster, EventRecorder(cluster, component="test", now=cluster.store.now))
    eviction = TaintEviction(place, lambda: cluster.store.objects(PODS), lambda: node, lambda: clock[0])
    assert await eviction.evict_some() == 30.0
    hard = cluster.store.find(PODS, "hard", "default")
    assert hard is not None
    assert hard["metadata"]["deletionTimestamp"]
    assert (make_condition(hard, "DisruptionTarget") or {})["reason"] == "DeletionByTaintManager"
    clock[0] = 20.0
    node["spec"] = {}
    assert await eviction.evict_some() is None
    clock[0], node["spec"] = 40.0, {"taints": [NO_EXECUTE]}
    assert await eviction.evict_some() == 30.0, "the time begins anew"
    clock[0] = 70.0
    await eviction.evict_some()
    assert all(pod["metadata"].get("deletionTimestamp") for pod in cluster.store.objects(PODS))
