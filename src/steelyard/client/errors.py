"""What the client raises: one class per reason, so that a caller catches what it can do something about."""

from typing import Any

import httpx

from steelyard.errors import SteelyardError, UsageError


class ClientError(SteelyardError):
    """Anything that went wrong between the client and the platform."""


class NotConfigured(ClientError, UsageError):
    """No address or no token was found; the message says where they were looked for."""

    exit_code = 2


class Unreachable(ClientError):
    """The platform does not answer."""


class TransferFailed(ClientError):
    """A file could not be uploaded or downloaded, or is not what its digest says."""


class WorkflowFailed(ClientError):
    """An entity that was waited for has ended badly; `entity` is its last state."""

    def __init__(self, message: str, entity: Any) -> None:
        super().__init__(message)
        self.entity = entity


class WaitTimeout(ClientError, TimeoutError):
    """An entity has not ended in time; the message says what it waits for."""


class ApiError(ClientError):
    """The platform refused. `status` is HTTP's, `reason` one word, `field` the field at fault where there is one."""

    reason = "Unknown"

    def __init__(self, status: int, reason: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status, self.reason, self.field = status, reason, field


class Unauthenticated(ApiError):
    """401: there is no token, or it is no good."""


class Forbidden(ApiError):
    """403: the token may not do this."""


class NotFound(ApiError):
    """404: there is no such entity, or the token may not see it."""


class Conflict(ApiError):
    """409: the entity's state does not allow it."""


class TooLarge(ApiError):
    """413: the request is too large."""


class Invalid(ApiError):
    """422: a field is wrong; `field` names it."""


class TooMany(ApiError):
    """429: too many requests."""


class NotImplementedHere(ApiError):
    """501: this is not there yet."""


class Unavailable(ApiError):
    """502, 503, 504: the platform cannot do it now."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Invalid,
    429: TooMany,
    501: NotImplementedHere,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_for(response: httpx.Response) -> ApiError:
    """The error that an answer tells of."""
    try:
        content = response.json()
    except ValueError:
        content = {}
    if not isinstance(content, dict):
        content = {"detail": content}
    made = _BY_STATUS.get(response.status_code, ApiError)
    detail = content.get("detail") or response.text[:500] or response.reason_phrase
    message = f"{detail} ({response.status_code})"
    return made(
        response.status_code, str(content.get("reason") or made.__name__), message, content.get("field")
    )
