"""What the API answers instead of what was asked: one class for each reason, with its HTTP status.

The body is `{"detail": "<a sentence that names the field>", "reason": "<Word>", "field": "<path>"}`; clients raise the
same class again by `reason`.
"""

from collections.abc import Mapping
from typing import ClassVar

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.responses import Response

from steelyard.schema.kubernetes import QUANTITY_PATTERN

JSON = "application/json"
LONGEST_VALUE = 80
"""Characters of a wrong value that an answer repeats."""
_MOST_BITS = 256
_WITHOUT_VALUE = {"value_error", "assertion_error", "missing", "extra_forbidden"}


class ApiError(Exception):
    """Raised anywhere below a handler; answered by the app."""

    status: ClassVar[int] = 500
    reason: ClassVar[str] = "Internal"

    def __init__(
        self, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.headers = headers or {}

    def response(self) -> Response:
        content = {"detail": self.detail, "reason": self.reason, "field": self.field}
        body = orjson.dumps({key: value for key, value in content.items() if value is not None})
        return Response(body, self.status, dict(self.headers), JSON)


class BadRequest(ApiError):
    """The request as such is not readable."""

    status, reason = 400, "BadRequest"


class NoToken(ApiError):
    """There is no token, or none that counts."""

    status, reason = 401, "Unauthenticated"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"})


class Forbidden(ApiError):
    """The token's grants do not reach so far."""

    status, reason = 403, "Forbidden"


class NotFound(ApiError):
    """There is no such thing, as far as the asker may see."""

    status, reason = 404, "NotFound"


class NotAllowed(ApiError):
    """The path has other methods."""

    status, reason = 405, "MethodNotAllowed"


class Conflict(ApiError):
    """The entity's state does not allow it, or it has changed meanwhile."""

    status, reason = 409, "Conflict"


class TooLarge(ApiError):
    """A part of the request is over its limit."""

    status, reason = 413, "TooLarge"


class UnsupportedMediaType(ApiError):
    """The body is of a type that this route does not take."""

    status, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    """A field's value is not one of those allowed; `field` names it."""

    status, reason = 422, "Invalid"


class NotImplementedYet(ApiError):
    """Known, and not served here."""

    status, reason = 501, "NotImplemented"


class BadGateway(ApiError):
    """A replica did not answer properly."""

    status, reason = 502, "BadGateway"


class Unavailable(ApiError):
    """Raised where the same request may succeed later."""

    status, reason = 503, "Unavailable"

    def __init__(self, detail: str, *, retry_after: int = 1) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after)})


def key_taken(key: str) -> Invalid:
    return Invalid(
        f"Idempotency-Key: {key!r} was given with another request; a new one takes another key",
        field="Idempotency-Key",
    )


def invalid(error: ValidationError) -> Invalid:
    """All of a model's faults in one sentence; `field` is the first one's."""
    faults = [
        (".".join(map(str, fault["loc"])) or "body", _said(fault))
        for fault in error.errors(include_url=False)
    ]
    return Invalid("; ".join(f"{field}: {message}" for field, message in faults[:10]), field=faults[0][0])


def _said(fault: ErrorDetails) -> str:
    """What is allowed, and the value. The schema's own words have the value already, where it helps."""
    message, value = fault["msg"].removeprefix("Value error, "), fault.get("input")
    if fault["type"] in _WITHOUT_VALUE or not isinstance(value, str | int | float | None):
        return message
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return message  # Python writes no number of thousands of digits
    if fault.get("ctx", {}).get("pattern") == QUANTITY_PATTERN:
        message = "should be a quantity of Kubernetes below 8Ei, such as 500m, 2 or 4Gi"
    shown = repr(value) if len(str(value)) <= LONGEST_VALUE else f"{str(value)[:LONGEST_VALUE]!r}..."
    return f"{message}, and is {shown}"
