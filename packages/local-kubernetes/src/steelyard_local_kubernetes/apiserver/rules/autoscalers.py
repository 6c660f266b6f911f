"""Autoscalers in version 2, which are kept and not acted on: their defaults and their faults."""

from steelyard_common.types import Json, mapping
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    not_supported,
)
from steelyard_local_kubernetes.apiserver.kinds import Rules, find_field
from steelyard_local_kubernetes.apiserver.names import name_causes
from steelyard_local_kubernetes.apiserver.rules.common import defaults
from steelyard_local_kubernetes.apiserver.rules.fields import clamp_quantity
from steelyard_local_kubernetes.apiserver.rules.table import Rule, causes_by, if_given, items, need, part
from steelyard_schema.object_names import resource_name_faults

_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_PODS, _PERCENT = (
    {"type": "Pods", "value": 4, "periodSeconds": 15},
    {"type": "Percent", "value": 100, "periodSeconds": 15},
)
_SELECTIONS, _POLICIES = ["Disabled", "Max", "Min"], ["Percent", "Pods"]
_TARGETS = ("Utilization", "Value", "AverageValue")
_LONGEST_WINDOW, _LONGEST_PERIOD = 3600, 1800


def _default(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    defaults(spec, minReplicas=1)
    if not spec.get("metrics"):
        spec["metrics"] = [_CPU]
    behavior = spec.get("behavior")
    if behavior is None:
        return
    defaults(behavior, scaleUp={}, scaleDown={})
    defaults(behavior["scaleUp"], stabilizationWindowSeconds=0, selectPolicy="Max")
    defaults(behavior["scaleDown"], selectPolicy="Max")
    defaults(behavior["scaleUp"], policies=[dict(_PODS), dict(_PERCENT)])
    defaults(behavior["scaleDown"], policies=[dict(_PERCENT)])
    for direction in ("scaleUp", "scaleDown"):
        # A feature that a real server has switched off: it forgets the field.
        behavior[direction].pop("tolerance", None)


def _prepare(obj: Json) -> None:
    obj["status"] = {"desiredReplicas": 0, "currentMetrics": None}


def _check(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    # One that was made before its group was asked for may stay, and so may one that no metric is needed for.
    lowest = 0 if find_field(old, "spec", "minReplicas") == 0 else 1
    causes = []
    if least < lowest:
        causes.append(invalid("spec.minReplicas", least, f"must be greater than or equal to {lowest}"))
    if most < 1:
        causes.append(invalid("spec.maxReplicas", most, "must be greater than 0"))
    if most < least:
        causes.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = mapping(spec, "scaleTargetRef")
    before = find_field(old, "spec", "scaleTargetRef")
    core = target.get("kind") == "ReplicationController"
    causes += _reference_causes(
        target, "spec.scaleTargetRef", core=core, versioned=_kind(target) != _kind(before)
    )
    causes += causes_by((items("metrics", _metric_causes),), spec, "spec")
    # With no Pod there is nothing that could use a resource, or report a metric of its own.
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in spec["metrics"]):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        causes.append(forbidden_field("spec.metrics", text))
    for direction in ("scaleUp", "scaleDown"):
        causes += causes_by((part("behavior", part(direction, _scaling_causes)),), spec, "spec")
    return causes


def _kind(reference: Json | None) -> tuple[str, str] | None:
    if reference is None:
        return None
    return reference.get("apiVersion") or "", reference.get("kind") or ""


def _reference_causes(reference: Json, path: str, *, core: bool, versioned: bool = True) -> list[Cause]:
    """`core`: its group may be that of Pods, which has no name. `versioned`: its version is looked at."""
    causes = []
    for field in ("kind", "name"):
        value, where = reference.get(field), f"{path}.{field}"
        causes += name_causes(value, where, "path") if value else [missing_value(where)]
    version = reference.get("apiVersion") or ""
    if not versioned:
        return causes
    if version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        causes.append(invalid(f"{path}.apiVersion", version, text))
    elif not core and not version.rpartition("/")[0]:
        causes.append(invalid(f"{path}.apiVersion", version, "apiVersion must specify API group"))
    return causes


# ---- behavior


def _scaling_causes(rules: Json, path: str) -> list[Cause]:
    window, selection = rules.get("stabilizationWindowSeconds"), rules["selectPolicy"]
    where = f"{path}.stabilizationWindowSeconds"
    causes = []
    if window is not None and window < 0:
        causes.append(invalid(where, window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        causes.append(invalid(where, window, f"must be less than or equal to {_LONGEST_WINDOW}"))
    if selection not in _SELECTIONS:
        causes.append(not_supported(f"{path}.selectPolicy", selection, _SELECTIONS))
    if not rules["policies"]:
        causes.append(missing_value(f"{path}.policies", "must specify at least one Policy"))
    return causes + items("policies", _policy_causes)(rules, path)


def _policy_causes(policy: Json, path: str) -> list[Cause]:
    kind, causes = policy.get("type") or "", []
    if kind not in _POLICIES:
        causes.append(not_supported(f"{path}.type", kind, _POLICIES))
    for field in ("value", "periodSeconds"):
        if (policy.get(field) or 0) <= 0:
            causes.append(invalid(f"{path}.{field}", policy.get(field) or 0, "must be greater than zero"))
    period = policy.get("periodSeconds") or 0
    if period > _LONGEST_PERIOD:
        text = f"must be less than or equal to {_LONGEST_PERIOD}"
        causes.append(invalid(f"{path}.periodSeconds", period, text))
    return causes


# ---- metrics


def _metric_causes(metric: Json, path: str) -> list[Cause]:
    kind, where = metric.get("type") or "", f"{path}.type"
    causes = [] if kind else [missing_value(where, "must specify a metric source type")]
    known = kind in _TYPES
    if not known:
        causes.append(not_supported(where, kind, _TYPES))
    given_sources = [source for source in _SOURCES if isinstance(metric.get(source), dict)]
    # A real server looks into the first one alone.
    for source in given_sources[:1]:
        causes += causes_by(_SOURCES[source], metric[source], f"{path}.{source}")
    own = kind[:1].lower() + kind[1:]
    if not known:
        causes.append(not_supported(where, kind, _TYPES))  # it says so twice
    elif own not in given_sources:
        causes.append(missing_value(f"{path}.{own}", "must populate information for the given metric source"))
    if len(given_sources) != 1:
        text = "must populate the given metric source only"
        others = [source for source in given_sources if not known or source != own]
        causes += [forbidden_field(f"{path}.{source}", text) for source in others]
    return causes


def _target_causes(source: Json, path: str) -> list[Cause]:
    target, where = mapping(source, "target"), f"{path}.target"
    kind, causes = target.get("type") or "", []
    if not kind:
        causes.append(missing_value(f"{where}.type", "must specify a metric target type"))
    if kind not in _TARGETS:
        causes.append(invalid(f"{where}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for field in ("value", "averageValue"):
        if target.get(field) is not None and clamp_quantity(target[field]) <= 0:
            causes.append(invalid(f"{where}.{field}", str(target[field]), "must be positive"))
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        causes.append(invalid(f"{where}.averageUtilization", share, "must be greater than 0"))
    return causes


def _single_target(field: str, other: str, none: str, *, forbidden: str = "", both: str = "") -> Rule:
    """One of two fields of the target has to be there. `none` is said of `field` where neither is, `both` of
    `forbidden` where both are.
    """

    def rule(source: Json, path: str) -> list[Cause]:
        target, where = mapping(source, "target"), f"{path}.target"
        there = [target.get(name) is not None for name in (field, other)]
        if not any(there):
            return [missing_value(f"{where}.{field}", none)]
        return [forbidden_field(f"{where}.{forbidden}", both)] if both and all(there) else []

    return rule


def _average(source: Json, path: str) -> list[Cause]:
    if mapping(source, "target").get("averageValue") is not None:
        return []
    return [missing_value(f"{path}.target.averageValue", "must specify a positive target averageValue")]


def _metric_name(source: Json, path: str) -> list[Cause]:
    name, where = mapping(source, "metric").get("name"), f"{path}.metric.name"
    return name_causes(name, where, "path") if name else [missing_value(where, "must specify a metric name")]


def _object_causes(source: Json, path: str) -> list[Cause]:
    return _reference_causes(mapping(source, "describedObject"), f"{path}.describedObject", core=True)


def _resource_name(value: str, path: str) -> list[Cause]:
    return [invalid(path, value, text) for text in resource_name_faults(value)]


_RESOURCE_TARGET = _single_target(
    "averageUtilization",
    "averageValue",
    "must set either a target raw value or a target utilization",
    forbidden="averageValue",
    both="may not set both a target raw value and a target utilization",
)
# In the order in which a real server looks for them.
_SOURCES: dict[str, tuple[Rule, ...]] = {
    "object": (
        _object_causes,
        _metric_name,
        _target_causes,
        _single_target("averageValue", "value", "must set either a target value or averageValue"),
    ),
    "external": (
        _metric_name,
        _target_causes,
        _single_target(
            "averageValue",
            "value",
            "must set either a target value for metric or a per-pod target",
            forbidden="value",
            both="may not set both a target value for metric and a per-pod target",
        ),
    ),
    "pods": (_metric_name, _target_causes, _average),
    "resource": (need("name", detail="must specify a resource name"), _target_causes, _RESOURCE_TARGET),
    "containerResource": (
        need("name", detail="must specify a resource name"),
        if_given("name", _resource_name),
        need("container", detail="must specify a container"),
        if_given("container", lambda value, path: name_causes(value, path, "label")),
        _target_causes,
        _RESOURCE_TARGET,
    ),
}
_TYPES = sorted(f"{source[0].upper()}{source[1:]}" for source in _SOURCES)

AUTOSCALER = Rules(prepare=_prepare, default=_default, check=_check)
