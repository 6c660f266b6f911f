"""Expressions of webhooks and policies in CEL: compiled once, run on plain JSON.

Unlike rules of custom resources they see objects as they are written: no types, no escaped names.
"""

import re
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from typing import Any

from steelyard_local_kubernetes.apiserver.expressions.functions import function_names
from steelyard_local_kubernetes.apiserver.expressions.program import (
    BadExpression,
    EvaluationFailed,
    Program,
    fault_at,
    outside_literals,
)

_BOUND = re.compile(r"\.(?:all|exists|exists_one|existsOne|map|filter)\(\s*(\w+)\s*,")
_TYPES = frozenset(
    [
        "sets",
        "optional",
        "type",
        "null_type",
        "list",
        "map",
        "int",
        "uint",
        "double",
        "bool",
        "string",
        "bytes",
    ]
)
_FIELD = re.compile(r"(?:object|oldObject|params)(?:\.[A-Za-z_]\w*)+")
_NAMES: dict[type[Any], str] = {
    bool: "bool",
    str: "string",
    int: "int",
    float: "double",
    dict: "map",
    list: "list",
}
CONDITION = ("object", "oldObject", "request")
_HAS = re.compile(r"\bhas\(\s*(object|oldObject|params|namespaceObject)\.([A-Za-z_]\w*)\s*\)")


@lru_cache(maxsize=500)
def compile_plain(source: str) -> Program:
    """Raises BadExpression."""
    # A deleted object is null, and null has no fields; to this engine it has no answer.
    return Program(outside_literals(source, lambda code: _HAS.sub(r"(\1 != null && has(\1.\2))", code)))


def is_untyped(source: str) -> bool:
    """Return whether an expression is a field of an object alone, whose type is unknown."""
    return _FIELD.fullmatch(source.strip()) is not None


def type_fault(result_type: type[Any]) -> str:
    return f"must evaluate to {_NAMES[result_type]} but got dyn"


def find_fault(source: str, names: Collection[str], result_type: type[Any] | None = None) -> str:
    """Return why an expression over these variables cannot be evaluated here; empty where it can be."""
    try:
        program = compile_plain(source.strip())
    except BadExpression as error:
        return f"compilation failed: ERROR: {error}"
    bound = set(_BOUND.findall(program.code))
    unknown = sorted(program.variables - _TYPES - bound - set(names))
    if unknown == ["authorizer"]:
        return "compilation failed: ERROR: this server does not evaluate `authorizer`"
    unknown = unknown or sorted(program.functions - function_names())
    if unknown:
        match = re.search(rf"(?<![\w.]){re.escape(unknown[0])}\b", source)
        text = f"undeclared reference to '{unknown[0]}' (in container '')"
        return f"compilation failed: ERROR: {fault_at(source, match.start() if match else 0, text)}"
    if result_type is not None and is_untyped(source):
        return type_fault(result_type)
    # Without types this engine knows the type of a constant only.
    if not program.variables and result_type is not None:
        with suppress(EvaluationFailed):
            value = program.run({})
            if not isinstance(value, result_type):
                return f"must evaluate to {_NAMES[result_type]} but got {_NAMES.get(type(value), 'dyn')}"
    return ""


def evaluate_plain(source: str, values: dict[str, Any]) -> Any:
    """Raises Failed, also for an expression that this server cannot evaluate."""
    try:
        program = compile_plain(source.strip())
    except BadExpression as error:
        raise EvaluationFailed(str(error), fault=True) from error
    return program.run(values)
