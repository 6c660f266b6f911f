"""The ASGI application of the API: finds a request's route, checks the caller, and lets the handler answer.

`make_app(platform)` makes it; `serve.py` serves it. There is no other middleware, and nothing is ever redirected.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from typing import get_args

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.api.http.access import Access, Administrator, AnyPrincipal, Grant, authenticate
from steelyard.api.http.access_log import CALLER, record_access
from steelyard.api.http.context import RequestContext, own_address
from steelyard.api.http.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    Invalid,
    NotAllowed,
    NotFound,
    NotImplementedYet,
    Unavailable,
)
from steelyard.api.http.reply import Reply
from steelyard.api.http.routing import Match, Route, Router
from steelyard.api.inference_sessions.errors import is_endpoint, session_response
from steelyard.api.inference_sessions.replicas import Replicas
from steelyard.api.kinds import KINDS
from steelyard.api.platform import Api, Platform
from steelyard.api.registry.errors import PREFIX, registry_response
from steelyard.api.registry.routes import registry_routes
from steelyard.api.routes import routes
from steelyard.broker.log import LogError
from steelyard.sqlite import DatabaseError
from steelyard.telemetry.tracing import Attribute, Span, span
from steelyard.views.view import ViewError
from steelyard_common.disk_space import no_room
from steelyard_common.errors import ContentError
from steelyard_evaluation.storage.store import BadLocation, ObjectMissing, StorageError
from steelyard_schema.account import APIResource
from steelyard_schema.entities import PLURALS

__all__ = ["App", "Platform", "make_app"]

_log = logging.getLogger(__name__)
_NO_CALLER = Access(None)
_ABSENT = frozenset(get_args(APIResource)) - {*(PLURALS[kind.name] for kind in KINDS), "accounts", "*"}
"""Resources of the published API that this one lacks. Clients repeat a request that is answered 404, but not 501."""
_UNTRACED = frozenset({"/health", "/readyz", "/metrics", "none"})
"""Paths that something asks for every few seconds, and those that are not there: no trace begins with them."""
NO_ROOM_RETRY_SECONDS = 5
"""Pause that a client is asked for while the platform's disk is full."""
_ENGINES = (DatabaseError, AccountsDatabaseError, LogError, StorageError, ViewError)


@cache
def _router() -> Router:
    """Return the table of all routes. They have no state, and took half of the time that it takes to make an App."""
    return Router([*routes(), *registry_routes()])


class App:
    """Application of one API process. Its background tasks run while `running` is entered."""

    def __init__(self, api: Api, timer: Callable[[], float] = time.perf_counter) -> None:
        self.api = api
        self._timer = timer
        self.router = _router()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "websocket":
                await self._websocket(scope, receive, send)
            case "lifespan":
                await receive()
                async with self.running():
                    await send({"type": "lifespan.startup.complete"})
                    await receive()
                await send({"type": "lifespan.shutdown.complete"})

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Future[None]"]:
        """Run the background tasks; yield a future that fails when one of them does."""
        api = self.api
        await api.completeness.begin()
        await api.relay.begin()
        parts = (api.outcomes.run, api.relay.run, api.relay.keep_lease, api.quarantine.run)
        tasks = [asyncio.create_task(run()) for run in parts]
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for task in tasks:
            task.add_done_callback(lambda task: self._task_ended(task, ended))
        api.healthy = True
        try:
            yield ended
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # What is not noted here is found at the next start: the outbox and the log have it.
            with suppress(*_ENGINES):
                await api.relay.close()
            await api.replicas.close()

    def _task_ended(self, task: "asyncio.Task[None]", ended: "asyncio.Future[None]") -> None:
        self.api.healthy = False
        if not ended.done() and not task.cancelled() and (error := task.exception()) is not None:
            ended.set_exception(error)
            ended.exception()  # marked as retrieved, or asyncio warns where nothing awaits the future

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = self._timer()
        match = self.router.find(scope["method"], scope["path"])
        route = match.route
        method, path = (route.method, route.path) if route else ("", "none")
        reply = Reply(self.api.relay)
        try:
            with self._span(scope, method, path) as span:
                response = await self._response(match, Request(scope, receive), reply)
                span.set("http.response.status_code", response.status_code)
                if response.status_code >= 500:
                    span.fail(str(response.status_code))
                try:
                    await reply.deliver(response, scope, receive, send)
                finally:
                    seconds = self._timer() - began
                    self.api.metrics.count_answer(method, path, response.status_code, seconds)
                    if self.api.platform.settings.access_log:
                        record_access(match, scope, response.status_code)
        except ClientDisconnect:
            return
        finally:
            reply.close()

    @contextmanager
    def _span(self, scope: Scope, method: str, path: str) -> Iterator[Span]:
        """Open the span of a request, below the caller's; what the request leads to belongs to it."""
        traceparent = next((value for name, value in scope["headers"] if name == b"traceparent"), b"")
        attributes: dict[str, Attribute] = {
            "http.request.method": scope["method"],
            "http.route": path,
            "url.path": scope["path"],
        }
        named = f"{method} {path}".strip()
        root = path not in _UNTRACED
        with span(
            named, traceparent.decode("latin-1"), kind="server", root=root, attributes=attributes
        ) as opened:
            scope["traceparent"] = opened.traceparent
            yield opened

    async def _response(self, match: Match, request: Request, reply: Reply) -> Response:
        """Return the handler's response, or that of an error. Raises ClientDisconnect if the client is gone."""
        try:
            access = await self._access(match, request.scope)
            assert match.route is not None
            check_parameters(match.route, request.query_params)
            return await match.route.handler(self._context(match.route, match, request, access, reply))
        except ClientDisconnect:
            raise
        except asyncio.CancelledError:
            # The process is told to end, and has waited for this request as long as it may. A 500 would end the client.
            reply.fail()
            return self._answer(Unavailable("the API ends, and may begin again"), request.scope)
        except Exception as error:  # noqa: BLE001 - the outermost edge: any failure becomes an answer
            # The client learns nothing of what was accepted before the error, so the same request again is a repeat.
            reply.fail()
            return self._answer(error, request.scope)

    def _answer(self, error: Exception, scope: Scope) -> Response:
        try:
            address = own_address(scope, self.api.platform.settings)
        except BadRequest:
            address = ""
        return answer_to(error, scope["path"], address)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = self.router.find("WEBSOCKET", scope["path"])
        socket = WebSocket(scope, receive, send)
        try:
            access = await self._access(match, scope)
            assert match.route is not None
            if self.api.platform.settings.access_log:
                record_access(match, scope, 101)
            await match.route.handler(
                self._context(match.route, match, socket, access, Reply(self.api.relay))
            )
        except Exception as error:  # noqa: BLE001 - the outermost edge
            refusal = self._answer(error, scope)
            if self.api.platform.settings.access_log:
                record_access(match, scope, refusal.status_code)
            if socket.application_state is WebSocketState.CONNECTING:
                await socket.send_denial_response(refusal)
            else:  # accepted: an HTTP response is no longer possible
                # 1011 is the code of WebSockets for an error of the server.
                with suppress(WebSocketDisconnect):
                    await socket.close(1011)

    async def _access(self, match: Match, scope: Scope) -> Access:
        """Return the caller's rights, checked against the route. Raises ApiError, also if there is no route."""
        if match.route is None:
            if match.methods:
                allowed = ", ".join(sorted(match.methods - {"WEBSOCKET"}))
                raise NotAllowed(f"this path takes {allowed}", headers={"Allow": allowed})
            first = scope["path"].removeprefix("/v0/").partition("/")[0]
            # dyff-client repeats a request that is answered 404, because an entity may not be visible yet; 501 ends it
            # at once.
            if first in _ABSENT:
                raise NotImplementedYet(f"{first} are not served here yet")
            raise NotFound(f"there is no {scope['path']}{_hint(scope['path'])}")
        check = match.route.check
        if not isinstance(check, Grant | Administrator | AnyPrincipal):
            return _NO_CALLER
        access = await authenticate(
            self.api.tokens,
            scope["headers"],
            self.api.platform.clock(),
            basic=scope["path"].startswith(PREFIX),
        )
        scope[CALLER] = access
        if isinstance(check, Administrator):
            if not access.administrator:
                raise Forbidden("this takes an administrator's grant")
            return access
        if isinstance(check, AnyPrincipal):
            return access
        # Only whether the caller may do this to anything at all: the handler checks the entity, once it is loaded.
        reach = access.reach(check)
        if not reach.accounts and not reach.entities:
            raise Forbidden(f"the token lacks {check.resource}/{check.function}")
        return access

    def _context(
        self, route: Route, match: Match, connection: HTTPConnection, access: Access, reply: Reply
    ) -> RequestContext:
        return RequestContext(
            self.api, route.check, match.values, connection, self.api.platform.clock(), access, reply
        )


def check_parameters(route: Route, given: Mapping[str, str]) -> None:
    """Raise Invalid for a parameter that a list does not have: a misspelt filter would leave nothing out."""
    if not route.refuses_parameters:
        return
    known = [parameter.name for parameter in route.parameters]
    for name, text in given.items():
        # An empty parameter counts as absent.
        if text and name not in known:
            there = f"there are {', '.join(known)}" if known else "there are none"
            raise Invalid(f"{name[:80]}: no parameter of {route.path}; {there}", field=name[:80])


def make_app(platform: Platform, replicas: Replicas | None = None) -> App:
    """Return the application of a platform; `replicas` replaces the connections to inference sessions in tests."""
    return App(Api(platform, replicas))


def answer_to(error: Exception, path: str, address: str = "") -> Response:
    """Return the response to a request that raised an error; errors that are not the request's go to the log."""
    known = _to_api_error(error, path)
    if path.startswith(PREFIX):
        return registry_response(known, address)
    return session_response(known) if is_endpoint(path) else known.response()


def _to_api_error(error: Exception, path: str) -> ApiError:
    """Return the error as one that the API answers."""
    if isinstance(error, ApiError):
        return error
    if no_room(error):
        _log.warning("%s: %s", path, error)
        detail = f"no room is left on the platform's disk, and nothing was accepted: {error}"
        return Unavailable(detail, retry_after=NO_ROOM_RETRY_SECONDS)
    # Before the engines' errors, of which these are a kind: the engine works, and would refuse the same again.
    if isinstance(error, ContentError):
        return _content_refused(error, path)
    if isinstance(error, _ENGINES):
        _log.warning("%s: %s", path, error)
        return Unavailable(f"an engine does not answer: {error}")
    _log.exception("%s failed", path, exc_info=error)
    return ApiError("the API failed; its log says why")


def _content_refused(error: ContentError, path: str) -> ApiError:
    """Return the error for content that a working engine refused: a repeat would not help, so it is not a 503."""
    if isinstance(error, BadLocation):
        return BadRequest(str(error))
    if isinstance(error, ObjectMissing):
        return NotFound(str(error))
    _log.error("%s failed", path, exc_info=error)
    return ApiError(f"the platform's database or log cannot take this request: {error}")


def _hint(path: str) -> str:
    """Return what may be wrong with a path that is not one of the API's."""
    if path.startswith(PREFIX):
        return (
            "; a repository's name is artifacts/<id of an artifact>, without the name that `helm push` adds"
        )
    return "" if path.startswith("/v0/") else "; the address of the API ends in /v0"
