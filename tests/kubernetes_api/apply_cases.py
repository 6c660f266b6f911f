"""Server-side apply: sequences of requests, each about one thing. `apply_answers.py` sends them."""

import json
from typing import Any, NamedTuple

from steelyard_common.types import Json
from tests.kubernetes_api.api import JSON_PATCH, MERGE

APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
_ANY: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _listed(items: Json, kind: str = "", *keys: str) -> Json:
    schema: Json = {"type": "array", "items": items}
    if kind:
        schema["x-kubernetes-list-type"] = kind
    return schema | ({"x-kubernetes-list-map-keys": list(keys)} if keys else {})


_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_ITEM: Json = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": _TEXT,
        "protocol": {"type": "string", "default": "TCP"},
        "weight": _NUMBER,
        "words": _listed(_TEXT),
    },
}
_POINT: Json = {"type": "object", "properties": {"x": _NUMBER, "y": _NUMBER}}
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": _NUMBER,
                "colour": _TEXT,
                "items": _listed(_ITEM, "map", "name"),
                "pairs": _listed(_ITEM, "map", "name", "protocol"),
                "words": _listed(_TEXT, "set"),
                "numbers": _listed(_NUMBER, "set"),
                "whole": _listed(_TEXT),
                "label": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": _TEXT,
                },
                "map": {"type": "object", "additionalProperties": _TEXT},
                "points": {"type": "object", "additionalProperties": _POINT},
                "free": _ANY,
                "port": {"x-kubernetes-int-or-string": True},
                "count": {"type": "integer", "default": 5},
                "nullable": {"type": "string", "nullable": True},
            },
        },
        "status": _ANY,
    },
}


class Step(NamedTuple):
    """One request; in its path and body, words in capitals stand for the namespace and the paths in it."""

    method: str
    path: str
    body: object = None
    type: str = "application/json"


CONFIG_MAP, WIDGET, DEPLOYMENT = "CORE/configmaps/c", "WIDGETS/w", "APPS/deployments/d"
FORCE = "&force=true"


def apply(path: str, manager: str, body: object, more: str = "") -> Step:
    return Step("PATCH", f"{path}?fieldManager={manager}{more}", body, APPLY)


def merge(path: str, manager: str, body: object) -> Step:
    return Step("PATCH", f"{path}?fieldManager={manager}", body, MERGE)


def config_map(data: object = None, **metadata: Any) -> Json:
    obj: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}}
    return obj | ({"data": data} if data is not None else {})


def widget(**spec: Any) -> Json:
    return {"apiVersion": "GROUP/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def _items(names: str) -> list[Json]:
    return [{"name": name} for name in names]


def _deployment(containers: list[Json], **spec: Any) -> Json:
    template: Json = {"spec": {"containers": containers}}
    if spec:
        template["metadata"] = {"labels": {"a": "b"}}
        spec["selector"] = {"matchLabels": {"a": "b"}}
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    return obj | {"spec": {**spec, "template": template}}


_PORTS = [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}]
_MAIN = {"name": "main", "image": "localhost/x", "ports": _PORTS, "env": [{"name": "A", "value": "1"}]}
FULL = _deployment([_MAIN], replicas=0)
REPLICA_SET = {"kind": "ReplicaSet"}
WEB = {"containerPort": 80, "protocol": "TCP", "name": "web"}
UNTRACKED: Json = {"metadata": {"managedFields": [{}]}}


def _of_main(**fields: Any) -> Json:
    return _deployment([{"name": "main", **fields}])


def _scale(replicas: int) -> Json:
    metadata = {"name": "d", "namespace": "NAMESPACE"}
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": metadata,
        "spec": {"replicas": replicas},
    }


def _managed(operation: str) -> list[Json]:
    entry = {"manager": "me", "operation": operation, "apiVersion": "v1", "time": "2020-01-01T00:00:00Z"}
    return [entry | {"fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:a": {}}}}]


_LAST = "kubectl.kubernetes.io/last-applied-configuration"
_LAST_TEXT = json.dumps(config_map({"a": "1"}))
YAML = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: 'x', d: 2001-01-01, yes: 'y'}\n"
TWICE = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1","a":"2"}}'
SERVICE: Json = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
_JOB_TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "localhost/x"}]}}
JOB = {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": _JOB_TEMPLATE}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}


def _service(selected: str, name: str, port: int) -> Json:
    ports = [{"name": name, "port": port}]
    return SERVICE | {"spec": {"selector": {"a": selected}, "ports": ports}}


def _copied(data: Json) -> Json:
    """A ConfigMap with the managed fields of another one."""
    return config_map(data) | {"metadata": {"name": "e", "managedFields": _managed("Apply")}}


CASES: dict[str, list[Step]] = {
    "an apply creates, changes and empties": [
        apply(CONFIG_MAP, "one", config_map(data)) for data in ({"a": "1"}, {"a": "1"}, {"a": "2"}, {})
    ],
    "another value is a conflict": [
        apply(CONFIG_MAP, "one", config_map({"a": "1", "b": "1"})),
        apply(CONFIG_MAP, "two", config_map({"a": "2"})),
        apply(CONFIG_MAP, "two", config_map({"a": "2", "b": "3"})),
        apply(CONFIG_MAP, "two", config_map({"a": "2"}), FORCE),
        apply(CONFIG_MAP, "one", config_map({"a": "1", "b": "1"})),
    ],
    "a field goes with its last manager": [
        apply(CONFIG_MAP, "one", config_map({"a": "1"})),
        apply(CONFIG_MAP, "two", config_map({"a": "1"})),
        apply(CONFIG_MAP, "one", config_map()),
        apply(CONFIG_MAP, "two", config_map()),
    ],
    "what is not applied again goes": [
        apply(CONFIG_MAP, "one", config_map({"a": "1", "b": "2"}, labels={"x": "y"})),
        apply(CONFIG_MAP, "one", config_map({"b": "2"})),
    ],
    "updates take fields over": [
        apply(CONFIG_MAP, "one", config_map({"a": "1"})),
        merge(CONFIG_MAP, "up", {"data": {"a": "2", "z": "1"}}),
        apply(CONFIG_MAP, "one", config_map({"a": "1"})),
        apply(CONFIG_MAP, "one", config_map({})),
        Step("PUT", f"{CONFIG_MAP}?fieldManager=put", config_map({"a": "9"})),
        Step("PATCH", f"{CONFIG_MAP}?fieldManager=j", [{"op": "add", "path": "/data/q", "value": "1"}], JSON_PATCH),
        Step("PATCH", f"{CONFIG_MAP}?fieldManager=s", {"data": {"r": "1"}}, STRATEGIC),
    ],
    "a named manager of a creation is kept": [
        Step("POST", "CORE/configmaps?fieldManager=made", config_map({"a": "1"})),
        apply(CONFIG_MAP, "one", config_map({"a": "2"})),
        Step("POST", "BATCH/jobs?fieldManager=made", JOB),
    ],
    "an untracked object belongs to the time before": [
        Step("POST", "CORE/configmaps?fieldManager=made", config_map({"a": "1"})),
        merge(CONFIG_MAP, "x", UNTRACKED),
        apply(CONFIG_MAP, "one", config_map({"a": "1"})),
        apply(CONFIG_MAP, "one", config_map({"a": "2"})),
        apply(CONFIG_MAP, "one", config_map({"a": "2"}), FORCE),
    ],
    "options are checked": [
        Step("PATCH", CONFIG_MAP, config_map(), APPLY),
        Step("PATCH", f"{CONFIG_MAP}?fieldManager={'x' * 129}", config_map(), APPLY),
        Step("PATCH", f"{CONFIG_MAP}?fieldManager=a%0Ab", config_map(), APPLY),
        Step("PATCH", f"{CONFIG_MAP}?fieldManager=a&force=true", {}, MERGE),
        Step("POST", f"CORE/configmaps?fieldManager={'x' * 129}", config_map()),
    ],
    "bodies are checked": [
        apply(CONFIG_MAP, "a", b"{"),
        apply(CONFIG_MAP, "a", b"[]"),
        apply(CONFIG_MAP, "a", b""),
        apply(CONFIG_MAP, "a", {"kind": "ConfigMap"}),
        apply(CONFIG_MAP, "a", {"kind": "Secret", "apiVersion": "v1"}),
        apply(CONFIG_MAP, "a", {"kind": "ConfigMap", "apiVersion": "v1"}),
        apply(CONFIG_MAP, "a", config_map({"a": 1})),
        apply(CONFIG_MAP, "a", config_map(managedFields=[])),
        apply(CONFIG_MAP, "a", {**config_map(), "foo": 1}),
        apply(CONFIG_MAP, "a", config_map(uid="x")),
        apply(CONFIG_MAP, "a", {**config_map(), "metadata": {"name": "other"}}),
        apply(CONFIG_MAP, "a", config_map(namespace="default")),
        apply(CONFIG_MAP, "a", config_map("x")),
        apply(CONFIG_MAP, "a", config_map(labels=["a"])),
        apply("CORE/configmaps/BAD", "a", {**config_map(), "metadata": {"name": "BAD"}}),
        apply(CONFIG_MAP, "a", config_map({"a": "1"}, resourceVersion="1")),
    ],
    "YAML": [
        apply(CONFIG_MAP, "a", YAML),
        apply(CONFIG_MAP, "a", TWICE, "&fieldValidation=Strict"),
        apply(CONFIG_MAP, "a", TWICE),
    ],
    "a dry run": [
        apply(CONFIG_MAP, "one", config_map({"a": "1"}), "&dryRun=All"),
        Step("GET", CONFIG_MAP),
        apply(CONFIG_MAP, "one", config_map({"a": "1"})),
        apply(CONFIG_MAP, "one", config_map({"a": "2"}), "&dryRun=All"),
        Step("GET", CONFIG_MAP),
    ],
    "no subresource is created": [
        apply("CORE/pods/p/status", "a", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}),
        apply(f"{WIDGET}/status", "a", widget()),
    ],
    "items of a list map": [
        apply(WIDGET, "one", widget(items=[{"name": "a", "weight": 1}, {"name": "b"}])),
        apply(WIDGET, "two", widget(items=[{"name": "c", "weight": 2}, {"name": "a", "words": ["x"]}])),
        apply(WIDGET, "two", widget(items=[{"name": "b", "weight": 7}])),
        apply(WIDGET, "one", widget(items=[{"name": "a", "weight": 1}])),
        apply(WIDGET, "two", widget()),
        apply(WIDGET, "one", widget(items=[{"weight": 1}])),
        apply(WIDGET, "one", widget(items=_items("aa"))),
    ],
    "items by two keys, one with a default": [
        apply(WIDGET, "one", widget(pairs=[{"name": "a"}, {"name": "a", "protocol": "UDP"}])),
        apply(WIDGET, "two", widget(pairs=[{"name": "a", "protocol": "TCP", "weight": 1}])),
        apply(WIDGET, "one", widget(pairs=[{"name": "a", "protocol": "UDP"}])),
    ],
    "the order of items": [
        apply(WIDGET, manager, widget(items=_items(names)))
        for manager, names in (("one", "abcd"), ("two", "xdyb"), ("three", "dxcba"))
    ],
    "values of a set": [
        apply(WIDGET, "one", widget(words=["a", "b"], numbers=[3, 1])),
        apply(WIDGET, "two", widget(words=["b", "c"], numbers=[10, 9])),
        apply(WIDGET, "one", widget(words=["b"])),
        apply(WIDGET, "two", widget()),
        apply(WIDGET, "two", widget(words=["a", "a"])),
    ],
    "atomic lists and maps": [
        apply(WIDGET, "one", widget(whole=["a"], label={"x": "1"})),
        apply(WIDGET, "two", widget(whole=["a", "b"], label={"y": "1"})),
        apply(WIDGET, "two", widget(whole=["a", "b"], label={"y": "1"}), FORCE),
        apply(WIDGET, "two", widget(size=1)),
    ],
    "maps of texts, of objects and of anything": [
        apply(WIDGET, "one", widget(map={"k": "1"}, points={"m": {"x": 1}}, free={"z": {"q": [1]}}, port="x")),
        apply(WIDGET, "two", widget(map={"l": "1"}, points={"m": {"y": 2}, "n": {}}, free={"z": {"r": 1}}, port=3)),
        apply(WIDGET, "two", widget(map={"l": "1"}, points={"m": {"y": 2}, "n": {}}, free={"z": {"r": 1}})),
        apply(WIDGET, "one", widget()),
        apply(WIDGET, "two", widget()),
    ],
    "nulls": [
        apply(WIDGET, "one", widget(size=None, colour="x")),
        apply(WIDGET, "one", widget(nullable=None, count=None)),
        apply(WIDGET, "one", widget(items=[])),
        apply(WIDGET, "one", widget(items=None)),
    ],
    "fields that do not fit": [
        apply(WIDGET, "one", widget(unknown=1)),
        apply(WIDGET, "one", widget(size="text")),
        apply(WIDGET, "one", widget(colour={"a": [1, "b"]})),
    ],
    "the status of a custom object": [
        apply(WIDGET, "one", widget(size=1)),
        apply(f"{WIDGET}/status", "st", {**widget(size=9), "status": {"x": 1, "l": [1]}}),
        merge(f"{WIDGET}/status", "mg", {"status": {"y": 2}}),
        apply(f"{WIDGET}/status", "st", {**widget(), "status": {"y": 3}}),
        apply(f"{WIDGET}/status", "st", {**widget(), "status": {"y": 3}}, FORCE),
        Step("GET", WIDGET),
    ],
    "containers of a Deployment": [
        apply(DEPLOYMENT, "one", FULL),
        apply(DEPLOYMENT, "two", _of_main(image="other")),
        apply(DEPLOYMENT, "two", _of_main(env=[{"name": "B", "value": "1"}])),
        apply(DEPLOYMENT, "three", _of_main(ports=[WEB])),
        merge(DEPLOYMENT, "sc", {"spec": {"replicas": 1}}),
        apply(DEPLOYMENT, "one", FULL),
        apply(DEPLOYMENT, "two", _of_main()),
    ],
    "an untracked ReplicaSet": [
        Step("POST", "APPS/replicasets?fieldManager=made", FULL | REPLICA_SET),
        merge("APPS/replicasets/d", "x", UNTRACKED),
        apply("APPS/replicasets/d", "two", _of_main(env=[{"name": "B", "value": "1"}]) | REPLICA_SET),
    ],
    "ports of a Service": [
        apply("CORE/services/s", "one", _service("b", "x", 80)),
        apply("CORE/services/s", "one", _service("c", "y", 81)),
    ],
    "scale": [
        apply(DEPLOYMENT, "one", FULL),
        merge(f"{DEPLOYMENT}/scale", "m", {"spec": {"replicas": 2}}),
        apply(DEPLOYMENT, "one", FULL),
        apply(f"{DEPLOYMENT}/scale", "sc", _scale(3)),
        apply(f"{DEPLOYMENT}/scale", "sc", _scale(3), FORCE),
        Step("GET", DEPLOYMENT),
        apply(DEPLOYMENT, "one", FULL),
        apply(DEPLOYMENT, "one", FULL, FORCE),
        Step("PUT", f"{DEPLOYMENT}/scale?fieldManager=pp", _scale(5)),
        Step("GET", DEPLOYMENT),
    ],
    "managed fields in a request": [
        apply(CONFIG_MAP, "one", config_map({"a": "1"})),
        merge(CONFIG_MAP, "x", {"metadata": {"managedFields": _managed("Update")}}),
        merge(CONFIG_MAP, "x", {"metadata": {"managedFields": _managed("Bad")}}),
        merge(CONFIG_MAP, "x", {"metadata": {"managedFields": []}}),
        Step("POST", "CORE/configmaps?fieldManager=q", _copied({"a": "1", "b": "2"})),
    ],
    "metadata": [
        apply(CONFIG_MAP, "one", config_map({}, finalizers=["a.b/c"], labels={"a": "b"}, annotations={"k": "v"})),
        apply(CONFIG_MAP, "two", config_map(finalizers=["a.b/d"])),
        apply(CONFIG_MAP, "one", config_map()),
        apply(CONFIG_MAP, "two", config_map()),
    ],
    "kubectl takes over from its client-side apply": [
        apply(CONFIG_MAP, "one", config_map({"a": "1"}, annotations={_LAST: _LAST_TEXT})),
        apply(CONFIG_MAP, "kubectl", config_map({"a": "2"})),
        apply(CONFIG_MAP, "kubectl", config_map({"a": "3"})),
    ],
    "at most ten who update": [
        apply(CONFIG_MAP, "one", config_map({})),
        *(merge(CONFIG_MAP, f"u{index:02}", {"data": {f"k{index}": "1"}}) for index in range(13)),
    ],
    "texts of a Secret": [
        apply("CORE/secrets/x", "a", SECRET | {"stringData": {"a": text}})
        for text in ("b", "c")
    ],
}  # fmt: skip
