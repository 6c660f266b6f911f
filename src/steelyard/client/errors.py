"""Errors of the client: one class per reason, so that a caller catches those that it can handle."""

from typing import Any

import httpx

from steelyard_common.errors import SteelyardError, UsageError


class ClientError(SteelyardError):
    """Base class of all errors of the client."""


class NotConfigured(ClientError, UsageError):
    """Error for a missing address or token; the message says where they were looked for."""

    exit_code = 2


class BadFiles(ClientError, UsageError):
    """Files are missing or unsuitable; the message says which and why."""

    exit_code = 2


class MissingPackage(ClientError, UsageError):
    """A package is not installed that this function needs; the message says which, and how to install it."""

    exit_code = 2


class Unreachable(ClientError):
    """The platform does not answer."""


class UnexpectedAnswer(ClientError):
    """An answer is not one of the platform's; the address may be another program's."""


class TransferFailed(ClientError):
    """A file could not be uploaded or downloaded, or its content does not match its digest."""


class TransferBroken(TransferFailed):
    """A transfer broke off, or was refused for now; `response` is the refusal. The client tries again by itself."""

    def __init__(self, message: str, response: httpx.Response | None = None) -> None:
        super().__init__(message)
        self.response = response


class LinkExpired(TransferFailed):
    """A signed URL has expired. The client asks for another by itself, once."""


class WorkflowFailed(ClientError):
    """An entity that was waited for has ended badly; `entity` is its last state."""

    def __init__(self, message: str, entity: Any) -> None:
        super().__init__(message)
        self.entity = entity


class NothingToWaitFor(ClientError, UsageError):
    """An entity's own status never shows a success; the message says what to ask instead."""

    exit_code = 2


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
    """401: there is no token, or it does not count."""


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
    """501: the platform knows this request and does not serve it."""


class Unavailable(ApiError):
    """502, 503, 504: the platform cannot do this now."""


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
"""Classes for answers without a reason, such as a proxy's."""


_MESSAGE_CHARACTERS = 1000


def error_for(response: httpx.Response) -> ApiError:
    """Return the error of an answer: by its `reason`, else by its status."""
    content = _content(response)
    reason = str(content.get("reason") or "")
    # The reason first: a proxy may change a status, and one status has several reasons.
    kind = _BY_REASON.get(reason) or _BY_STATUS.get(response.status_code, ApiError)
    detail = content.get("detail") or response.reason_phrase or "the request was refused"
    field = content.get("field")
    message = f"{detail} ({response.status_code}{_request_id(response)})"
    return kind(response.status_code, reason or kind.__name__, message, str(field) if field else None)


def _request_id(response: httpx.Response) -> str:
    """Return the id to look for in the platform's logs, if the failure is the platform's."""
    id = response.request.headers.get("x-request-id") if response.status_code >= 500 else None
    return f", request {id}" if id else ""


def _content(response: httpx.Response) -> dict[str, Any]:
    """Return the body of a refusal; one that is not JSON becomes the detail, unless it is an HTML page."""
    try:
        content = response.json()
    except ValueError:
        page = "html" in response.headers.get("content-type", "")
        return {"detail": "" if page else response.text[:500].strip()}
    if not isinstance(content, dict):
        return {"detail": content}
    # A model server behind a session answers as OpenAI does.
    error = content.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return {"detail": message[:_MESSAGE_CHARACTERS], **content} if isinstance(message, str) else content
