"""Checks of admission policies and their bindings."""

import re
from collections.abc import Callable

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    forbidden_field,
    invalid,
    missing_value,
    not_supported,
)
from steelyard_local_kubernetes.apiserver.expressions.plain import (
    CONDITION,
    find_fault,
    is_untyped,
    type_fault,
)
from steelyard_local_kubernetes.apiserver.expressions.program import without_literals
from steelyard_local_kubernetes.apiserver.names import key_causes, name_causes
from steelyard_local_kubernetes.apiserver.rules.common import selector_causes
from steelyard_local_kubernetes.apiserver.rules.fields import choice_causes, duplicate
from steelyard_local_kubernetes.apiserver.rules.webhooks import OPERATIONS, condition_causes, rule_causes

_REASONS = ["Forbidden", "Invalid", "RequestEntityTooLarge"]
_ACTIONS = ["Audit", "Deny", "Warn"]
_SOME = "validations or auditAnnotations must contain at least one item"
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_VARIABLE = re.compile(r"\bvariables\.([A-Za-z_]\w*)")
_BOTH = "must not contain both Deny and Warn (repeating the same validation failure information in the API response "
_BOTH += "and headers serves no purpose)"
Fault = Callable[[str, type[bool] | type[str] | None], str]


def check(obj: Json, old: Json | None) -> list[Cause]:
    spec, params = obj["spec"], ("params",) if "paramKind" in obj["spec"] else ()
    causes = choice_causes(spec.get("failurePolicy"), "spec.failurePolicy", ["Fail", "Ignore"])
    if params:
        causes += _kind_causes(mapping(spec, "paramKind"), "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        causes.append(missing_value("spec.matchConstraints"))
    else:
        causes += match_causes(match, "spec.matchConstraints")
        if not sequence(match, "resourceRules"):
            causes.append(missing_value("spec.matchConstraints.resourceRules"))
    conditions = sequence(spec, "matchConditions")
    causes += condition_causes(conditions, "spec.matchConditions", (*CONDITION, *params))
    names = (*CONDITION, *params, "namespaceObject", "variables")
    causes += _variable_causes(spec, names)
    defined = {
        variable.get("name"): variable.get("expression") or "" for variable in sequence(spec, "variables")
    }

    def fault(expression: str, result_type: type[bool] | type[str] | None) -> str:
        missing = [name for name in _VARIABLE.findall(without_literals(expression)) if name not in defined]
        if missing:
            return f"compilation failed: ERROR: undefined field '{missing[0]}'"
        # A variable has the type of its expression.
        whole = _VARIABLE.fullmatch(expression.strip())
        if whole and result_type is not None and is_untyped(defined[whole[1]]):
            return type_fault(result_type)
        return find_fault(expression, names, result_type)

    validations, annotations = sequence(spec, "validations"), sequence(spec, "auditAnnotations")
    if not validations and not annotations:
        return [
            *causes,
            missing_value("spec.validations", _SOME),
            missing_value("spec.auditAnnotations", _SOME),
        ]
    for index, validation in enumerate(validations):
        causes += _validation_causes(validation, f"spec.validations[{index}]", fault)
    return causes + _annotation_causes(obj["metadata"].get("name") or "", annotations, fault)


def _kind_causes(kind: Json, path: str) -> list[Cause]:
    causes = []
    if not kind.get("apiVersion"):
        causes.append(missing_value(f"{path}.apiVersion"))
    if not kind.get("kind"):
        causes.append(missing_value(f"{path}.kind"))
    return causes


def match_causes(match: Json, path: str) -> list[Cause]:
    causes = choice_causes(match.get("matchPolicy"), f"{path}.matchPolicy", ["Equivalent", "Exact"])
    for name in ("namespaceSelector", "objectSelector"):
        causes += selector_causes(match.get(name) or {}, f"{path}.{name}", empty=True)
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(sequence(match, name)):
            where = f"{path}.{name}[{index}]"
            names = sequence(rule, "resourceNames")
            for number, resource in enumerate(names):
                if resource in names[:number]:
                    causes.append(duplicate(f"{where}.resourceNames[{number}]", resource))
            causes += rule_causes(rule, where, OPERATIONS)
    return causes


def _variable_causes(spec: Json, names: tuple[str, ...]) -> list[Cause]:
    causes: list[Cause] = []
    for index, variable in enumerate(sequence(spec, "variables")):
        path = f"spec.variables[{index}]"
        name, expression = variable.get("name") or "", variable.get("expression") or ""
        if not name.strip():
            causes.append(missing_value(f"{path}.name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(name):
            causes.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
        if not expression.strip():
            causes.append(missing_value(f"{path}.expression", "expression is not specified"))
        elif fault := find_fault(expression, names):
            causes.append(invalid(f"{path}.expression", expression, fault))
    return causes


def _validation_causes(validation: Json, path: str, fault: Fault) -> list[Cause]:
    causes = []
    expression, message = validation.get("expression") or "", validation.get("message") or ""
    if not expression.strip():
        causes.append(missing_value(f"{path}.expression", "expression is not specified"))
    elif text := fault(expression, bool):
        causes.append(invalid(f"{path}.expression", expression, text))
    said = validation.get("messageExpression") or ""
    if said and not said.strip():
        causes.append(invalid(f"{path}.messageExpression", said, "must be non-empty if specified"))
    elif said and (text := fault(said, str)):
        causes.append(invalid(f"{path}.messageExpression", said, text))
    if message and not message.strip():
        causes.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip():
        causes.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    if (reason := validation.get("reason")) is not None and reason not in _REASONS:
        causes.append(not_supported(f"{path}.reason", reason, _REASONS))
    return causes


def _annotation_causes(name: str, annotations: list[Json], fault: Fault) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        path = f"spec.auditAnnotations[{index}]"
        key, value = annotation.get("key") or "", (annotation.get("valueExpression") or "").strip()
        causes += key_causes(f"{name}/{key}", f"{path}.key")
        if not value:
            causes.append(missing_value(f"{path}.valueExpression", "valueExpression is not specified"))
        elif text := fault(value, None):
            causes.append(invalid(f"{path}.valueExpression", value, text))
        if key in seen:
            causes.append(duplicate(f"{path}.key", key))
        seen.add(key)
    return causes


# ---- bindings


def check_binding(obj: Json, old: Json | None) -> list[Cause]:
    spec = obj["spec"]
    name = spec.get("policyName") or ""
    causes = name_causes(name, "spec.policyName") if name else [missing_value("spec.policyName")]
    if (reference := spec.get("paramRef")) is not None:
        causes += _reference_causes(reference, "spec.paramRef")
    if (match := spec.get("matchResources")) is not None:
        causes += match_causes(match, "spec.matchResources")
    return causes + _action_causes(sequence(spec, "validationActions"), "spec.validationActions")


def _reference_causes(reference: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    name, selector = reference.get("name"), reference.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if selector is not None:
        causes += [forbidden_field(f"{path}.name", exclusive)] if name else []
        causes += selector_causes(mapping(reference, "selector"), f"{path}.selector", empty=True)
        causes += [forbidden_field(f"{path}.selector", exclusive)] if name else []
    elif not name:
        causes.append(missing_value(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction")
    if not action:
        return [*causes, missing_value(f"{path}.parameterNotFoundAction")]
    return causes + choice_causes(action, f"{path}.parameterNotFoundAction", ["Deny", "Allow"])


def _action_causes(actions: list[str], path: str) -> list[Cause]:
    causes = []
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            causes.append(not_supported(f"{path}[{index}]", action, _ACTIONS))
        if action in actions[:index]:
            causes.append(duplicate(f"{path}[{index}]", action))
    if {"Deny", "Warn"} <= set(actions):
        causes.append(invalid(path, actions, _BOTH))
    if not actions:
        causes.append(missing_value(path, "at least one validation action is required"))
    return causes
