"""Parts that every server of OpenAI's API has: the form of its errors, and the list of its models.

The servers are the one of hosted models, the mock and the API's door to sessions. OpenAI's clients choose the class of
an exception by the status, and read `message`, `type`, `param` and `code` of the error.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from steelyard_common.serving.aiohttp_server import REFUSAL_BODY

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
PREFIXES = ("/v1", "/openai/v1")
"""Beginnings of the paths of OpenAI's API; the second is that of the published mock."""
_CODES = {401: "invalid_api_key", 405: "method_not_supported", 429: "rate_limit_exceeded"}
"""OpenAI's codes of errors whose status says all."""
_WRONG_KEY = "Incorrect API key provided"
"""OpenAI's words. Older clients, such as LiteLLM 1.53, take a 401 without them for a wrong request."""
_FIELD = re.compile(r"([A-Za-z_][\w.-]*): ")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ErrorAnswer:
    """An error as OpenAI's clients read it; other fields follow from the status and the message."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    """Field of the request that is wrong; by default the one that the message begins with."""
    kind: str = ""
    retry_after: str = ""

    @property
    def error(self) -> dict[str, str | None]:
        named = _FIELD.match(self.message) if self.status == 400 else None
        return {
            "message": f"{_WRONG_KEY}: {self.message}" if self.status == 401 else self.message,
            "type": self.kind or _kind(self.status),
            "param": self.param or (named[1] if named else None),
            "code": self.code or _CODES.get(self.status),
        }

    @property
    def body(self) -> bytes:
        return orjson.dumps({"error": self.error})

    @property
    def event(self) -> bytes:
        """The error as the last event of a stream that has begun with status 200."""
        return b"data: %s\n\n" % self.body

    def response(self) -> web.Response:
        headers = {"Retry-After": self.retry_after} if self.retry_after else {}
        return web.Response(body=self.body, status=self.status, headers=headers, content_type=JSON)


class Refusal(Exception):
    """A call that gets an error in place of an answer."""

    def __init__(self, answer: ErrorAnswer) -> None:
        super().__init__(answer.message)
        self.answer = answer


def model_not_found(model: str, models: Sequence[str]) -> ErrorAnswer:
    """Return the answer to a call that names a model which is not served."""
    message = f"the model {model[:200]!r} does not exist here; there is {', '.join(models)}"
    return ErrorAnswer(404, message, "model_not_found", "model")


def check_content_type(request: web.Request) -> None:
    """Refuse a form before its body is read, which may be a large file. Raises Refusal.

    Any other type may hold JSON: `curl -d` names none that fits.
    """
    if request.content_type.startswith("multipart/"):
        message = f"Content-Type: {request.content_type!r} should be {JSON}"
        raise Refusal(ErrorAnswer(415, message, param="Content-Type"))


def openai_app(models: Sequence[str], owner: str, most_bytes: int) -> web.Application:
    """Make an application that refuses in OpenAI's form, and serves the list of its models, and each of them."""
    app = web.Application(client_max_size=most_bytes, middlewares=[errors_in_openai_form])
    app[REFUSAL_BODY] = lambda status, words: ErrorAnswer(status, words).body
    _add_models(app, models, owner)
    return app


def _add_models(app: web.Application, models: Sequence[str], owner: str) -> None:
    """Add the routes of models; a name may hold slashes."""
    entries = {name: {"id": name, "object": "model", "created": 0, "owned_by": owner} for name in models}

    async def several(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": list(entries.values())})

    async def one(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in entries:
            return model_not_found(name, models).response()
        return web.json_response(entries[name])

    for prefix in PREFIXES:
        app.router.add_get(f"{prefix}/models", several)
        app.router.add_get(f"{prefix}/models/{{name:.+}}", one)


@web.middleware
async def errors_in_openai_form(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer in OpenAI's form whatever a handler raises, and paths without a handler."""
    try:
        return await handler(request)
    except Refusal as refusal:
        return refusal.answer.response()
    except web.HTTPException as error:
        if error.status < 400:
            raise
        response = ErrorAnswer(error.status, _words(request, error)).response()
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
        return response
    except Exception:  # the outermost edge of the server: any failure becomes an answer
        if request.writer.output_size > 0:
            raise  # the answer has begun
        _log.exception("%s %s failed", request.method, request.path)
        return ErrorAnswer(500, "the server failed; its log says why").response()


def _words(request: web.Request, error: web.HTTPException) -> str:
    match error:
        case web.HTTPNotFound():
            return f"there is no {request.method} {request.path[:200]} here"
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            return f"{request.path[:200]} takes {allowed}, and not {request.method}"
    return error.text or error.reason


def _kind(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"
