"""Rules that several kinds share."""

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.selectors import parse_labels
from steelyard_local_kubernetes.apiserver.errors import Cause, forbidden_field, invalid, missing_value
from steelyard_local_kubernetes.apiserver.kinds import find_field
from steelyard_local_kubernetes.apiserver.names import key_causes, labels_causes, value_causes

__all__ = [
    "forbidden_field",
    "immutable",
    "invalid",
    "labels_match",
    "missing_value",
    "non_negative",
    "selector_causes",
    "unreadable_causes",
]


def defaults(obj: Json, **values: object) -> None:
    """Set absent fields."""
    for key, value in values.items():
        if obj.get(key) is None:
            obj[key] = value


def immutable(obj: Json, old: Json | None, *fields: str) -> list[Cause]:
    """Each of these fields of the spec is as it was."""
    if old is None:
        return []
    changed = [f for f in fields if find_field(obj, *f.split(".")) != find_field(old, *f.split("."))]
    return [invalid(field, find_field(obj, *field.split(".")), "field is immutable") for field in changed]


def non_negative(obj: Json, *fields: str) -> list[Cause]:
    causes = []
    for field in fields:
        value = find_field(obj, *field.split("."))
        if isinstance(value, int) and value < 0:
            causes.append(invalid(field, value, "must be greater than or equal to 0"))
    return causes


def selector_causes(
    selector: Json | None, path: str, *, empty: bool = False, kind: str = "deployment"
) -> list[Cause]:
    """`empty`: one that selects everything is taken. `kind`: how a refusal calls the object."""
    if selector is None:
        return [missing_value(path)]
    causes = labels_causes(mapping(selector, "matchLabels"), f"{path}.matchLabels")
    for index, expression in enumerate(sequence(selector, "matchExpressions")):
        causes += _expression_causes(expression, f"{path}.matchExpressions[{index}]")
    if not empty and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(invalid(path, selector, f"empty selector is invalid for {kind}"))
    return causes


def _expression_causes(expression: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    operator, values = expression.get("operator") or "", sequence(expression, "values")
    if operator in ("In", "NotIn") and not values:
        text = "must be specified when `operator` is 'In' or 'NotIn'"
        causes.append(missing_value(f"{path}.values", text))
    elif operator in ("Exists", "DoesNotExist") and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        causes.append(forbidden_field(f"{path}.values", text))
    elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        causes.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    causes += key_causes(expression.get("key") or "", f"{path}.key")
    for number, value in enumerate(values):
        causes += value_causes(value, f"{path}.values[{number}]")
    return causes


def unreadable_causes(selector: Json | None, causes: list[Cause], path: str, detail: str) -> list[Cause]:
    """Return the fault that a selector with these causes cannot be used at all; none where it can."""
    if all(cause.field == path for cause in causes):
        return []
    return [invalid(path, _selector_in_order(selector or {}), detail)]


def _selector_in_order(selector: Json) -> Json:
    """Return the selector with its fields as a real server shows them."""
    shown: Json = {name: selector[name] for name in ("matchLabels", "matchExpressions") if name in selector}
    if "matchExpressions" in shown:
        fields = ("key", "operator", "values")
        shown["matchExpressions"] = [
            {name: expression[name] for name in fields if name in expression}
            for expression in sequence(shown, "matchExpressions")
        ]
    return shown


def labels_match(selector: Json, labels: Json) -> bool:
    """Return whether a label selector of a spec matches."""
    wanted = mapping(selector, "matchLabels")
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        requirement(labels)
        for expression in sequence(selector, "matchExpressions")
        for requirement in parse_labels(expression_text(expression))
    )


def expression_text(expression: Json) -> str:
    """A requirement of `matchExpressions` as the text of a selector."""
    key, values = expression["key"], ",".join(sequence(expression, "values"))
    match expression["operator"]:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "DoesNotExist":
            return f"!{key}"
        case _:
            return str(key)
