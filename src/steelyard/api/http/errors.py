"""Errors that the API answers: one class for each reason, with its HTTP status.

The body is `{"detail": "<a sentence that names the field>", "reason": "<Word>", "field": "<path>"}`; clients raise the
same class again by `reason`.
"""

from collections.abc import Mapping
from typing import ClassVar

import orjson
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from steelyard_schema.faults import fault_message, join_messages

JSON = "application/json"
_FORMS = ("function-after[", "literal[")


class ApiError(Exception):
    """An error below a handler, which the application answers."""

    status: ClassVar[int] = 500
    reason: ClassVar[str] = "Internal"

    def __init__(
        self, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.headers = headers or {}

    @property
    def content(self) -> dict[str, str]:
        content = {"detail": self.detail, "reason": self.reason, "field": self.field}
        return {key: value for key, value in content.items() if value is not None}

    def response(self) -> Response:
        return Response(orjson.dumps(self.content), self.status, dict(self.headers), JSON)


class BadRequest(ApiError):
    """400: the request as such is not readable."""

    status, reason = 400, "BadRequest"


class NoToken(ApiError):
    """401: there is no token, or it does not count."""

    status, reason = 401, "Unauthenticated"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"})


class Forbidden(ApiError):
    """403: the token's grants do not reach so far."""

    status, reason = 403, "Forbidden"


class NotFound(ApiError):
    """404: there is no such thing, as far as the caller may see."""

    status, reason = 404, "NotFound"


class NotAllowed(ApiError):
    """405: the path has other methods."""

    status, reason = 405, "MethodNotAllowed"


class Conflict(ApiError):
    """409: the entity's state does not allow it, or the entity has changed since."""

    status, reason = 409, "Conflict"


class ContentChanged(ApiError):
    """409: a stored file has changed: its content has another digest than its manifest says."""

    status, reason = 409, "DigestMismatch"


class TooLarge(ApiError):
    """413: a part of the request is over its limit."""

    status, reason = 413, "TooLarge"


class UnsupportedMediaType(ApiError):
    """415: the body is of a type that this route does not take."""

    status, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    """422: a field's value is not allowed; `field` names it."""

    status, reason = 422, "Invalid"


class NotImplementedYet(ApiError):
    """501: known, and not served here."""

    status, reason = 501, "NotImplemented"


class BadGateway(ApiError):
    """502: a replica did not answer properly."""

    status, reason = 502, "BadGateway"


class Unavailable(ApiError):
    """503: the same request may succeed later."""

    status, reason = 503, "Unavailable"

    def __init__(self, detail: str, *, retry_after: int = 1) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after)})


def key_taken(key: str) -> Invalid:
    """Return the error for an idempotency key that belongs to another request."""
    return Invalid(
        f"Idempotency-Key: {key!r} was given with another request; a new one takes another key",
        field="Idempotency-Key",
    )


def invalid(error: ValidationError, model: type[BaseModel] | None = None) -> Invalid:
    """Return one error for the first ten faults of a `model`'s content; its `field` is that of the first."""
    faults = [
        (
            ".".join(str(part) for part in fault["loc"] if not _is_form(part)) or "body",
            fault_message(fault, model),
        )
        for fault in error.errors(include_url=False)
    ]
    by_field: dict[str, list[str]] = {}
    for field, message in faults[:10]:
        by_field.setdefault(field, []).append(message)
    text = "; ".join(f"{field}: {join_messages(messages)}" for field, messages in by_field.items())
    return Invalid(text, field=faults[0][0])


def _is_form(part: int | str) -> bool:
    """Return whether a part of a place is pydantic's name for one of several forms of a field, and no field."""
    return isinstance(part, str) and part.startswith(_FORMS)
