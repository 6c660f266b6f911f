"""Rules that a definition may not have: those that are not CEL, that cannot be met, or that this engine cannot
evaluate.

The engine has no types of its own. Instead fields that the schema does not have are looked for in the text, and
each rule is tried on an example with every field.
"""

import re
from collections.abc import Iterator
from typing import Any

import orjson

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.errors import Cause, invalid, missing_value, not_supported
from steelyard_local_kubernetes.apiserver.expressions.functions import function_names
from steelyard_local_kubernetes.apiserver.expressions.path import leads_somewhere
from steelyard_local_kubernetes.apiserver.expressions.program import (
    BadExpression,
    EvaluationFailed,
    Program,
    fault_at,
)
from steelyard_local_kubernetes.apiserver.expressions.rule import IMMUTABLE, optional
from steelyard_local_kubernetes.apiserver.expressions.values import (
    cel_value,
    escape_name,
    example,
    is_loose,
    readable_fields,
)

_SCALARS = {"integer": "int", "number": "double", "boolean": "bool"}
_REASONS = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"]
_GO = ("Rule", "Message", "MessageExpression", "Reason", "FieldPath", "OptionalOldSelf")
_BREAK = re.compile(r"[\n\r]")
_BOUND = re.compile(r"\.(?:all|exists|exists_one|map|filter)\(\s*(\w+)\s*,")
_PATH = re.compile(r"(?<![\w.])(self|oldSelf)((?:\.\w+(?!\w*\s*\())+)")
_NAMES = {"self", "oldSelf", "sets", "optional", "type", "null_type", "list", "map"}
_NAMES |= {"int", "uint", "double", "bool", "string", "bytes"}


def rule_causes(rule: Json, schema: Json, path: str, apart: str) -> Iterator[Cause]:
    """`schema` is the rule's own; `apart` is the list in which items have no past, if it is in one.

    The rule has no faults of its wording.
    """
    text = (rule.get("rule") or "").strip()
    compares = bool(re.search(r"\boldSelf\b", text))
    # Kubernetes' rule: in a list without keys it is unknown which old item belongs to a new one.
    if apart and compares and not rule.get("optionalOldSelf"):
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {apart}"
        yield invalid(f"{path}.rule", text, detail)
        return
    # The rule of immutable fields needs no engine, and is right for every type.
    if text != IMMUTABLE and (fault := _fault(text, rule, schema, bool)):
        yield Cause(f"{path}.rule", f"Invalid value: {_in_go(rule)}: {fault}")
    message = (rule.get("messageExpression") or "").strip()
    if message and (fault := _fault(message, rule, schema, str)):
        yield Cause(f"{path}.messageExpression", f"Invalid value: {_in_go(rule)}: {fault}")
    if not compares and (optional_old := rule.get("optionalOldSelf")) is not None:
        yield invalid(
            f"{path}.optionalOldSelf", optional_old, "may not be set if oldSelf is not used in rule"
        )


def wording_causes(rule: Json, schema: Json, path: str) -> Iterator[Cause]:
    """Faults that need no evaluation, which a real server finds in every schema."""
    text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    breaks = "must not contain line breaks"
    if not text:
        yield missing_value(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _BREAK.search(message.strip()):
        yield invalid(f"{path}.message", message, breaks)
    elif _BREAK.search(text) and not message:
        yield missing_value(f"{path}.message", "message must be specified if rule contains line breaks")
    if (expression := rule.get("messageExpression")) and not expression.strip():
        yield missing_value(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if (reason := rule.get("reason")) is not None and reason not in _REASONS:
        yield not_supported(f"{path}.reason", reason, _REASONS)
    field = rule.get("fieldPath") or ""
    if field and not field.strip():
        yield invalid(f"{path}.fieldPath", field, "must be non-empty if specified")
    if _BREAK.search(field):
        yield invalid(f"{path}.fieldPath", field, breaks)
    if field and not leads_somewhere(schema, field):
        yield invalid(f"{path}.fieldPath", field, "must be a valid path")


def _in_go(rule: Json) -> str:
    keys = {name: name[0].lower() + name[1:] for name in _GO}
    empty = {"Reason": None, "OptionalOldSelf": None}
    shown = {name: rule.get(key, empty.get(name, "")) for name, key in keys.items()}
    text = orjson.dumps(shown).decode()
    # Go's JSON writer escapes these three characters, for the sake of HTML.
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _fault(source: str, rule: Json, schema: Json, wanted: type[bool] | type[str]) -> str:
    """Return the fault of an expression; empty where there is none."""
    try:
        program = Program(source)
    except BadExpression as error:
        return f"compilation failed: ERROR: {error}"
    if unknown := _unknown_name(program, schema):
        return f"compilation failed: ERROR: {unknown}"
    values = _examples(program, rule, schema)
    try:
        value = program.run(values)
    except EvaluationFailed as failure:
        # A failure on the example proves something only where every object has the example's types and keys.
        fault = failure.fault and not is_loose(schema)
        return f"compilation failed: ERROR: {failure}" if fault else ""
    if isinstance(value, wanted):
        return ""
    if wanted is str:
        return "messageExpression must evaluate to a string"
    return "cel expression must evaluate to a bool"


def _unknown_name(program: Program, schema: Json) -> str:
    """A name that nothing has: a variable, a function, a field."""
    bound = set(_BOUND.findall(program.code))
    names = sorted(program.variables - _NAMES - bound) or sorted(program.functions - function_names())
    if names:
        place = re.search(rf"\b{re.escape(names[0])}\b", program.code)
        text = f"undeclared reference to '{names[0]}' (in container '')"
        return fault_at(program.source, place.start(), text) if place else text
    for match in _PATH.finditer(program.code):
        if match[1] == "self" and (missing := _missing(schema, match[2].split(".")[1:])):
            index, text = missing
            dots = [at for at, sign in enumerate(match[0]) if sign == "."]
            return fault_at(program.source, match.start() + dots[index], text)
    return ""


def _missing(schema: Json, names: list[str]) -> tuple[int, str] | None:
    """The first of these names that the schema has no field of, by its index, and the fault."""
    for index, name in enumerate(names):
        if schema.get("x-kubernetes-int-or-string"):
            return None
        if (kind := schema.get("type")) in _SCALARS:
            return index, f"type '{_SCALARS[kind]}' does not support field selection"
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            schema = extra
            continue
        fields = {escape_name(field): below for field, below in readable_fields(schema).items()}
        if name not in fields:
            return index, f"undefined field '{name}'"
        schema = fields[name]
    return None


def _examples(program: Program, rule: Json, schema: Json) -> dict[str, Any]:
    value = cel_value(schema, example(schema))
    before = optional(value, there=True) if rule.get("optionalOldSelf") else value
    return {"self": value} | ({"oldSelf": before} if "oldSelf" in program.variables else {})
