"""Autoscalers in version 1, which keeps in annotations what it has no fields for, read and written in both versions."""

import json
from typing import Any

from steelyard_common.types import Json
from tests.kubernetes_api.strange import METRICS, POLICIES, SHARE, TARGET
from tests.kubernetes_differential.case import Case, get, merge, post, put
from tests.kubernetes_differential.samples import DRY

OLD = "/apis/autoscaling/v1/namespaces/{{ns}}/horizontalpodautoscalers"
NEW = "/apis/autoscaling/v2/namespaces/{{ns}}/horizontalpodautoscalers"
ALL = ("kind", "apiVersion", "message", "reason", "details", "code", "metadata.annotations", "spec", "status")
PREFIX = "autoscaling.alpha.kubernetes.io"
SELECTOR: Json = {"matchLabels": {"a": "b"}}
OLD_METRICS: list[Json] = [
    {"type": "Resource", "resource": {"name": "memory", "targetAverageUtilization": 50}},
    {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}},
    {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 60}},
    {
        "type": "ContainerResource",
        "containerResource": {"name": "cpu", "container": "c", "targetAverageUtilization": 5},
    },
    {"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "10", "selector": SELECTOR}},
    {"type": "Object", "object": {"metricName": "m", "target": TARGET, "targetValue": "2k"}},
    {
        "type": "Object",
        "object": {"metricName": "m", "target": TARGET, "targetValue": "2k", "averageValue": "3"},
    },
    {"type": "External", "external": {"metricName": "m", "metricSelector": SELECTOR, "targetValue": "30"}},
    {"type": "External", "external": {"metricName": "m", "targetAverageValue": "1500m"}},
]
STATUSES: list[Json] = [
    {
        "type": "Resource",
        "resource": {"name": "cpu", "currentAverageUtilization": 7, "currentAverageValue": "70m"},
    },
    {"type": "Pods", "pods": {"metricName": "m", "currentAverageValue": "9"}},
]
NEW_STATUS: Json = {
    "currentReplicas": 1,
    "desiredReplicas": 2,
    "conditions": [
        {
            "type": "AbleToScale",
            "status": "True",
            "reason": "r",
            "message": "m",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        }
    ],
    "currentMetrics": [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": 5, "averageValue": "50m"}},
        },
        {"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "1500m"}}},
        {
            "type": "ContainerResource",
            "containerResource": {"name": "cpu", "container": "c", "current": {"averageValue": "1"}},
        },
        {"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "10"}}},
        {
            "type": "Object",
            "object": {"metric": {"name": "m"}, "describedObject": TARGET, "current": {"value": "2k"}},
        },
        {
            "type": "External",
            "external": {"metric": {"name": "m", "selector": SELECTOR}, "current": {"averageValue": "3"}},
        },
    ],
}
BEHAVIOR: Json = {
    "ScaleUp": {
        "StabilizationWindowSeconds": 10,
        "SelectPolicy": "Min",
        "Policies": [{"Type": "Pods", "Value": 2, "PeriodSeconds": 60}],
    },
    "ScaleDown": {"SelectPolicy": "Disabled"},
}


def scaler(name: str, version: str = "v1", **spec: Any) -> Json:
    spec = {"maxReplicas": 3, "scaleTargetRef": TARGET, **spec}
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": spec,
    }


def annotated(name: str, spec: Json | None = None, /, **values: Any) -> Json:
    """An autoscaler with these annotations; other values than texts are written as JSON."""
    texts = {
        f"{PREFIX}/{field.replace('_', '-')}": value if isinstance(value, str) else json.dumps(value)
        for field, value in values.items()
    }
    obj = scaler(name, **(spec or {}))
    return obj | {"metadata": {"name": name, "annotations": {"a": "b", **texts}}}


def both(name: str) -> list[Any]:
    return [get(f"{OLD}/{name}", compare=ALL), get(f"{NEW}/{name}", compare=ALL)]


WRONG: list[Json] = [
    {"metadata": {"name": "t", "annotations": {f"{PREFIX}/metrics": 5}}},
    {"metadata": {"name": "t", "annotations": []}},
    {"metadata": []},
    {"metadata": None},
    {"spec": []},
    {"spec": None},
    {"spec": {"maxReplicas": 3, "scaleTargetRef": TARGET, "targetCPUUtilizationPercentage": "x"}},
    {"status": []},
]
BEHAVIORS: list[Any] = [
    "",
    "x",
    "null",
    "{}",
    "[]",
    BEHAVIOR,
    {"scaleUp": {"policies": POLICIES}},
    {"ScaleUp": {}},
    {"ScaleUp": {"SelectPolicy": "foo"}},
    {"ScaleDown": {"Policies": [{"Type": "foo"}]}},
    {"ScaleUp": None},
    {"ScaleUp": {"Tolerance": "0.1"}},
    {"foo": 1},
]
CASES = [
    Case(
        "autoscalers: metrics in an annotation",
        *(
            step
            for index, metric in enumerate(OLD_METRICS)
            for step in (post(OLD, annotated(f"a{index}", metrics=[metric]), compare=ALL), *both(f"a{index}"))
        ),
        post(OLD, annotated("all", {"targetCPUUtilizationPercentage": 40}, metrics=OLD_METRICS), compare=ALL),
        *both("all"),
        merge(f"{OLD}/all", {"spec": {"maxReplicas": 5}}, compare=ALL),
        merge(f"{NEW}/all", {"spec": {"maxReplicas": 6}}, compare=ALL),
        merge(f"{OLD}/all", {"metadata": {"annotations": {f"{PREFIX}/metrics": None}}}, compare=ALL),
        *both("all"),
    ),
    Case(
        "autoscalers: wrong annotations",
        *(
            post(f"{OLD}?{DRY}", annotated("w", metrics=value), compare=ALL)
            for value in (
                "",
                "x",
                "null",
                "[]",
                "{}",
                "[{}]",
                "[null]",
                '[{"type":"foo"}]',
                '[{"type":"Resource"}]',
                "[1]",
                '["a"]',
                '[{"type":"Resource","resource":{"name":"memory"}}]',
                '[{"type":"Pods","pods":{}}]',
                '[{"type":"Pods","pods":{"metricName":"m"}}]',
                '[{"type":"Object","object":{}}]',
                '[{"type":"External","external":{}}]',
                '[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"x"}}]',
                '[{"TYPE":"Resource","Resource":{"NAME":"memory","targetAverageUtilization":5}}]',
                '[{"type":"Resource","resource":{"name":"memory","target":{"type":"Utilization","averageUtilization":5}}}]',
                '[{"type":"Pods","foo":1,"pods":{"metricName":"m","targetAverageValue":1}}]',
                "[] x",
            )
        ),
        *(post(f"{OLD}?{DRY}", annotated("w", behavior=value), compare=ALL) for value in BEHAVIORS),
        post(
            f"{OLD}?{DRY}",
            annotated("w", current_metrics=STATUSES, conditions=NEW_STATUS["conditions"]),
            compare=ALL,
        ),
        post(f"{OLD}?{DRY}", annotated("w", scale_up_tolerance="0.1", scale_down_tolerance="1"), compare=ALL),
    ),
    Case(
        "autoscalers: read in version 1",
        post(
            NEW,
            scaler(
                "n",
                "v2",
                metrics=METRICS,
                behavior={"scaleUp": {"policies": POLICIES}, "scaleDown": {"selectPolicy": "Disabled"}},
            ),
            compare=ALL,
        ),
        *both("n"),
        put(f"{OLD}/n", scaler("n"), compare=ALL),
        *both("n"),
        post(
            NEW,
            scaler(
                "m",
                "v2",
                metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": SHARE}}] * 2,
                behavior={},
            ),
            compare=ALL,
        ),
        *both("m"),
        merge(f"{NEW}/m/status", {"status": NEW_STATUS}, compare=ALL),
        *both("m"),
        merge(f"{OLD}/m/status", {"status": {"currentCPUUtilizationPercentage": 9}}, compare=ALL),
        *both("m"),
        merge(
            f"{OLD}/m/status",
            {
                "metadata": {
                    "annotations": {f"{PREFIX}/current-metrics": None, f"{PREFIX}/conditions": None}
                },
                "status": {"currentCPUUtilizationPercentage": 9},
            },
            compare=ALL,
        ),
        *both("m"),
        get(OLD, compare=("items.0.metadata.annotations", "items.0.spec", "items.1.status")),
    ),
    Case(
        "autoscalers: wrong types in version 1",
        *(post(f"{OLD}?{DRY}", scaler("t") | change, compare=("kind", "code")) for change in WRONG),
        post(f"{OLD}?{DRY}", scaler("t", "v2"), compare=ALL),
        post(f"{NEW}?{DRY}", scaler("t"), compare=ALL),
        post(f"{OLD}?{DRY}&fieldValidation=Strict", scaler("t", foo=1), compare=ALL),
        post(f"{OLD}?{DRY}", scaler("t", foo=1, metrics=[]), compare=ALL),
        post(OLD, scaler("t"), compare=("kind",)),
        *(
            merge(
                f"{OLD}/t/status",
                {
                    "metadata": {"annotations": {f"{PREFIX}/conditions": text}},
                    "status": {"currentReplicas": 0},
                },
                compare=ALL,
            )
            for text in (
                "x",
                '[{"type":"A","status":"True","lastTransitionTime":"x"}]',
                '[{"type":"A","status":"True"}]',
                '[{"type":"A","status":"True","lastTransitionTime":"2020-01-01T01:00:00+01:00"}]',
                "[]",
            )
        ),
        *both("t"),
    ),
]
