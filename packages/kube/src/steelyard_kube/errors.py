"""The API's refusals as exceptions: one class per word that callers act on.

The client raises them from an answer, the in-memory double from its own checks; no other code makes them.
"""

from typing import ClassVar

from steelyard_common.types import Json


class ApiError(Exception):
    """An answer that is not a success, with the API's own status code, reason and message."""

    default: ClassVar[tuple[int, str]] = (500, "InternalError")

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", details: Json | None = None
    ) -> None:
        super().__init__(message)
        self.status = status or self.default[0]
        self.reason = reason or self.default[1]
        self.message = message
        self.details = details

    def __str__(self) -> str:
        return f"{self.reason} ({self.status}): {self.message}"

    @property
    def retry_after(self) -> float | None:
        """Seconds that the server asked to wait before a repeat, if it gave a number."""
        seconds = (self.details or {}).get("retryAfterSeconds")
        return float(seconds) if seconds else None


class NotFound(ApiError):
    default = (404, "NotFound")


class AlreadyExists(ApiError):
    default = (409, "AlreadyExists")


class Conflict(ApiError):
    """The object is not what the caller thought: its resourceVersion or uid differs."""

    default = (409, "Conflict")


class Gone(ApiError):
    """The history that was asked for is compacted: list again."""

    default = (410, "Expired")


class Invalid(ApiError):
    default = (422, "Invalid")


class BadRequest(ApiError):
    """The request has a value that cannot be parsed, such as a wrong quantity. A repeat changes nothing."""

    default = (400, "BadRequest")


class Unauthorized(ApiError):
    default = (401, "Unauthorized")


class Forbidden(ApiError):
    default = (403, "Forbidden")


class TooManyRequests(ApiError):
    default = (429, "TooManyRequests")


class ServerTimeout(ApiError):
    """The server gave up in time; whether it carried out the request is unknown."""

    default = (504, "Timeout")


class Unreachable(ApiError):
    """No answer at all: whether the server carried out the request is unknown."""

    default = (503, "Unreachable")


_BY_REASON: dict[str, type[ApiError]] = {
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Gone": Gone,
    "Expired": Gone,
    "Invalid": Invalid,
    "BadRequest": BadRequest,
    "Unauthorized": Unauthorized,
    "Forbidden": Forbidden,
    "TooManyRequests": TooManyRequests,
    "Timeout": ServerTimeout,
    "ServerTimeout": ServerTimeout,
}
_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
    504: ServerTimeout,
}


def error_from_status(status: Json) -> ApiError:
    """The exception for a `Status` object; its reason decides, and where that is unknown, its code."""
    code = int(status.get("code") or 500)
    reason = str(status.get("reason") or "")
    kind = _BY_REASON.get(reason) or _BY_STATUS.get(code, ApiError)
    message = status.get("message") or reason or f"the server answered {code}"
    return kind(message, status=code, reason=reason, details=status.get("details"))
