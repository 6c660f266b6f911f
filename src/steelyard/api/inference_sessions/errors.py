"""Errors of a session's endpoint, in the form that OpenAI's clients read."""

import re
from collections.abc import AsyncIterator

import orjson
from starlette.responses import Response

from steelyard.api.http.errors import JSON, ApiError
from steelyard_common.refused_calls import find_reason
from steelyard_common.serving.openai import PREFIXES, ErrorAnswer

_ENDPOINT = re.compile(r"/v0/inferencesessions/[^/]+/infer(/|$)")


def is_endpoint(path: str) -> bool:
    """Return whether a path of the API leads to the replicas of a session."""
    return _ENDPOINT.match(path) is not None


def session_response(error: ApiError) -> Response:
    """Return the response to a request of a session's endpoint that raised an error.

    It has OpenAI's form beside the API's own: clients of each read their part.
    """
    # OpenAI has codes of its own for these two; for all others, the API's reason says more.
    code = None if error.status in (401, 405) else error.reason
    stated = ErrorAnswer(error.status, error.detail, code, error.field).error
    body = orjson.dumps({"error": stated, **error.content})
    return Response(body, error.status, dict(error.headers), JSON)


def in_openai_form(endpoint: str, status: int, body: bytes) -> bytes | None:
    """Return the error answer of a replica in OpenAI's form; None for one that stays as it is.

    Model servers have forms of their own for what their frameworks refuse, such as a path that is not there. What such
    an answer says otherwise stays in it.
    """
    if status < 400 or not f"/{endpoint}".startswith(tuple(f"{prefix}/" for prefix in PREFIXES)):
        return None
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = None
    if isinstance(content, dict) and content.get("error"):
        return None
    message = find_reason(body) or f"the model server answers with status {status}"
    rest = content if isinstance(content, dict) else {}
    return orjson.dumps({**rest, "error": ErrorAnswer(status, message).error})


async def ending_with_error(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a stream of events. One that breaks off between two events says so in another one, before the error.

    An error in the middle of an event would be read as a part of it.
    """
    last = b"\n\n"
    try:
        async for piece in pieces:
            yield piece
            last = (last + piece)[-4:]
    except OSError as error:
        if last.endswith((b"\n\n", b"\r\n\r\n")):
            message = f"the replica broke off: {type(error).__name__}: {error}"
            yield ErrorAnswer(502, message, "BadGateway").event
        raise
