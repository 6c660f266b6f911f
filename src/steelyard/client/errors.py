"""What the client raises: one class per reason, so that a caller catches what it can do something about."""

from typing import Any

import httpx

from steelyard.errors import SteelyardError, UsageError


class ClientError(SteelyardError):
    """Anything that went wrong between the client and the platform."""


class NotConfigured(ClientError, UsageError):
    """No address or no token was found; the message says where they were looked for."""

    exit_code = 2


class BadFiles(ClientError, UsageError):
    """The files named are not there, or not what is needed; the message says which and why."""

    exit_code = 2


class MissingPackage(ClientError, UsageError):
    """Something needs a package that the client alone does not; the message says which, and how it is installed."""

    exit_code = 2


class Unreachable(ClientError):
    """The platform does not answer."""


class UnexpectedAnswer(ClientError):
    """What answered does not answer as the platform does; the address may be another program's."""


class TransferFailed(ClientError):
    """A file could not be uploaded or downloaded, or is not what its digest says."""


class TransferBroken(TransferFailed):
    """A transfer broke off, or was refused for now; `response` is the refusal. The client tries again by itself."""

    def __init__(self, message: str, response: httpx.Response | None = None) -> None:
        super().__init__(message)
        self.response = response


class LinkExpired(TransferFailed):
    """A signed address is no good any more. The client asks for another by itself, once."""


class WorkflowFailed(ClientError):
    """An entity that was waited for has ended badly; `entity` is its last state."""

    def __init__(self, message: str, entity: Any) -> None:
        super().__init__(message)
        self.entity = entity


class WaitTimeout(ClientError, TimeoutError):
    """An entity has not ended in time; the message says what it waits for, `entity` is its last state."""

    def __init__(self, message: str, entity: Any) -> None:
        super().__init__(message)
        self.entity = entity


class ApiError(ClientError):
    """The platform refused. `status` is HTTP's, `reason` one word, `field` the field at fault where there is one."""

    def __init__(self, status: int, reason: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status, self.reason, self.field = status, reason, field


class BadRequest(ApiError):
    """400: the request as such is not readable."""


class Unauthenticated(ApiError):
    """401: there is no token, or it is no good."""


class Forbidden(ApiError):
    """403: the token may not do this."""


class NotFound(ApiError):
    """404: there is no such entity, or the token may not see it."""


class Conflict(ApiError):
    """409: the entity's state does not allow it."""


class TooLarge(ApiError):
    """413: the request is too large; `field` names the largest part."""


class Invalid(ApiError):
    """422: a field is wrong; `field` names it."""


class RateLimited(ApiError):
    """429: too many requests."""


class NotImplementedYet(ApiError):
    """501: the platform knows it and does not serve it."""


class Unavailable(ApiError):
    """502, 503, 504: the platform cannot do it now."""


_BY_REASON: dict[str, type[ApiError]] = {
    "BadGateway": Unavailable,
    "BadRequest": BadRequest,
    "Conflict": Conflict,
    "Forbidden": Forbidden,
    "Invalid": Invalid,
    "NotFound": NotFound,
    "NotImplemented": NotImplementedYet,
    "RateLimited": RateLimited,
    "TooLarge": TooLarge,
    "Unauthenticated": Unauthenticated,
    "Unavailable": Unavailable,
}
_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Invalid,
    429: RateLimited,
    501: NotImplementedYet,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}
"""For what answers without a reason, such as a proxy."""


def error_for(response: httpx.Response) -> ApiError:
    """The error that an answer tells of: by its `reason`, else by its status."""
    content = _content(response)
    reason = str(content.get("reason") or "")
    made = _BY_REASON.get(reason) or _BY_STATUS.get(response.status_code, ApiError)
    detail = content.get("detail") or response.reason_phrase or "the request was refused"
    field = content.get("field")
    message = f"{detail} ({response.status_code}{_request_id(response)})"
    return made(response.status_code, reason or made.__name__, message, str(field) if field else None)


def _request_id(response: httpx.Response) -> str:
    """For faults of the platform: what to look for in its logs."""
    id = response.request.headers.get("x-request-id") if response.status_code >= 500 else None
    return f", request {id}" if id else ""


def _content(response: httpx.Response) -> dict[str, Any]:
    """The body of a refusal; of one that is no JSON, its text, unless it is a page."""
    try:
        content = response.json()
    except ValueError:
        page = "html" in response.headers.get("content-type", "")
        return {"detail": "" if page else response.text[:500].strip()}
    return content if isinstance(content, dict) else {"detail": content}
