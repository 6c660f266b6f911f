"""Bounds of a namespace: quotas, ranges of limits, and budgets of disruptions."""

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.amounts import Amount, amounts
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    value_text,
)
from steelyard_local_kubernetes.apiserver.kinds import Rules
from steelyard_local_kubernetes.apiserver.names import key_causes
from steelyard_local_kubernetes.apiserver.rules.common import defaults


def _prepare_quota(obj: Json) -> None:
    obj["status"] = {}


def _default_range(obj: Json) -> None:
    for limit in sequence(obj.setdefault("spec", {}), "limits"):
        if limit.get("type") != "Container":
            continue
        # A container without a limit gets the largest that is allowed, and a request of as much.
        default = mapping(limit, "max") | mapping(limit, "default")
        request = mapping(limit, "min") | default | mapping(limit, "defaultRequest")
        for name, values in (("default", default), ("defaultRequest", request)):
            if values:
                limit[name] = values


def _check_range(obj: Json, old: Json | None) -> list[Cause]:
    causes, types = [], []
    for index, limit in enumerate(sequence(obj["spec"], "limits")):
        path = f"spec.limits[{index}]"
        if limit.get("type") in types:
            causes.append(
                Cause(f"{path}.type", f"Duplicate value: {value_text(limit['type'])}", "FieldValueDuplicate")
            )
        types.append(limit.get("type"))
        causes += _type_causes(limit.get("type") or "", f"{path}.type")
        causes += _limit_causes(limit, path)
    return causes


def _type_causes(name: str, path: str) -> list[Cause]:
    causes = key_causes(name, path)
    if not causes and "/" not in name and name not in _TYPES:
        causes.append(invalid(path, name, "must be a standard limit type or fully qualified"))
    return causes


def _limit_causes(limit: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if limit.get("type") == "Pod":
        text = "may not be specified when `type` is 'Pod'"
        causes += [forbidden_field(f"{path}.{name}", text) for name in _DEFAULTS if mapping(limit, name)]
    if limit.get("type") == "PersistentVolumeClaim" and not any(
        "storage" in mapping(limit, name) for name in ("min", "max")
    ):
        text = "either minimum or maximum storage value is required, but neither was provided"
        causes.append(missing_value(f"{path}.limits", text))
    fields = ("min", "max", "maxLimitRequestRatio", *(_DEFAULTS if limit.get("type") != "Pod" else ()))
    bounds = {name: amounts(mapping(limit, name)) for name in fields}
    for resource in sorted({resource for values in bounds.values() for resource in values}):
        own = {name: values[resource] for name, values in bounds.items() if resource in values}
        causes += _order_causes(own, resource, path)
    return causes


def _order_causes(own: dict[str, Amount], resource: str, path: str) -> list[Cause]:
    """Faults of the order in which the bounds of one resource stand."""
    causes = []
    for low, high, field, value, text in _ORDER:
        if low in own and high in own and own[low].number > own[high].number:
            words = f"{text[0]} {own[low]} is greater than {text[1]} {own[high]}"
            # Of two of these faults a real server shows the bound and not the value.
            causes.append(invalid(f"{path}.{field}[{resource}]", str(own[value]), words))
    ratio = own.get("maxLimitRequestRatio")
    if ratio is not None:
        causes += _ratio_causes(ratio, own, f"{path}.maxLimitRequestRatio[{resource}]")
    first, second = own.get("default"), own.get("defaultRequest")
    if "/" in resource and first is not None and second is not None and first.number != second.number:
        words = f"default value {first} must equal to defaultRequest value {second} in {resource}"
        causes.append(invalid(f"{path}.defaultRequest[{resource}]", str(second), words))
    return causes


def _ratio_causes(ratio: Amount, own: dict[str, Amount], path: str) -> list[Cause]:
    causes = []
    if ratio.number < 1:
        causes.append(invalid(path, str(ratio), f"ratio {ratio} is less than 1"))
    if "min" in own and "max" in own and own["min"].number:
        most = own["max"].number / own["min"].number
        if ratio.number > most:
            causes.append(invalid(path, str(ratio), f"ratio {ratio} is greater than max/min = {most:.6f}"))
    return causes


_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_DEFAULTS = ("default", "defaultRequest")
# What may not be larger than what, where the fault is shown, with which value, and their names.
_ORDER = (
    ("min", "max", "min", "min", ("min value", "max value")),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", ("min value", "default request value")),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", ("default request value", "max value")),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        ("default request value", "default limit value"),
    ),
    ("min", "default", "default", "min", ("min value", "default value")),
    ("default", "max", "default", "max", ("default value", "max value")),
)


def _prepare_budget(obj: Json) -> None:
    obj["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


QUOTA = Rules(prepare=_prepare_quota, default=lambda obj: defaults(obj, spec={}))
RANGE = Rules(default=_default_range, check=_check_range)
BUDGET = Rules(prepare=_prepare_budget, default=lambda obj: defaults(obj, spec={}))
