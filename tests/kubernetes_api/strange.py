"""Objects of the built-in kinds in which a few fields hold what they should not, by the fields' own types."""

import copy
from typing import Any

from hypothesis import strategies as st

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.builtin import builtin_kinds
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.schema import Node

NAMESPACE = "default"
KINDS = {kind.kind: kind for kind in builtin_kinds() if kind.stored_as is None}
CONTAINER: Json = {
    "name": "main", "image": "x", "command": ["true"],
    "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "ports": [{"containerPort": 80, "name": "web"}], "readinessProbe": {"httpGet": {"port": 80}},
    "resources": {"requests": {"memory": "1Mi", "cpu": "1m"}}, "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}  # fmt: skip
POD: Json = {
    "containers": [CONTAINER], "restartPolicy": "Never", "nodeSelector": {"kubernetes.io/os": "linux"},
    "volumes": [{"name": "v", "configMap": {"name": "a", "items": [{"key": "k", "path": "p"}]}}],
    "tolerations": [{"key": "a", "operator": "Exists"}], "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
}  # fmt: skip
LABELS = {"app": "strange"}
TEMPLATE: Json = {"metadata": {"labels": LABELS}, "spec": POD}
ALWAYS: Json = {**TEMPLATE, "spec": {**POD, "restartPolicy": "Always"}}
SELECTOR: Json = {
    "matchLabels": LABELS,
    "matchExpressions": [{"key": "app", "operator": "In", "values": ["strange"]}],
}
ROLLING = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "50%"}}}
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [{"rule": "self.n >= 0"}],
            "properties": {
                "n": {"type": "integer", "minimum": 0, "default": 1},
                "t": {"type": "string", "pattern": "^a+$", "maxLength": 5},
                "l": {"type": "array", "maxItems": 3, "items": {"type": "string"}},
            },
        }
    },
}
VERSION: Json = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
SMALL: Json = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
CLAIM: Json = {
    "metadata": {"name": "v", "labels": {"a": "b"}},
    "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Filesystem",
        "selector": {"matchLabels": {"a": "b"}},
        "resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}},
        "dataSource": {"kind": "PersistentVolumeClaim", "name": "a"},
        "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "a"},
    },
}  # fmt: skip
# Without a policy of success: where only the completions are left out besides, a real server ends the connection.
INDEXED: Json = {
    "completions": 3, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1, "maxFailedIndexes": 1,
    "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 60, "podReplacementPolicy": "Failed", "suspend": False,
    "managedBy": "example.com/a",
    "podFailurePolicy": {
        "rules": [
            {"action": "FailIndex", "onExitCodes": {"containerName": "main", "operator": "In", "values": [1, 42]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        ]
    },
    "template": {"metadata": {"labels": LABELS}, "spec": {**SMALL["spec"], "restartPolicy": "Never"}},
}  # fmt: skip
TARGET: Json = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
METRIC: Json = {"name": "m", "selector": {"matchLabels": {"a": "b"}}}
SHARE: Json = {"type": "Utilization", "averageUtilization": 50}
METRICS: list[Json] = [
    {"type": "Resource", "resource": {"name": "cpu", "target": SHARE}},
    {"type": "ContainerResource", "containerResource": {"name": "memory", "container": "main", "target": SHARE}},
    {"type": "Pods", "pods": {"metric": METRIC, "target": {"type": "AverageValue", "averageValue": "10"}}},
    {
        "type": "Object",
        "object": {"metric": METRIC, "describedObject": TARGET, "target": {"type": "Value", "value": "2k"}},
    },
    {"type": "External", "external": {"metric": METRIC, "target": {"type": "AverageValue", "averageValue": "30"}}},
]  # fmt: skip
POLICIES: list[Json] = [
    {"type": "Pods", "value": 2, "periodSeconds": 60},
    {"type": "Percent", "value": 50, "periodSeconds": 15},
]
BASES: dict[str, Json] = {
    "Pod": {"spec": POD},
    "Deployment": {"spec": {"replicas": 2, "selector": SELECTOR, "template": ALWAYS, **ROLLING}},
    "ReplicaSet": {"spec": {"replicas": 2, "selector": SELECTOR, "template": ALWAYS}},
    "Job": {"spec": {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": TEMPLATE}},
    "Service": {"spec": {"selector": LABELS, "ports": [{"name": "a", "port": 80, "targetPort": "web"}]}},
    "EndpointSlice": {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["127.9.9.9"], "conditions": {"ready": True}}],
        "ports": [{"name": "a", "port": 80}],
    },
    "ConfigMap": {"data": {"a": "b"}, "binaryData": {"c": "eA=="}},
    "Secret": {"data": {"a": "eA=="}, "stringData": {"b": "c"}},
    "Lease": {"spec": {"leaseDurationSeconds": 5, "renewTime": "2026-01-01T00:00:00.000000Z"}},
    "Event": {"involvedObject": {"namespace": NAMESPACE, "kind": "Pod", "name": "x"}, "count": 1},
    "PriorityClass": {"value": 5},
    "HorizontalPodAutoscaler": {"spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}},
    "CustomResourceDefinition": {
        "spec": {
            "group": "strange.example.com", "scope": "Namespaced", "versions": [VERSION],
            "names": {"plural": "stranges", "kind": "Strange"},
        }
    },
    "Namespace": {}, "Node": {"spec": {}}, "ServiceAccount": {},
    "Role": {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    "RoleBinding": {"roleRef": {"kind": "Role", "name": "a"}, "subjects": [{"kind": "User", "name": "b"}]},
    "StatefulSet": {
        "spec": {
            "replicas": 2, "serviceName": "s", "podManagementPolicy": "Parallel", "minReadySeconds": 1,
            "revisionHistoryLimit": 2, "ordinals": {"start": 1}, "selector": SELECTOR, "template": SMALL,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": 1}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
            "volumeClaimTemplates": [CLAIM],
        }
    },
    "DaemonSet": {
        "spec": {
            "selector": SELECTOR, "template": SMALL, "minReadySeconds": 1, "revisionHistoryLimit": 2,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "50%"}},
        }
    },
    "CronJob": {
        "spec": {
            "schedule": "*/5 1-3 * jan mon-fri", "timeZone": "Europe/Berlin", "startingDeadlineSeconds": 60,
            "concurrencyPolicy": "Forbid", "suspend": True, "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 2, "jobTemplate": {"metadata": {"labels": LABELS}, "spec": INDEXED},
        }
    },
    "Job, indexed": {"spec": INDEXED},
    "HorizontalPodAutoscaler, of all metrics": {
        "spec": {
            "minReplicas": 2, "maxReplicas": 4, "scaleTargetRef": TARGET, "metrics": METRICS,
            "behavior": {
                "scaleUp": {"stabilizationWindowSeconds": 10, "selectPolicy": "Min", "policies": POLICIES},
                "scaleDown": {"selectPolicy": "Disabled", "policies": POLICIES[:1], "tolerance": "0.1"},
            },
        }
    },
    "PersistentVolumeClaim": {"spec": CLAIM["spec"]},
}  # fmt: skip
"""Valid objects by their kind; where a kind has several, a comma and the special part come after its name."""


def kind_of(base: str) -> ResourceType:
    """Return the kind of a base."""
    return KINDS[base.partition(",")[0]]


INTEGERS = [
    0,
    1,
    -1,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**63 - 1,
    2**63,
    2**64,
    10**30,
    1.5,
    1e300,
    float("nan"),
]
TEXTS = [
    "", "a", "A_", "a b", "\x00", "a\nb", "\ud800", "ü", "\u202e", "..", "../../x", "/", "x" * 64, "x" * 300,
    "x" * 70_000,
    "1e999", "-1", "NaN", "0.5", "9" * 5000, "99999999999999999999%", "101%", "%", "0x10", "true", "None", "127.0.0.1",
    "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z", "2026-01-01", "0-2147483646", "{{}}", "$(A)", "(a+)+$", "(",
]  # fmt: skip
DEEP: Any = None
for _ in range(150):
    DEEP = {"a": [DEEP]}
FOREIGN = [None, True, 0, -1, 1.5, float("inf"), "", "x", [], {}, [None], [[]], {"": ""}, {"a": None}, DEEP]


def leaf(node: Node) -> st.SearchStrategy[Any]:
    """Draw a value that a field of this type should not hold; now and then, one that another type may hold."""
    match node.type:
        case "integer" | "number":
            own: list[Any] = INTEGERS
        case "int-or-string" | "quantity":
            own = INTEGERS + TEXTS
        case "string" | "time":
            own = TEXTS
        case "boolean":
            own = [True, False, "true", 1]
        case "array":
            own = [[], None, [None], [{}] * 50, ["a"] * 50]
        case _:
            own = [{}, None, {"a b": "c d"}, {"a": "b"}, {"x" * 300: ""}]
    chosen = st.one_of(st.sampled_from(own), st.sampled_from(own), st.sampled_from(FOREIGN))
    return chosen.map(copy.deepcopy)


@st.composite
def with_strange_field(draw: st.DrawFn, node: Node, value: Any) -> Any:
    """The value with one field below it, or itself, made strange. Fields that are there come more often."""
    value = copy.deepcopy(value)
    if draw(st.sampled_from(range(6))) == 0:
        return draw(leaf(node))
    if node.items is not None and isinstance(value, list):
        where = draw(st.integers(0, max(len(value) - 1, 0)))
        below = draw(with_strange_field(node.items, value[where] if value else {}))
        return [*value[:where], below, *value[where + 1 :]]
    if (node.properties or node.values) and isinstance(value, dict):
        there, known = sorted(value), sorted(node.properties or {})
        usual = bool(there) and draw(st.sampled_from([True, True, True, False]))
        name: str = draw(st.sampled_from(there if usual else known or TEXTS))
        child = (node.properties or {}).get(name) or node.values or Node()
        default: Any = [] if child.items else {}
        value[name] = draw(with_strange_field(child, value.get(name, default)))
        return value
    return draw(leaf(node))


@st.composite
def strange_objects(draw: st.DrawFn) -> tuple[ResourceType, Json, Json]:
    """A kind, an object of it with a few strange fields, and a strange status."""
    base = draw(st.sampled_from(sorted(BASES)))
    kind = kind_of(base)
    obj: Json = copy.deepcopy(BASES[base])
    for _ in range(draw(st.integers(0, 3))):
        strange_object = draw(with_strange_field(kind.node(), obj))
        obj = strange_object if isinstance(strange_object, dict) else obj
    metadata = obj.get("metadata")
    named = "stranges.strange.example.com" if kind.kind == "CustomResourceDefinition" else "strange"
    if isinstance(metadata, dict) and draw(st.booleans()):
        obj["metadata"] = {"name": named, **metadata}
    else:
        obj["metadata"] = {"name": named}
    status = (kind.node().properties or {}).get("status")
    return kind, obj, draw(with_strange_field(status, {})) if status and kind.has_status else {}


def collection(kind: ResourceType) -> str:
    """The path of a kind's objects."""
    return f"/{kind.group_version}{f'/namespaces/{NAMESPACE}' if kind.namespaced else ''}/{kind.plural}"
