# ruff: noqa: E501 - a table is read by its rows
"""Server-side apply (suite C): managed fields, conflicts, force, lists of all sorts."""

from steelyard_common.types import Json
from tests.kubernetes_differential.case import (
    APPLY,
    Case,
    Request,
    Until,
    apply,
    delete,
    get,
    json_patch,
    merge,
    post,
    put,
)
from tests.kubernetes_differential.cases.patches import DEPLOY, RICH, A
from tests.kubernetes_differential.samples import (
    APPS,
    CONTAINER,
    CORE,
    CRDS,
    DRY,
    LABELS,
    MAPS,
    PODS,
    STRICT,
    WIDGETS,
    config_map,
    definition,
    deployment,
    pod,
    service,
    widget,
)

APPLIED: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def applied(**data: str) -> Json:
    return APPLIED | {"data": data}


def applied_deployment(**more: object) -> Json:
    return deployment("d", **more)


CASES = [
    Case("apply: create and repeat", apply(A, applied(x="1")), apply(A, applied(x="1")), apply(A, applied(x="2")), apply(A, applied(y="1")), managed=True),
    Case("apply: conflict and force", apply(A, applied(x="1")), apply(A, applied(x="2"), "two"), apply(A, applied(x="2"), "two", force=True), apply(A, applied(x="1")), apply(A, APPLIED), managed=True),
    Case("apply: shared", apply(A, applied(x="1")), apply(A, applied(x="1", y="2"), "two"), apply(A, APPLIED), apply(A, applied(y="2"), "two"), managed=True),
    Case("apply: after an update", post(f"{MAPS}?fieldManager=maker", config_map("a", {"x": "1"})), apply(A, applied(x="2")), apply(A, applied(x="2"), force=True), merge(f"{A}?fieldManager=patcher", {"data": {"y": "1"}}), apply(A, applied(y="3")), managed=True),
    Case("apply: update after apply", apply(A, applied(x="1", y="1")), put(f"{A}?fieldManager=putter", config_map("a", {"x": "2"})), apply(A, applied(y="2")), managed=True),
    Case("apply: parameters", Request("PATCH", A, applied(x="1"), type=APPLY), Request("PATCH", f"{A}?fieldManager=", applied(x="1"), type=APPLY), Request("PATCH", f"{A}?fieldManager={'x' * 129}", applied(x="1"), type=APPLY), Request("PATCH", f"{A}?force=true", applied(), type="application/merge-patch+json"),
         apply(A, {"kind": "ConfigMap", "metadata": {"name": "a"}}), apply(A, {"apiVersion": "v1", "metadata": {"name": "a"}}), apply(A, {"apiVersion": "v1", "kind": "ConfigMap"}), apply(A, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}), apply(A, APPLIED | {"metadata": {"name": "b"}}),
         apply(A, APPLIED | {"metadata": {"name": "a", "managedFields": []}}), apply(A, APPLIED | {"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}), apply(A, b": x"), apply(A, b"[]"), apply(A, applied(x="1") | {"foo": 1}), apply(f"{A}?{STRICT}", applied(x="1") | {"foo": 1}), apply(f"{A}?{DRY}", applied(x="5")), get(A)),
    Case("apply: YAML", apply(A, b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: '1'\n"), apply(A, b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1', x: '2'}\n"), managed=True),
    Case("apply: versions and uids", apply(A, applied(x="1"), name="made"), apply(A, applied(x="2") | {"metadata": {"name": "a", "resourceVersion": "1"}}), apply(A, applied(x="2") | {"metadata": {"name": "a", "uid": "x"}}), apply(f"{MAPS}/b", APPLIED | {"metadata": {"name": "b", "resourceVersion": "1"}}), apply(f"{MAPS}/b", APPLIED | {"metadata": {"name": "b", "uid": "x"}})),
    Case("apply: a Deployment's lists", apply(DEPLOY, applied_deployment(replicas=0, template={"metadata": {"labels": LABELS}, "spec": {"containers": [RICH], "volumes": [{"name": "v", "emptyDir": {}}]}}), compare=("spec", "metadata.managedFields.0")),
         apply(DEPLOY, deployment("d", replicas=0, template={"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "side", "image": "localhost/x"}]}}), "two", compare=("spec.template.spec.containers", "message", "details")),
         apply(DEPLOY, deployment("d", replicas=0, template={"metadata": {"labels": LABELS}, "spec": {"containers": [RICH | {"env": [{"name": "B", "value": "2"}]}], "volumes": [{"name": "v", "emptyDir": {}}]}}), compare=("spec.template.spec.containers", "message", "details")),
         apply(DEPLOY, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "localhost/other"}]}}}}, "three", compare=("message", "details")), managed=True),
    Case("apply: duplicate keys of lists", apply(DEPLOY, deployment("d", template={"spec": {"containers": [CONTAINER, CONTAINER]}})), apply(f"{CORE}/services/s", service("s", {"port": 80, "name": "a"}, {"port": 80, "name": "b"})), managed=True),
    Case("apply: status", post(PODS, pod("p"), compare=("kind",)), apply(f"{PODS}/p/status", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"message": "x"}}, compare=("status.message", "metadata.managedFields.1", "message")), managed=True),
    Case("apply: scale", post(f"{APPS}/deployments", deployment("d", replicas=0), compare=("kind",)), apply(f"{DEPLOY}/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 0}}, compare=("spec", "message"))),
    Case("apply: custom resources", post(CRDS, definition({"type": "object", "properties": {"spec": {"type": "object", "properties": {"set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
         "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}},
         "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}}, "list": {"type": "array", "items": {"type": "string"}}}}}}), compare=("kind",)),
         Until(CRDS + "/widgets.{{group}}", {"status.conditions[type=Established].status": "True"}, compare=("kind",)), Until(WIDGETS, compare=("kind",)),
         apply(f"{WIDGETS}/w", widget("w", set=["a", "b"], map=[{"k": "1", "v": "x"}], atomic={"a": "1"}, list=["a"])), apply(f"{WIDGETS}/w", widget("w", set=["c"], map=[{"k": "2", "v": "y"}]), "two"),
         apply(f"{WIDGETS}/w", widget("w", atomic={"b": "1"}), "two"), apply(f"{WIDGETS}/w", widget("w", list=["b"]), "two", force=True), apply(f"{WIDGETS}/w", widget("w", set=["b"])), apply(f"{WIDGETS}/w", widget("w", map=[{"v": "no key"}]), "four"), get(f"{WIDGETS}/w"), managed=True),
    Case("apply: managed fields written by hand", post(MAPS, config_map("a", {"x": "1"}), name="made"), json_patch(A, {"op": "replace", "path": "/metadata/managedFields", "value": [{}]}), merge(A, {"metadata": {"managedFields": []}}), apply(A, applied(x="2")),
         put(A, config_map("a", {"x": "3"}, managedFields=[{"manager": "m", "operation": "Foo", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}])), delete(A), managed=True),
]  # fmt: skip
