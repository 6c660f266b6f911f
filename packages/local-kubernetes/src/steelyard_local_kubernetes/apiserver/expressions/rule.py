"""One rule of a definition: whether an object keeps to it, and what to say when it does not."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.errors import Cause
from steelyard_local_kubernetes.apiserver.expressions import engine
from steelyard_local_kubernetes.apiserver.expressions.path import join_path
from steelyard_local_kubernetes.apiserver.expressions.program import EvaluationFailed, Program
from steelyard_local_kubernetes.apiserver.expressions.values import cel_value

IMMUTABLE = "self == oldSelf"
ABSENT = object()  # what was not there before


class Change:
    """One value and what it was, as all rules of its field see them."""

    def __init__(self, schema: Json, value: Any, old: Any) -> None:
        self.schema, self._value, self._old = schema, value, old
        self.is_new = old is ABSENT
        self.is_none = not self.is_new and value == old

    @cached_property
    def now(self) -> Any:
        return cel_value(self.schema, self._value)

    @cached_property
    def before(self) -> Any:
        return None if self.is_new else cel_value(self.schema, self._old, self._value)


@dataclass(frozen=True)
class Rule:
    """`program` is None for the rule of immutable fields, which needs no engine."""

    text: str
    program: Program | None
    reads_old: bool
    optional_old: bool
    message: str
    message_program: Program | None
    reason: str
    field_path: str

    def cause(self, change: Change, path: str) -> Cause | None:
        """Return the cause if the change breaks the rule."""
        # Kubernetes' rule: a transition rule holds for updates, unless it
        # says that it can do without the old value.
        if self.reads_old and not self.optional_old and change.is_new:
            return None
        if change.is_none and (not self.reads_old or self.program is None):
            return None  # what was there before the rule may stay
        if self.program is None:
            kept = change.now == change.before
            return None if kept else self._failure(change, path, self.message or f"failed rule: {self.text}")
        if not self.reads_old:
            values = {"self": change.now}
        else:
            before = optional(change.before, not change.is_new) if self.optional_old else change.before
            values = {"self": change.now, "oldSelf": before}
        try:
            if self.program.run(values) is True:
                return None
        except EvaluationFailed as failure:
            return self._failure(change, path, f"{failure} evaluating rule: {self.message or self.text}")
        return self._failure(change, path, self._message(values))

    def _message(self, values: dict[str, Any]) -> str:
        """The message; where it cannot be made, the one that always can."""
        if self.message_program:
            try:
                said = self.message_program.run(values)
            except EvaluationFailed:
                said = ""
            if isinstance(said, str) and said.strip() and "\n" not in said:
                return said.strip()
        return self.message or f"failed rule: {self.text}"

    def _failure(self, change: Change, path: str, text: str) -> Cause:
        where = join_path(path, self.field_path, change.schema) if self.field_path else path
        return Cause(where or "<nil>", f"{_opening(self.reason, change.schema)}: {text}", self.reason)


_WORDS = {"FieldValueForbidden": "Forbidden", "FieldValueRequired": "Required value"}


def _opening(reason: str, schema: Json) -> str:
    if reason in _WORDS:
        return _WORDS[reason]
    word = "Duplicate value" if reason == "FieldValueDuplicate" else "Invalid value"
    return f'{word}: "{schema.get("type") or ""}"'


def optional(value: Any, there: bool) -> Any:
    engine.load()
    from cel import OptionalValue

    return OptionalValue.of(value) if there else OptionalValue.none()


def compile_rule(rule: Json) -> Rule:
    """Raises BadExpression."""
    text = rule["rule"].strip()
    program = None if text == IMMUTABLE else Program(text)
    message = (rule.get("messageExpression") or "").strip()
    message_program = Program(message) if message else None
    used = {
        name for used_program in (program, message_program) if used_program for name in used_program.variables
    }
    return Rule(
        text=text,
        program=program,
        reads_old=program is None or "oldSelf" in used,
        optional_old=bool(rule.get("optionalOldSelf")),
        message=(rule.get("message") or "").strip(),
        message_program=message_program,
        reason=rule.get("reason") or "FieldValueInvalid",
        field_path=rule.get("fieldPath") or "",
    )
