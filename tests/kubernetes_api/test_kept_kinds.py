"""Kinds that are kept for those who make and read them: roles, autoscalers, accounts, priority classes."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import TABLE, Api, pod

RBAC = "rbac.authorization.k8s.io"
RULE = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"], "resourceNames": ["a"]}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def role(**rule: Any) -> Json:
    return {"metadata": {"name": "system:r"}, "rules": [{**RULE, **rule}]}


def binding(**role_ref: Any) -> Json:
    subjects = [{"kind": "ServiceAccount", "name": "a", "namespace": "n"}, {"kind": "User", "name": "u"}]
    return {
        "metadata": {"name": "b"},
        "subjects": subjects,
        "roleRef": {"kind": "Role", "name": "r", **role_ref},
    }


def autoscaler(**spec: Any) -> Json:
    target = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "x"}
    return {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3, **spec}}


def path(namespace: str, group: str, plural: str) -> str:
    return f"/apis/{group}/namespaces/{namespace}/{plural}"


async def test_roles(api: Api, namespace: str) -> None:
    roles = path(namespace, f"{RBAC}/v1", "roles")
    made = (await api.post(roles, role())).ok(201).json
    assert made["rules"] == [RULE]
    assert "generation" not in made["metadata"]
    table = (await api.get(roles, TABLE)).ok(200).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Created At"]
    (await api.delete(f"{roles}/system:r")).ok(200)


async def test_role_bindings(api: Api, namespace: str) -> None:
    bindings = path(namespace, f"{RBAC}/v1", "rolebindings")
    made = (await api.post(bindings, binding())).ok(201).json
    assert made["roleRef"] == {"apiGroup": RBAC, "kind": "Role", "name": "r"}
    assert made["subjects"][1] == {"kind": "User", "name": "u", "apiGroup": RBAC}
    answer = await api.merge(f"{bindings}/b", {"roleRef": {"name": "other"}})
    assert "cannot change roleRef" in answer.causes()["roleRef"]
    row = (await api.get(bindings, TABLE)).ok(200).json["rows"][0]["cells"]
    assert (row[1], row[3:]) == ("Role/r", ["u", "", "n/a"])


async def test_autoscalers(api: Api, namespace: str) -> None:
    scalers = path(namespace, "autoscaling/v2", "horizontalpodautoscalers")
    made = (await api.post(scalers, autoscaler())).ok(201).json
    target = {"type": "Utilization", "averageUtilization": 80}
    assert made["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    assert (made["spec"]["minReplicas"], made["status"]["desiredReplicas"]) == (1, 0)
    row = (await api.get(scalers, TABLE)).ok(200).json["rows"][0]["cells"]
    assert row[:6] == ["h", "PyTorchJob/x", "cpu: <unknown>/80%", "1", 3, 0]
    status = {"status": {"currentReplicas": 2, "desiredReplicas": 3}}
    (await api.merge(f"{scalers}/h/status", status)).ok(200)
    (await api.delete(f"{scalers}/h")).ok(200)


async def test_accounts(api: Api, core: str) -> None:
    made = (await api.post(f"{core}/serviceaccounts", {"metadata": {"name": "a"}})).ok(201).json
    assert "generation" not in made["metadata"]
    (await api.delete(f"{core}/serviceaccounts/a")).ok(200)


@pytest.fixture
async def high(api: Api) -> AsyncIterator[str]:
    """A priority class of the test's own."""
    name = f"high-{uuid.uuid4().hex[:8]}"
    made = (await api.post(CLASSES, {"metadata": {"name": name}, "value": 1000})).ok(201).json
    assert (made["preemptionPolicy"], made["metadata"]["generation"]) == ("PreemptLowerPriority", 1)
    yield name
    (await api.delete(f"{CLASSES}/{name}")).ok(200)


async def test_pods_have_the_priority_of_their_class(api: Api, core: str, high: str) -> None:
    made = (await api.post(f"{core}/pods", pod("a", priorityClassName=high))).ok(201).json["spec"]
    assert (made["priority"], made["preemptionPolicy"]) == (1000, "PreemptLowerPriority")
    plain = (await api.post(f"{core}/pods", pod("b"))).ok(201).json["spec"]
    assert (plain["priority"], plain.get("priorityClassName")) == (0, None)
    own = await api.post(f"{core}/pods", pod("c", priorityClassName=high, priority=7))
    assert own.status == 403
    assert "the integer value of priority (7) must not be provided in pod spec" in own.message


async def test_pods_of_an_unknown_class_are_refused(api: Api, core: str) -> None:
    answer = await api.post(f"{core}/pods", pod("a", priorityClassName="nope"))
    assert answer.status == 403
    assert answer.message == 'pods "a" is forbidden: no PriorityClass with name nope was found'


async def test_classes_of_every_server(api: Api, core: str, high: str) -> None:
    values = {item["metadata"]["name"]: item["value"] for item in (await api.get(CLASSES)).json["items"]}
    assert (values["system-cluster-critical"], values["system-node-critical"]) == (2000000000, 2000001000)
    changed = await api.merge(f"{CLASSES}/{high}", {"value": 5})
    assert "may not be changed in an update." in changed.causes()["value"]
    for name, value in (("system-mine", 1), ("too-much", 2000000000)):
        assert (await api.post(CLASSES, {"metadata": {"name": name}, "value": value})).status in (403, 422)


REFUSED: list[tuple[str, str, str, Json, str]] = [
    ("a rule without verbs", f"{RBAC}/v1", "roles", role(verbs=[]), "rules[0].verbs"),
    ("a rule without resources", f"{RBAC}/v1", "roles", role(resources=[]), "rules[0].resources"),
    ("a rule without groups", f"{RBAC}/v1", "roles", role(apiGroups=[]), "rules[0].apiGroups"),
    ("a binding to nothing", f"{RBAC}/v1", "rolebindings", binding(kind="Pod"), "roleRef.kind"),
    ("a binding without a name", f"{RBAC}/v1", "rolebindings", binding(name=""), "roleRef.name"),
    ("too few", "autoscaling/v2", "horizontalpodautoscalers", autoscaler(minReplicas=4), "spec.maxReplicas"),
    ("none", "autoscaling/v2", "horizontalpodautoscalers", autoscaler(maxReplicas=0), "spec.maxReplicas"),
    ("no target", "autoscaling/v2", "horizontalpodautoscalers",
     autoscaler(scaleTargetRef={"kind": "X", "apiVersion": "v1"}), "spec.scaleTargetRef.name"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "plural", "body", "field"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
async def test_what_cannot_be(
    api: Api, namespace: str, group: str, plural: str, body: Json, field: str
) -> None:
    answer = await api.post(path(namespace, group, plural), body)
    assert answer.status == 422
    assert field in answer.causes()
