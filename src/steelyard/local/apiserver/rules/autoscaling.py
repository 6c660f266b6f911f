"""Autoscalers in version 1, which knows one metric and keeps the others in annotations."""

import orjson

from steelyard.local.apiserver.kinds import field_of
from steelyard.types import Json, mapping, sequence

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
_CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
_CURRENT = "autoscaling.alpha.kubernetes.io/current-metrics"


def as_new(obj: Json) -> Json:
    """Version 2 of what is sent as version 1."""
    metadata, spec = {**mapping(obj, "metadata")}, {**mapping(obj, "spec")}
    annotations = {**mapping(metadata, "annotations")}
    metrics = _parsed(annotations.pop(_METRICS, None), [])
    behavior = _parsed(annotations.pop(_BEHAVIOR, None), None)
    for name in (_CONDITIONS, _CURRENT):
        annotations.pop(name, None)
    share = spec.pop("targetCPUUtilizationPercentage", None)
    if share is not None:
        target = {"type": "Utilization", "averageUtilization": share}
        metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}, *metrics]
    if metrics:
        spec["metrics"] = metrics
    if behavior:
        spec["behavior"] = behavior
    _set_annotations(metadata, annotations)
    new = {**obj, "apiVersion": "autoscaling/v2", "metadata": metadata, "spec": spec}
    if isinstance(status := obj.get("status"), dict):
        new["status"] = {key: status[key] for key in status if key != "currentCPUUtilizationPercentage"}
    return new


def as_old(obj: Json) -> Json:
    """Version 1 of what is stored."""
    metadata, spec = {**mapping(obj, "metadata")}, {**mapping(obj, "spec")}
    annotations = {**mapping(metadata, "annotations")}
    others = []
    for metric in spec.pop("metrics", None) or []:
        share = field_of(metric, "resource", "target", "averageUtilization")
        if field_of(metric, "resource", "name") == "cpu" and share is not None:
            spec["targetCPUUtilizationPercentage"] = share
        else:
            others.append(metric)
    if others:
        annotations[_METRICS] = orjson.dumps(others).decode()
    if behavior := spec.pop("behavior", None):
        annotations[_BEHAVIOR] = orjson.dumps(behavior).decode()
    _set_annotations(metadata, annotations)
    old = {**obj, "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec}
    if isinstance(status := obj.get("status"), dict):
        kept = {key: status[key] for key in status if key not in ("conditions", "currentMetrics")}
        old["status"] = {"currentReplicas": 0, "desiredReplicas": 0} | kept
        conditions, current = sequence(status, "conditions"), sequence(status, "currentMetrics")
        for name, values in ((_CONDITIONS, conditions), (_CURRENT, current)):
            if values:
                annotations[name] = orjson.dumps(values).decode()
        _set_annotations(metadata, annotations)
    return old


def _parsed(text: object, absent: object) -> "list[Json]":
    try:
        value = orjson.loads(text) if isinstance(text, str) else absent
    except orjson.JSONDecodeError:
        value = absent
    return value  # type: ignore[return-value]


def _set_annotations(metadata: Json, annotations: Json) -> None:
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
