"""Autoscalers in version 1, which knows one metric and keeps the others in annotations."""

from typing import Any

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.kinds import find_field
from steelyard_local_kubernetes.apiserver.rules import old_metrics as old_forms

_PREFIX = "autoscaling.alpha.kubernetes.io"
_METRICS, _BEHAVIOR = f"{_PREFIX}/metrics", f"{_PREFIX}/behavior"
_CONDITIONS, _CURRENT = f"{_PREFIX}/conditions", f"{_PREFIX}/current-metrics"
_KEPT = (
    *(_METRICS, _BEHAVIOR, _CONDITIONS, _CURRENT),
    *(f"{_PREFIX}/scale-{direction}-tolerance" for direction in ("up", "down")),
)
_CONDITION = ("type", "status", "lastTransitionTime", "reason", "message")


def as_new(obj: Json) -> Json:
    """Version 2 of an object that is sent as version 1."""
    metadata, spec = {**mapping(obj, "metadata")}, {**mapping(obj, "spec")}
    texts = mapping(metadata, "annotations")
    metrics = [
        old_forms.new_metric(metric, "target")
        for metric in old_forms.read(old_forms.METRICS, texts.get(_METRICS)) or []
    ]
    share = spec.pop("targetCPUUtilizationPercentage", None)
    if share is not None:
        metrics.append(_cpu("target", {"type": "Utilization", "averageUtilization": share}))
    if metrics:
        spec["metrics"] = metrics
    if behavior := old_forms.read(old_forms.BEHAVIOR, texts.get(_BEHAVIOR)):
        spec["behavior"] = old_forms.new_behavior(behavior)
    new = {**obj, "apiVersion": "autoscaling/v2", "metadata": metadata, "spec": spec}
    if isinstance(status := obj.get("status"), dict):
        new["status"] = _new_status(status, texts)
    _set_annotations(metadata, {})
    return new


def _new_status(status: Json, texts: Json) -> Json:
    new: Json = {"currentMetrics": None, **status}
    share = new.pop("currentCPUUtilizationPercentage", None)
    if share is not None:
        new["currentMetrics"] = [_cpu("current", {"averageUtilization": share})]
    if (current := old_forms.read(old_forms.STATUSES, texts.get(_CURRENT))) is not None:
        new["currentMetrics"] = [old_forms.new_metric(metric, "current") for metric in current] or None
    if conditions := old_forms.read(old_forms.CONDITIONS, texts.get(_CONDITIONS)):
        new["conditions"] = conditions
    if not new.get("currentReplicas"):
        new.pop("currentReplicas", None)
    return new


def _cpu(of: str, amounts: Json) -> Json:
    return {"type": "Resource", "resource": {"name": "cpu", of: amounts}}


def as_old(obj: Json) -> Json:
    """Version 1 of a stored object."""
    metadata, spec = {**mapping(obj, "metadata")}, {**mapping(obj, "spec")}
    annotations: dict[str, str] = {}
    metrics = spec.pop("metrics", None) or []
    shares = [share for metric in metrics if (share := _cpu_share(metric, "target")) is not None]
    if shares:
        spec["targetCPUUtilizationPercentage"] = shares[0]
    _keep(
        annotations,
        _METRICS,
        [
            old_forms.old_metric(metric, "target")
            for metric in metrics
            if _cpu_share(metric, "target") is None
        ],
    )
    if behavior := spec.pop("behavior", None):
        _keep(annotations, _BEHAVIOR, old_forms.old_behavior(behavior))
    old = {**obj, "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec}
    if isinstance(status := obj.get("status"), dict):
        old["status"] = _old_status(status, annotations)
    _set_annotations(metadata, annotations)
    return old


def _old_status(status: Json, annotations: dict[str, str]) -> Json:
    conditions, current = sequence(status, "conditions"), sequence(status, "currentMetrics")
    _keep(annotations, _CURRENT, [old_forms.old_metric(metric, "current") for metric in current])
    _keep(annotations, _CONDITIONS, [_old_condition(condition) for condition in conditions])
    kept = {key: status[key] for key in status if key not in ("conditions", "currentMetrics")}
    old: Json = {"currentReplicas": 0, "desiredReplicas": 0} | kept
    shares = [share for metric in current if (share := _cpu_share(metric, "current")) is not None]
    return old | ({"currentCPUUtilizationPercentage": shares[-1]} if shares else {})


def _old_condition(condition: Json) -> Json:
    return {
        name: condition.get(name)
        for name in _CONDITION
        if condition.get(name) or name not in ("reason", "message")
    }


def _cpu_share(metric: Json, of: str) -> int | None:
    if metric.get("type") != "Resource" or find_field(metric, "resource", "name") != "cpu":
        return None
    share: int | None = find_field(metric, "resource", of, "averageUtilization")
    return share


def _keep(annotations: dict[str, str], name: str, value: Any) -> None:
    if value:
        annotations[name] = old_forms.json_text(value)


def _set_annotations(metadata: Json, kept: dict[str, str]) -> None:
    """Replace what annotations keep of an autoscaler."""
    own = mapping(metadata, "annotations")
    annotations = {name: text for name, text in own.items() if name not in _KEPT} | kept
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
