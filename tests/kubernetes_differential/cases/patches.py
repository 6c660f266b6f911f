# ruff: noqa: E501 - a table is read by its rows
"""Patches: JSON patch, merge patch, strategic merge patch (suite D), and server-side apply (suite C)."""

from steelyard_common.types import Json
from tests.kubernetes_differential.case import (
    JSON_PATCH,
    Case,
    Request,
    Until,
    json_patch,
    merge,
    post,
    strategic,
)
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

A = f"{MAPS}/a"
DEPLOY = f"{APPS}/deployments/d"
SPEC = ("spec.template", "spec.replicas", "spec.strategy", "message", "reason", "details", "code")
SIDE: Json = {"name": "side", "image": "localhost/side:1"}
RICH: Json = {
    **CONTAINER, "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "command": ["a", "b"],
    "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 81}], "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}  # fmt: skip
WHOLE: Json = {
    "containers": [RICH, SIDE],
    "volumes": [{"name": "v", "emptyDir": {}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
}


def change(*containers: Json, **spec: object) -> Json:
    """A strategic patch of a Deployment's Pods."""
    return {
        "spec": {"template": {"spec": {**({"containers": list(containers)} if containers else {}), **spec}}}
    }


STRATEGIC_PATCHES: dict[str, Json] = {
    "an image": change({"name": "main", "image": "localhost/x:2"}),
    "a new container": change({"name": "third", "image": "localhost/x:2"}),
    "a container less": change({"name": "side", "$patch": "delete"}),
    "containers replaced": change({"name": "only", "image": "localhost/x:2"}, {"$patch": "replace"}),
    "a container without its key": change({"image": "localhost/x:2"}),
    "a variable": change({"name": "main", "env": [{"name": "A", "value": "9"}, {"name": "C", "value": "3"}]}),
    "a variable less": change({"name": "main", "env": [{"name": "A", "$patch": "delete"}]}),
    "no variables": change({"name": "main", "env": None}),
    "a port of another protocol": change({"name": "main", "ports": [{"containerPort": 80, "protocol": "UDP"}]}),
    "a port changed": change({"name": "main", "ports": [{"containerPort": 80, "name": "other"}]}),
    "a command": change({"name": "main", "command": ["x"]}),
    "a mount": change({"name": "main", "volumeMounts": [{"mountPath": "/w", "name": "v"}]}),
    "an order of containers": {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]}}}},
    "an order and a change": {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}], "containers": [{"name": "main", "image": "localhost/y:1"}]}}}},
    "a volume of another source": change(volumes=[{"name": "v", "emptyDir": None, "configMap": {"name": "x"}}]),
    "retained keys": change(volumes=[{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "x"}}]),
    "tolerations": change(tolerations=[{"key": "b", "operator": "Exists"}]),
    "another strategy": {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
    "another strategy alone": {"spec": {"strategy": {"type": "Recreate"}}},
    "labels": {"metadata": {"labels": {"x": "y"}, "annotations": {"a": None}}},
    "a whole map replaced": {"spec": {"template": {"metadata": {"labels": {"$patch": "replace", "app": "a", "z": "1"}}}}},
    "an unknown directive": {"spec": {"template": {"$patch": "foo"}}},
    "deleted from primitives": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}},
    "finalizers merged": {"metadata": {"finalizers": ["a.b/c", "a.b/d"]}},
    "a wrong type": {"spec": {"replicas": "x"}},
    "a list for an object": {"spec": []},
    "nothing": {},
}  # fmt: skip
JSON_PATCHES: dict[str, list[Json]] = {
    "add": [{"op": "add", "path": "/data/y", "value": "2"}],
    "add below nothing": [{"op": "add", "path": "/foo/y", "value": "2"}],
    "replace": [{"op": "replace", "path": "/data/x", "value": "2"}],
    "replace nothing": [{"op": "replace", "path": "/data/y", "value": "2"}],
    "remove": [{"op": "remove", "path": "/data/x"}],
    "remove nothing": [{"op": "remove", "path": "/data/y"}],
    "move": [{"op": "move", "from": "/data/x", "path": "/data/y"}],
    "copy": [{"op": "copy", "from": "/data/x", "path": "/data/y"}],
    "copy nothing": [{"op": "copy", "from": "/data/z", "path": "/data/y"}],
    "test": [{"op": "test", "path": "/data/x", "value": "1"}],
    "failed test": [{"op": "test", "path": "/data/x", "value": "2"}],
    "test of nothing": [{"op": "test", "path": "/data/z", "value": None}],
    "test of a version": [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}],
    "unknown operation": [{"op": "foo", "path": "/data/x"}],
    "no operation": [{"path": "/data/x"}],
    "no path": [{"op": "remove"}],
    "bad pointer": [{"op": "remove", "path": "data"}],
    "escaped": [{"op": "add", "path": "/metadata/annotations", "value": {}}, {"op": "add", "path": "/metadata/annotations/a.b~1c", "value": "d"}],
    "end of list": [{"op": "add", "path": "/metadata/finalizers", "value": []}, {"op": "add", "path": "/metadata/finalizers/-", "value": "a.b/c"}],
    "index beyond": [{"op": "add", "path": "/metadata/finalizers", "value": []}, {"op": "add", "path": "/metadata/finalizers/7", "value": "a.b/c"}],
    "wrong type": [{"op": "replace", "path": "/data", "value": "x"}],
    "the name": [{"op": "replace", "path": "/metadata/name", "value": "x"}],
    "the kind": [{"op": "replace", "path": "/kind", "value": "Pod"}],
    "everything": [{"op": "replace", "path": "", "value": {}}],
    "none": [],
}  # fmt: skip
CASES = [
    *[Case(f"strategic: {name}", post(f"{APPS}/deployments", deployment("d", replicas=0, template={"metadata": {"labels": LABELS}, "spec": WHOLE}), compare=("kind",)),
           strategic(f"{DEPLOY}?{DRY}", patch, compare=(*SPEC, "metadata.labels", "metadata.finalizers"))) for name, patch in STRATEGIC_PATCHES.items()],
    *[Case(f"json patch: {name}", post(MAPS, config_map("a", {"x": "1"})), json_patch(A, *patch)) for name, patch in JSON_PATCHES.items()],
    Case("json patch: no list", post(MAPS, config_map("a")), Request("PATCH", A, {"op": "x"}, type=JSON_PATCH), Request("PATCH", A, b"x", type=JSON_PATCH), Request("PATCH", A, b"", type=JSON_PATCH)),
    Case("merge patch: members", post(MAPS, config_map("a", {"x": "1", "y": "2"})), merge(A, {"data": {"x": None, "z": "3"}}), merge(A, {"data": None}), merge(A, {}), merge(A, {"data": {"a": {"b": None}}}),
         merge(A, []), merge(A, None), merge(A, b"x"), merge(A, {"metadata": {"name": "b"}}), merge(A, {"metadata": {"uid": "x"}}), merge(A, {"metadata": {"namespace": "x"}}), merge(A, {"kind": "Pod"}),
         merge(A, {"apiVersion": "v2"}), merge(A, {"metadata": {"creationTimestamp": None, "generation": 5}}), merge(A, {"metadata": None}), merge(f"{A}?{STRICT}", {"foo": {"bar": 1}}), merge(f"{A}?{STRICT}", b'{"data":{"x":"1","x":"2"}}')),
    Case("patches: media types", post(MAPS, config_map("a")), Request("PATCH", A, {}, type="application/json"), Request("PATCH", A, {}, type="text/plain"), Request("PATCH", A, {}, type="application/merge-patch+json; charset=utf-8")),
    Case("patches: strategic of a custom resource", post(CRDS, definition(), compare=("kind",)), Until(CRDS + "/widgets.{{group}}", {"status.conditions[type=Established].status": "True"}, compare=("kind",)), Until(WIDGETS, compare=("kind",)),
         post(WIDGETS, widget("w", a=1)), strategic(f"{WIDGETS}/w", {"spec": {"a": 2}}), merge(f"{WIDGETS}/w", {"spec": {"a": None, "b": [1]}}), json_patch(f"{WIDGETS}/w", {"op": "add", "path": "/spec/b/-", "value": 2})),
    Case("patches: of Pods and Services", post(PODS, pod("p"), compare=("kind",)), strategic(f"{PODS}/p", {"spec": {"containers": [{"name": "main", "image": "localhost/x:2"}]}}, compare=("spec.containers.0.image", "metadata.generation")),
         strategic(f"{PODS}/p", {"spec": {"containers": [{"name": "other", "image": "x"}]}}), post(f"{CORE}/services", service("s")), strategic(f"{CORE}/services/s", {"spec": {"ports": [{"port": 80, "targetPort": 8080}, {"port": 81, "name": "b"}]}}),
         strategic(f"{CORE}/services/s", {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}), strategic(f"{CORE}/services/s", {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}})),
]  # fmt: skip
