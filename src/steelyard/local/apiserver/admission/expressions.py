"""Expressions of webhooks and policies in CEL: compiled once, run on plain JSON.

Unlike rules of custom resources they see objects as they are written: no types, no escaped names.
"""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from steelyard.local.apiserver.expressions.functions import known_functions
from steelyard.local.apiserver.expressions.program import BadExpression, Failed, Program

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
CONDITION = ("object", "oldObject", "request")


@lru_cache(maxsize=500)
def compiled(source: str) -> Program:
    """Raises BadExpression."""
    return Program(source)


def fault_of(source: str, names: Collection[str]) -> str:
    """Why an expression over these variables cannot be evaluated here; empty where it can be."""
    try:
        program = compiled(source.strip())
    except BadExpression as error:
        return f"compilation failed: ERROR: {error}"
    bound = set(_BOUND.findall(program.code))
    unknown = sorted(program.variables - _TYPES - bound - set(names))
    if unknown == ["authorizer"]:
        return "compilation failed: ERROR: this server does not evaluate `authorizer`"
    unknown = unknown or sorted(program.functions - known_functions())
    return (
        f"compilation failed: ERROR: undeclared reference to '{unknown[0]}' (in container '')"
        if unknown
        else ""
    )


def evaluated(source: str, values: dict[str, Any]) -> Any:
    """Raises Failed, also for an expression that this server cannot evaluate."""
    try:
        program = compiled(source.strip())
    except BadExpression as error:
        raise Failed(str(error), fault=True) from error
    return program.run(values)
