"""Metrics and behavior of autoscalers in the form that annotations of version 1 have, and in that of version 2.

`autoscaling.py` asks it. The texts are those of a real server to the letter: clients compare them.
"""

from typing import Any

import orjson

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.quantity import quantity
from steelyard_local_kubernetes.apiserver.times import normalize_time

TEXT, INTEGER, AMOUNT, TIME, TEXTS, LABELS = "text", "integer", "amount", "time", "texts", "labels"
Form = Any  # one of these words, the fields of an object, or a list of one form

_SELECTOR: Form = {
    "matchLabels": LABELS,
    "matchExpressions": [{"key": TEXT, "operator": TEXT, "values": TEXTS}],
}
_TARGET: Form = {"kind": TEXT, "name": TEXT, "apiVersion": TEXT}
_SOURCES = ("object", "pods", "resource", "containerResource", "external")


def _forms(of: str) -> list[Form]:
    """Return the form of metrics whose amounts are the `target` ones of a spec, or `current` ones of a status."""
    average, share = f"{of}AverageValue", f"{of}AverageUtilization"
    named: Form = {"metricName": TEXT, "selector": _SELECTOR}
    resource: Form = {"name": TEXT, share: INTEGER, average: AMOUNT}
    fields: Form = {
        "type": TEXT,
        "object": {**named, "target": _TARGET, f"{of}Value": AMOUNT, "averageValue": AMOUNT},
        "pods": {**named, average: AMOUNT},
        "resource": resource,
        "containerResource": {**resource, "container": TEXT},
        "external": {"metricName": TEXT, "metricSelector": _SELECTOR, f"{of}Value": AMOUNT, average: AMOUNT},
    }
    return [fields]


METRICS, STATUSES = _forms("target"), _forms("current")
CONDITIONS: Form = [
    {"type": TEXT, "status": TEXT, "lastTransitionTime": TIME, "reason": TEXT, "message": TEXT}
]
_RULES: Form = {
    "StabilizationWindowSeconds": INTEGER,
    "SelectPolicy": TEXT,
    "Policies": [{"Type": TEXT, "Value": INTEGER, "PeriodSeconds": INTEGER}],
    "Tolerance": AMOUNT,
}
BEHAVIOR: Form = {"ScaleUp": _RULES, "ScaleDown": _RULES}


def read(form: Form, text: object) -> Any:
    """Return the value of a text as Go reads it: fields in any case, unknown ones left out. None for another value."""
    try:
        return _read(form, orjson.loads(text)) if isinstance(text, str) else None
    except ValueError:
        return None


def _read(form: Form, value: Any) -> Any:
    match form:
        case _ if value is None:
            return {} if isinstance(form, dict) else None
        case dict() if isinstance(value, dict):
            names = {name.lower(): name for name in form}
            known = [(names[key.lower()], below) for key, below in value.items() if key.lower() in names]
            return {name: _read(form[name], below) for name, below in known if below is not None}
        case list() if isinstance(value, list):
            return [_read(form[0], below) for below in value]
        case str():
            return _read_plain(form, value)
    raise ValueError


def _read_plain(form: str, value: Any) -> Any:
    match form:
        case "text" if isinstance(value, str):
            return value
        case "integer" if type(value) is int and -(2**31) <= value < 2**31:
            return value
        case "amount" if isinstance(value, str) or type(value) in (int, float):
            quantity(value)
            return str(value)
        case "time" if isinstance(value, str):
            return normalize_time(value)
        case "texts" if isinstance(value, list):
            return [_read(TEXT, below) or "" for below in value]
        case "labels" if isinstance(value, dict):
            return {key: _read(TEXT, below) or "" for key, below in value.items()}
    raise ValueError


def json_text(value: Any) -> str:
    """Return the JSON that Go writes."""
    text = orjson.dumps(value).decode()
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


# ---- metrics of a spec and of a status


def new_metric(old: Json, of: str) -> Json:
    """Version 2 of a metric; `of` is `target` in a spec, and `current` in a status."""
    metric: Json = {"type": old.get("type") or ""}
    for source in _SOURCES:
        if (fields := old.get(source)) is not None:
            metric[source] = _new_source(source, fields, of)
    return metric


def _new_source(source: str, fields: Json, of: str) -> Json:
    average, value = fields.get(f"{of}AverageValue"), fields.get(f"{of}Value")
    share = fields.get(f"{of}AverageUtilization")
    new: Json = {}
    kind = "AverageValue"
    if source in ("resource", "containerResource"):
        new["name"] = fields.get("name") or ""
        kind = "AverageValue" if share is None else "Utilization"
        average = average or ("0" if of == "current" else None)
    else:
        selector = fields.get("metricSelector" if source == "external" else "selector")
        named = {"name": fields.get("metricName") or "", "selector": selector}
        new["metric"] = {name: given for name, given in named.items() if given is not None}
    match source:
        case "containerResource":
            new["container"] = fields.get("container") or ""
        case "pods":
            average = average or "0"
        case "object":
            average, value = fields.get("averageValue"), value or "0"
            kind = "Value" if average is None else "AverageValue"
            target = mapping(fields, "target")
            new["describedObject"] = {name: target[name] for name in _TARGET if name in target}
        case "external":
            value = value or ("0" if of == "current" else None)
            kind = "AverageValue" if value is None else "Value"
    amounts = {"value": value, "averageValue": average, "averageUtilization": share}
    shown = {name: amount for name, amount in amounts.items() if amount is not None}
    new[of] = {"type": kind, **shown} if of == "target" else shown
    return new


def old_metric(new: Json, of: str) -> Json:
    """Version 1 of a metric, with its fields in the order in which a real server writes them."""
    metric: Json = {"type": new.get("type") or ""}
    for source in _SOURCES:
        if (fields := new.get(source)) is not None:
            metric[source] = _old_source(source, fields, of)
    return metric


def _old_source(source: str, fields: Json, of: str) -> Json:
    amounts, name = mapping(fields, of), mapping(fields, "metric").get("name") or ""
    selector = _selector(mapping(fields, "metric").get("selector"))
    value, average = amounts.get("value"), amounts.get("averageValue")
    share = amounts.get("averageUtilization")
    plain = f"{of}Value", f"{of}AverageValue"
    match source:
        case "object":
            described = mapping(fields, "describedObject")
            target = {key: described.get(key) or "" for key in ("kind", "name")}
            if described.get("apiVersion"):
                target["apiVersion"] = described["apiVersion"]
            old: Json = {"target": target, "metricName": name, plain[0]: value or "0"}
            old |= {"selector": selector, "averageValue": average}
        case "pods":
            old = {"metricName": name, plain[1]: average or "0", "selector": selector}
        case "external":
            first = value if of == "target" else value or "0"
            old = {"metricName": name, "metricSelector": selector, plain[0]: first, plain[1]: average}
        case _:
            first = average if of == "target" else average or "0"
            old = {"name": fields.get("name") or "", f"{of}AverageUtilization": share, plain[1]: first}
            old |= {"container": fields.get("container") or ""} if source == "containerResource" else {}
    return {key: given for key, given in old.items() if given is not None}


def _selector(selector: Json | None) -> Json | None:
    if selector is None:
        return None
    shown: Json = {}
    if labels := mapping(selector, "matchLabels"):
        shown["matchLabels"] = dict(sorted(labels.items()))
    if expressions := sequence(selector, "matchExpressions"):
        fields = ("key", "operator", "values")
        shown["matchExpressions"] = [
            {name: expression[name] for name in fields if expression.get(name) is not None}
            for expression in expressions
        ]
    return shown


# ---- behavior, which a real server writes as its own program keeps it


def new_behavior(old: Json) -> Json:
    new: Json = {}
    for direction, rules in old.items():
        # Nothing completes policies that were left out here.
        policies = [
            {_lower(key): value for key, value in policy.items()} for policy in rules.get("Policies") or []
        ]
        shown = {_lower(key): value for key, value in rules.items()}
        new[_lower(direction)] = {**shown, "policies": policies}
    return new


def old_behavior(new: Json) -> Json:
    return {
        direction: _old_rules(new[_lower(direction)]) if new.get(_lower(direction)) is not None else None
        for direction in BEHAVIOR
    }


def _old_rules(rules: Json) -> Json:
    old = {name: rules.get(_lower(name)) for name in _RULES}
    if old["Policies"] is not None:
        zero = {"Type": "", "Value": 0, "PeriodSeconds": 0}
        old["Policies"] = [
            {name: policy.get(_lower(name)) or empty for name, empty in zero.items()}
            for policy in old["Policies"]
        ]
    return old


def _lower(name: str) -> str:
    return name[:1].lower() + name[1:]
