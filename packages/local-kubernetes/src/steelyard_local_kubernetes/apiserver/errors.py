"""The API's refusals: Status objects worded like the real server's. Every part of the core raises them.

`steelyard_kube.errors` are the same words read by a client; here they are spoken.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import orjson

from steelyard_common.types import Json

_SHOWN = 1000  # characters of a fault that ends a check


class Refusal(Exception):
    """An answer that is not a success."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def status(self) -> Json:
        status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        status |= {"message": self.message, "reason": self.reason, "code": self.code}
        if not self.reason:
            del status["reason"]
        return status | ({"details": self.details} if self.details is not None else {})


MAX_CAUSES, MAX_CAUSE_LENGTH = 1000, 4 << 20
"""Most faults that are looked for in one request's object, and characters of their texts."""
_left: ContextVar[list[int] | None] = ContextVar("left", default=None)


@contextmanager
def limit_causes() -> Iterator[None]:
    """End a check with a Refusal once it has found very many faults: each byte of a body can give hundreds of bytes."""
    token = _left.set([MAX_CAUSES, MAX_CAUSE_LENGTH])
    try:
        yield
    finally:
        _left.reset(token)


@dataclass(frozen=True, slots=True)
class Cause:
    """Fault of one field."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def __post_init__(self) -> None:
        left = _left.get()
        if left is None:
            return
        left[0] -= 1
        left[1] -= len(self.field) + len(self.message)
        if min(left) < 0:
            last = f"{self.field[:_SHOWN]}: {self.message[:_SHOWN]}"
            text = f"more than {MAX_CAUSES} faults, or {MAX_CAUSE_LENGTH} characters of them; the last was {last}"
            raise Refusal(422, "Invalid", f"the object is invalid: it has {text}")


def missing_value(path: str, detail: str = "") -> Cause:
    return Cause(path, f"Required value{': ' + detail if detail else ''}", "FieldValueRequired")


def too_many(path: str, count: int, most: int) -> Cause:
    text = f"Too many: {count}: must have at most {most} {'item' if most == 1 else 'items'}"
    return Cause(path, text, "FieldValueTooMany")


def invalid(path: str, value: object, detail: str) -> Cause:
    return Cause(path, f"Invalid value: {value_text(value)}{': ' + detail if detail else ''}")


def forbidden_field(path: str, detail: str) -> Cause:
    return Cause(path, f"Forbidden: {detail}", "FieldValueForbidden")


def not_supported(path: str, value: object, supported: list[str]) -> Cause:
    choices = ", ".join(f'"{choice}"' for choice in supported)
    text = f"Unsupported value: {value_text(value)}: supported values: {choices}"
    return Cause(path, text, "FieldValueNotSupported")


def value_text(value: object) -> str:
    """A value as Go prints it in these messages."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case _:
            return orjson.dumps(value).decode()


def resource_name(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> Refusal:
    details: Json = {"name": name, "kind": plural} | ({"group": group} if group else {})
    return Refusal(404, "NotFound", f'{resource_name(group, plural)} "{name}" not found', details)


def no_such_path() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


class NoSuchPage(Refusal):
    """A path that no group of the API begins: the answer is a text, and no Status."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")


def already_exists(group: str, plural: str, name: str) -> Refusal:
    details: Json = {"name": name, "kind": plural} | ({"group": group} if group else {})
    return Refusal(409, "AlreadyExists", f'{resource_name(group, plural)} "{name}" already exists', details)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(group: str, plural: str, name: str, detail: str = MODIFIED) -> Refusal:
    details: Json = {"name": name, "kind": plural} | ({"group": group} if group else {})
    message = f'Operation cannot be fulfilled on {resource_name(group, plural)} "{name}": {detail}'
    return Refusal(409, "Conflict", message, details)


def forbidden(group: str, plural: str, name: str, detail: str, cause: Cause | None = None) -> Refusal:
    details: Json = {"name": name, "kind": plural} | ({"group": group} if group else {})
    if cause:
        details["causes"] = [{"reason": cause.reason, "message": cause.message, "field": cause.field}]
    return Refusal(
        403, "Forbidden", f'{resource_name(group, plural)} "{name}" is forbidden: {detail}', details
    )


def forbidden_new(group: str, plural: str, obj: Json, detail: str, cause: Cause | None = None) -> Refusal:
    """Refuse an object that may not have its name yet."""
    metadata = obj["metadata"]
    name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    return forbidden(group, plural, str(name), detail, cause)


def is_invalid(group: str, kind: str, name: str, causes: list[Cause]) -> Refusal:
    lines = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    # Go's form of one error and of several.
    text = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    named = {"name": name, "kind": kind, "group": group}
    details: Json = {key: value for key, value in named.items() if value}
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return Refusal(422, "Invalid", f'{resource_name(group, kind)} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def resource_expired(message: str) -> Refusal:
    return Refusal(410, "Expired", message)


def bad_media_type(message: str) -> Refusal:
    return Refusal(415, "UnsupportedMediaType", message)


def not_implemented(message: str) -> Refusal:
    """Refuse what Kubernetes has and this server does not serve."""
    return Refusal(501, "NotImplemented", message)


def method_not_allowed() -> Refusal:
    return Refusal(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
    )
