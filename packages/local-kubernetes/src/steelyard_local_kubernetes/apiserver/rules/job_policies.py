"""Rules of Jobs and their templates about failures and success: their faults, in a real server's words."""

import re
from typing import Any

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.pods import list_containers
from steelyard_local_kubernetes.apiserver.errors import (
    Cause,
    invalid,
    missing_value,
    not_supported,
    value_text,
)
from steelyard_local_kubernetes.apiserver.names import key_causes, name_causes
from steelyard_local_kubernetes.apiserver.rules.fields import at_most, not_negative

_ACTIONS = ["Count", "FailIndex", "FailJob", "Ignore"]
_OPERATORS = ["In", "NotIn"]
_STATES = ["False", "True", "Unknown"]
_MOST_RULES, _MOST_VALUES, _MOST_LETTERS = 20, 255, 64 * 1024
_MOST_AT_ONCE, _MOST_FAILED, _MANY, _MOST_OF_MANY = 100_000, 100_000, 100_000, 10_000
_LONGEST_MANAGER = 63
_HTTP_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def default_policies(spec: Json) -> None:
    for rule in sequence(spec, "podFailurePolicy", "rules"):
        for pattern in sequence(rule, "onPodConditions"):
            pattern["status"] = pattern.get("status") or "True"


def policy_causes(spec: Json) -> list[Cause]:
    causes = []
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        causes.append(missing_value("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    return causes + _manager_causes(spec) + _mode_causes(spec) + _failure_causes(spec) + _success_causes(spec)


def _mode_causes(spec: Json) -> list[Cause]:
    match spec.get("completionMode"):
        case "Indexed":
            return _index_causes(spec)
        case "NonIndexed" | None:
            text, names = "requires indexed completion mode", ("backoffLimitPerIndex", "maxFailedIndexes")
            return [invalid(f"spec.{name}", spec[name], text) for name in names if spec.get(name) is not None]
        case other:
            return [not_supported("spec.completionMode", other, ["NonIndexed", "Indexed"])]


def _index_causes(spec: Json) -> list[Cause]:
    failed, path = spec.get("maxFailedIndexes"), "spec.maxFailedIndexes"
    completions, causes = spec.get("completions"), []
    if completions is None:
        causes.append(missing_value("spec.completions", "when completion mode is Indexed"))
    if (spec.get("parallelism") or 0) > _MOST_AT_ONCE:
        text = f"must be less than or equal to {_MOST_AT_ONCE} when completion mode is Indexed"
        causes.append(invalid("spec.parallelism", spec["parallelism"], text))
    if failed is not None and completions is not None and failed > completions:
        causes.append(invalid(path, failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MOST_FAILED:
        causes.append(invalid(path, failed, f"must be less than or equal to {_MOST_FAILED}"))
    if (completions or 0) <= _MANY or spec.get("backoffLimitPerIndex") is None:
        return causes
    if failed is None:
        causes.append(missing_value(path, f"must be specified when completions is above {_MANY}"))
    text = f"must be less than or equal to {_MOST_OF_MANY} when completions are above {_MANY} and used with backoff "
    for name in ("parallelism", "maxFailedIndexes"):
        if (spec.get(name) or 0) > _MOST_OF_MANY:
            causes.append(invalid(f"spec.{name}", spec[name], f"{text}limit per index"))
    return causes


def _manager_causes(spec: Json) -> list[Cause]:
    name, path = spec.get("managedBy"), "spec.managedBy"
    if name is None:
        return []
    if not name:
        return [missing_value(path)]
    domain, _, rest = name.partition("/")
    if not domain or not rest:
        causes = [invalid(path, name, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    else:
        causes = name_causes(domain, path)
        if not _HTTP_PATH.fullmatch(rest):
            text = f"Invalid path (regex used for validation is '{_HTTP_PATH.pattern}')"
            causes.append(invalid(path, rest, text))
    if len(name) > _LONGEST_MANAGER:
        text = f"Too long: may not be more than {_LONGEST_MANAGER} bytes"
        causes.append(Cause(path, text, "FieldValueTooLong"))
    return causes


# ---- podFailurePolicy


def _failure_causes(spec: Json) -> list[Cause]:
    if spec.get("podFailurePolicy") is None:
        return []
    rules, path = sequence(spec, "podFailurePolicy", "rules"), "spec.podFailurePolicy.rules"
    causes = at_most(path, len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        causes += _failure_rule_causes(spec, rule, f"{path}[{index}]")
    return causes


def _failure_rule_causes(spec: Json, rule: Json, path: str) -> list[Cause]:
    causes = _word(rule.get("action"), f"{path}.action", _ACTIONS)
    if rule.get("action") == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        causes.append(invalid(f"{path}.action", "FailIndex", "requires the backoffLimitPerIndex to be set"))
    codes, patterns = rule.get("onExitCodes"), sequence(rule, "onPodConditions")
    if codes is not None:
        causes += _exit_code_causes(spec, codes, f"{path}.onExitCodes")
    causes += at_most(f"{path}.onPodConditions", len(patterns), _MOST_RULES)
    for index, pattern in enumerate(patterns):
        where = f"{path}.onPodConditions[{index}]"
        causes += key_causes(pattern.get("type") or "", f"{where}.type")
        causes += _word(pattern.get("status"), f"{where}.status", _STATES)
    if (codes is None) == (not patterns):
        both = "specifying both OnExitCodes and OnPodConditions is not supported"
        none = "specifying one of OnExitCodes and OnPodConditions is required"
        causes.append(Cause(path, f"Invalid value: {both if patterns else none}"))
    return causes


def _word(value: Any, path: str, choices: list[str]) -> list[Cause]:
    if not value:
        words = " ".join(f'"{choice}"' for choice in choices)
        return [missing_value(path, f"valid values: [{words}]")]
    return [] if value in choices else [not_supported(path, value, choices)]


def _exit_code_causes(spec: Json, codes: Json, path: str) -> list[Cause]:
    causes = _word(codes.get("operator"), f"{path}.operator", _OPERATORS)
    name, values = codes.get("containerName"), sequence(codes, "values")
    names = {container["name"] for container in list_containers(mapping(spec, "template", "spec"))}
    if name is not None and name not in names:
        text = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid(f"{path}.containerName", name, text))
    if not values:
        causes.append(invalid(f"{path}.values", codes.get("values"), "at least one value is required"))
    causes += at_most(f"{path}.values", len(values), _MOST_VALUES)
    for index, value in enumerate(values):
        if value == 0 and codes.get("operator") == "In":
            causes.append(invalid(f"{path}.values[{index}]", 0, "must not be 0 for the In operator"))
        if value in values[:index]:
            text = f"Duplicate value: {value_text(value)}"
            causes.append(Cause(f"{path}.values[{index}]", text, "FieldValueDuplicate"))
    if values != sorted(values):
        listed = f"[{','.join(map(str, values))}]"
        causes.append(Cause(f"{path}.values", f"Invalid value: {listed}: must be ordered"))
    return causes


# ---- successPolicy


def _success_causes(spec: Json) -> list[Cause]:
    if spec.get("successPolicy") is None:
        return []
    rules, path = sequence(spec, "successPolicy", "rules"), "spec.successPolicy"
    if spec.get("completionMode") != "Indexed":
        listed = [
            {"SucceededIndexes": rule.get("succeededIndexes"), "SucceededCount": rule.get("succeededCount")}
            for rule in rules
        ]
        return [invalid(path, {"Rules": listed}, "requires indexed completion mode")]
    causes = at_most(f"{path}.rules", len(rules), _MOST_RULES)
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        causes.append(missing_value(f"{path}.rules", text))
    for index, rule in enumerate(rules):
        causes += _success_rule_causes(rule, int(spec.get("completions") or 0), f"{path}.rules[{index}]")
    return causes


def _success_rule_causes(rule: Json, completions: int, path: str) -> list[Cause]:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        return [missing_value(path, "at least one of succeededCount or succeededIndexes must be specified")]
    causes, total = [], 0
    if indexes is not None:
        where = f"{path}.succeededIndexes"
        if len(indexes) > _MOST_LETTERS:
            text = f"Too long: may not be more than {_MOST_LETTERS} bytes"
            causes.append(Cause(where, text, "FieldValueTooLong"))
        try:
            total = _total(indexes, completions)
        except ValueError as error:
            causes.append(invalid(where, indexes, f"error parsing succeededIndexes: {error}"))
    if count is None:
        return causes
    where, most = f"{path}.succeededCount", "must be less than or equal to"
    causes += not_negative(rule, path, "succeededCount")
    if count > completions:
        causes.append(invalid(where, count, f"{most} {completions} (the number of specified completions)"))
    if indexes is not None and count > total:
        text = f"{most} {total} (the number of indexes in the specified succeededIndexes field)"
        causes.append(invalid(where, count, text))
    return causes


def _total(text: str, completions: int) -> int:
    """Return how many indexes a text such as `0,2-4` names; ValueError says what is wrong with it."""
    total, last = 0, -1
    for part in text.split(",") if text else ():
        ends = part.split("-")
        if len(ends) > 2:
            fault = (
                "violates the requirement that an index interval can have at most two parts separated by '-'"
            )
            raise ValueError(f'the fragment "{part}" {fault}')
        numbers = [_index(end, completions) for end in ends]
        if len(numbers) == 2 and numbers[0] >= numbers[1]:
            raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
        if last >= numbers[0]:
            raise ValueError(f"non-increasing order, previous: {last}, current: {numbers[0]}")
        total, last = total + numbers[-1] - numbers[0] + 1, numbers[-1]
    return total


def _index(text: str, completions: int) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    if int(text) >= completions:
        raise ValueError(f'too large index: "{text}"')
    return int(text)
