# ruff: noqa: E501 - a table is read by its rows
"""Bounds, runtimes, logs, events and namespaces: the siblings of faults that other files have found."""

from steelyard_common.types import Json
from tests.kubernetes_differential.case import Case, Until, delete, get, merge, post, put
from tests.kubernetes_differential.samples import CONTAINER, CORE, DRY, PODS, container, pod

RANGES, EVENTS = f"{CORE}/limitranges", "/apis/events.k8s.io/v1/namespaces/{{ns}}/events"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
SAID = ("message", "reason", "details.causes")
LIMITS: tuple[Json, ...] = (
    {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}, {"type": "Container", "min": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}, {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}},
    {"type": "Container", "min": {"cpu": "2"}, "default": {"cpu": "1"}}, {"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}, {"type": "PersistentVolumeClaim"}, {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
    {"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}, {"type": "Container", "min": {"memory": "1Gi"}, "max": {"memory": "2Gi"}, "maxLimitRequestRatio": {"memory": "3"}}, {"type": "Container", "default": {"a.b/c": "2"}, "defaultRequest": {"a.b/c": "1"}},
    {"type": "a.b/c"}, {"type": "foo"}, {}, {"type": "Container", "max": {"cpu": "x"}},
)  # fmt: skip
TIMED: Json = {
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "action": "a",
    "reason": "r",
    "type": "Normal",
    "reportingController": "a.b/c",
    "reportingInstance": "i",
    "regarding": {"namespace": "{{ns}}"},
}
CORE_TIMED: Json = {"eventTime": "2026-01-01T00:00:00.000000Z", "involvedObject": {"namespace": "{{ns}}"}}
DEVICE: Json = {"limits": {"a.b/c": "1"}}


def range_of(*limits: Json) -> Json:
    return {"metadata": {"name": "l"}, "spec": {"limits": list(limits)}}


def changes(*rows: Json) -> tuple[Json, ...]:
    return rows


CASES = [
    Case("bounds: limit ranges", *[post(f"{RANGES}?{DRY}", range_of(limit), compare=(*SAID, "spec")) for limit in LIMITS], post(f"{RANGES}?{DRY}", range_of({"type": "Pod"}, {"type": "Pod"}), compare=SAID)),
    Case("bounds: a Pod's own resources", *[post(f"{PODS}?{DRY}", pod("p", resources=own, containers=[CONTAINER | {"resources": of}]), compare=(*SAID, "spec.resources", "status.qosClass")) for own, of in (
         ({"limits": {"cpu": "2", "memory": "1Gi"}}, {}), ({"limits": {"cpu": "2"}}, {"requests": {"cpu": "1"}}), ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}), ({"limits": {"a.b/c": "1"}}, {}), ({}, {"requests": {"cpu": "1"}}), ({"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}, {"limits": {"cpu": "1"}}))]),
    Case("bounds: quality of service", *[post(f"{PODS}?{DRY}", container(resources=resources), compare=("status.qosClass", "message")) for resources in ({}, DEVICE, {"limits": {"cpu": "1"}}, {"limits": {"cpu": "1", "memory": "1Gi"}}, {"limits": {"cpu": "1", "memory": "1Gi", "a.b/c": "1"}}, {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, {"requests": {"cpu": "0"}}, {"limits": {"ephemeral-storage": "1Gi"}})]),
    Case("runtimes: a class", post(RUNTIMES, {"metadata": {"name": "{{ns}}"}, "handler": "h", "overhead": {"podFixed": {"cpu": "100m"}}, "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "t", "operator": "Exists"}]}}, compare=("kind", "message")),
         *[Until(f"{RUNTIMES}/{{{{ns}}}}", compare=("handler",))], *[post(f"{PODS}?{DRY}", pod("p", runtimeClassName="{{ns}}", **more), compare=(*SAID, "spec.overhead", "spec.nodeSelector", "spec.tolerations")) for more in ({}, {"overhead": {"cpu": "100m"}}, {"overhead": {"cpu": "1"}}, {"nodeSelector": {"a": "c"}}, {"nodeSelector": {"c": "d"}}, {"tolerations": [{"key": "t", "operator": "Exists"}]})],
         delete(f"{RUNTIMES}/{{{{ns}}}}", compare=("kind",))),
    Case("logs: options", post(PODS, pod("p"), compare=("kind",)), *[get(f"{PODS}/p/log{query}") for query in ("", "?tailLines=5", "?limitBytes=0", "?limitBytes=-1", "?sinceSeconds=0", "?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", "?container=absent", "?tailLines=x", "?follow=true", "?previous=true")]),
    Case("events: of the newer group", *[post(f"{EVENTS}?{DRY}", {"metadata": {"name": "e"}, **TIMED, **change}, compare=SAID) for change in changes({}, {"eventTime": None}, {"action": ""}, {"reason": "x" * 129}, {"note": "x" * 1025}, {"type": "foo"}, {"reportingController": ""}, {"reportingController": "a b"}, {"reportingInstance": "x" * 129}, {"deprecatedCount": 1}, {"deprecatedFirstTimestamp": "2026-01-01T00:00:00Z"}, {"deprecatedSource": {"component": "c"}}, {"regarding": {}}, {"regarding": {"namespace": "other"}})]),
    Case("events: of the core group with a time", *[post(f"{CORE}/events?{DRY}", {"metadata": {"name": "e"}, **CORE_TIMED, **change}, compare=SAID) for change in changes({}, {"reportingComponent": "a.b/c", "reportingInstance": "i", "action": "a", "reason": "r"}, {"involvedObject": {}}, {"count": 5, "type": "foo", "reportingComponent": "a.b/c", "reportingInstance": "i", "action": "a", "reason": "r"})]),
    Case("namespaces: finalizers", post("/api/v1/namespaces", {"metadata": {"name": "{{ns}}-f"}, "spec": {"finalizers": ["a.b/c"]}}, compare=("spec",)), merge("/api/v1/namespaces/{{ns}}-f", {"spec": {"finalizers": []}}, compare=("spec",)), delete("/api/v1/namespaces/{{ns}}-f", compare=("status.phase",)), Until("/api/v1/namespaces/{{ns}}-f", {"spec.finalizers": ["a.b/c"]}, compare=("spec",)),
         put("/api/v1/namespaces/{{ns}}-f/finalize", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{{ns}}-f"}, "spec": {"finalizers": []}}, compare=("spec",)), Until("/api/v1/namespaces/{{ns}}-f", status=404)),
]  # fmt: skip
