"""The core over HTTP by aiohttp: users, bodies, streams."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import cast

from aiohttp import WSMsgType, web
from multidict import CIMultiDict

from steelyard_local_kubernetes.apiserver.access.authentication import Authentication
from steelyard_local_kubernetes.apiserver.access.users import ANONYMOUS, User
from steelyard_local_kubernetes.apiserver.core import Core
from steelyard_local_kubernetes.apiserver.errors import Refusal, bad_request
from steelyard_local_kubernetes.apiserver.front import Connection
from steelyard_local_kubernetes.apiserver.health import HEALTH
from steelyard_local_kubernetes.apiserver.intake import Intake, Share, read_body
from steelyard_local_kubernetes.apiserver.logs import TEXT
from steelyard_local_kubernetes.apiserver.messages import Request, Response, json_response
from steelyard_local_kubernetes.apiserver.streams.passing import pass_on
from steelyard_local_kubernetes.apiserver.streams.session import Session

_OPEN = frozenset(f"/{path}" for path in HEALTH) | {"/version", "/version/"}

PIECE = 64 << 10
"""Bytes of an answer that are handed to a connection at once."""
WRITE_SECONDS = 60.0
"""Time in which a caller has to take a piece of an answer."""
MESSAGE_BYTES = 8 << 20
"""Most bytes of a message over WebSocket: what a caller writes into a program at once."""
WARNINGS = 100  # at most: clients refuse an answer of more than 128 headers
WARNINGS_LENGTH, WARNING_LENGTH = 4096, 256  # characters: of all, and of each where all are longer
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SESSION = re.compile(r"/api/v1/namespaces/[^/]+/pods/[^/]+/(exec|attach|portforward)")
_PROXIED = re.compile(r"(/api/v1/namespaces/[^/]+/(?:pods|services)/[^/]+/proxy)(/.*)?")


class Transport:
    """One core's HTTP side."""

    def __init__(self, core: Core, authentication: Authentication) -> None:
        self._core, self._authentication, self._intake = core, authentication, Intake()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        user = self._user(request)
        if user is None:
            # A probe with an old token is answered: it asks whether the server is up, and not who it is.
            if request.path not in _OPEN:
                refusal = Refusal(401, "Unauthorized", "Unauthorized")
                return _whole(json_response(refusal.status(), 401))
            user = ANONYMOUS
        try:
            user = self._core.effective_user(user, request.headers.items())
        except Refusal as error:
            return _whole(json_response(error.status(), error.code))
        try:
            with self._intake.admit(user) as share:
                return await self._serve_admitted(request, user, share)
        except Refusal as error:
            response = json_response(error.status(), error.code)
            response.retry_after = (error.details or {}).get("retryAfterSeconds", 0)
            answer = _whole(response)
            # The rest of the body was not read: on this connection it would be taken for the next request.
            answer.force_close()
            return answer

    async def _serve_admitted(self, request: web.BaseRequest, user: User, share: Share) -> web.StreamResponse:
        if proxied := _PROXIED.fullmatch(request.rel_url.raw_path):
            return await self._proxy(request, user, proxied[1], proxied[2] or "")
        body = await read_body(request, share)
        if isinstance(request.protocol, Connection):
            request.protocol.expects_head = True
        await self._intake.turn(len(body))
        incoming = _incoming(request, user, body)
        # SPDY, which older clients speak, comes by POST: the answer there says that only WebSocket is served.
        if request.method in ("GET", "POST") and _SESSION.fullmatch(request.path):
            session = await self._core.session(incoming)
            if isinstance(session, Response):
                return _whole(session)
            if isinstance(request.protocol, Connection):
                request.protocol.expects_head = False
            return await _run_session(request, session)
        response = await self._core.handle(incoming)
        if isinstance(response.body, bytes) and len(response.body) <= PIECE:
            return _whole(response)
        if not isinstance(response.body, bytes):
            return await _stream(request, response)
        with self._intake.sending(user, len(response.body)):
            return await _stream(request, response)

    async def _proxy(
        self, request: web.BaseRequest, user: User, prefix: str, path: str
    ) -> web.StreamResponse:
        """Pass a request on to a program of a Pod: its body is read as the program reads it."""
        upstream = await self._core.upstream(_incoming(request, user, b""))
        if isinstance(upstream, Response):
            return _whole(upstream)
        if not path and request.method in ("GET", "HEAD"):
            # Links of a page are relative to its folder.
            query = request.rel_url.raw_query_string
            where = f"{prefix}/{'?' + query if query else ''}"
            return web.Response(status=301, headers={"Location": where})
        try:
            return await pass_on(request, upstream, prefix, path or "/")
        except Refusal as refusal:
            return _whole(json_response(refusal.status(), refusal.code))

    def _user(self, request: web.BaseRequest) -> User | None:
        """Return who sent a request, None for a token that is not good."""
        certificate = request.transport.get_extra_info("peercert") if request.transport else None
        return self._authentication.user(certificate, request.headers.get("Authorization", ""))


def _incoming(request: web.BaseRequest, user: User, body: bytes) -> Request:
    headers = {name.lower(): value for name, value in request.headers.items()}
    query = dict(request.query)
    several = _several(request, query)
    return Request(request.method, request.path, query, headers, body, user, several=several)


def _several(request: web.BaseRequest, query: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """All values of the parameters, where one of them came several times."""
    if len(request.query) == len(query):
        return {}
    return {name: tuple(request.query.getall(name)) for name in query}


async def _run_session(request: web.BaseRequest, session: Session) -> web.StreamResponse:
    """A session over WebSocket, until it or its caller is gone."""
    offered = [name.strip() for name in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if name]
    if offered and not set(offered) & set(session.protocols):
        text = f"none of the protocols {', '.join(offered)} is served: use {' or '.join(session.protocols)}"
        return _whole(json_response(bad_request(text).status(), 400))
    socket = web.WebSocketResponse(protocols=session.protocols, max_msg_size=MESSAGE_BYTES)
    await socket.prepare(request)

    async def messages() -> AsyncIterator[bytes]:
        async for message in socket:
            if message.type == WSMsgType.BINARY:
                yield message.data
            elif message.type == WSMsgType.TEXT:  # what the Python client makes of text
                yield message.data.encode()

    with suppress(ConnectionError):
        await session.run(socket.ws_protocol, messages(), socket.send_bytes)
    await socket.close()
    return socket


def _headers(response: Response) -> list[tuple[str, str]]:
    headers = [("Cache-Control", "no-cache, private")]
    if response.content_type:
        headers.append(("Content-Type", response.content_type))
    for warning in limit_warnings(response.warnings):
        # The text of a Warning is a quoted string (RFC 7234); 299 is the code that Kubernetes' clients show.
        # Names of fields in it are the client's: a line's end among them would end the header.
        text = _CONTROL.sub(" ", warning).replace("\\", "\\\\").replace('"', '\\"')
        headers.append(("Warning", f'299 - "{text}"'))
    if response.retry_after:
        headers.append(("Retry-After", str(response.retry_after)))
    return headers


def limit_warnings(warnings: Iterable[str]) -> Iterator[str]:
    """Yield different warnings alone, and no more than a real server sends: clients refuse answers with very many
    headers. Too long ones are cut only where all together are too long.
    """
    different = dict.fromkeys(warnings)
    most = WARNING_LENGTH if sum(map(len, different)) > WARNINGS_LENGTH else None
    length = 0
    for number, warning in enumerate(different):
        if length >= WARNINGS_LENGTH or number >= WARNINGS:
            return
        yield warning[:most]
        length += len(warning[:most])


def _whole(response: Response) -> web.Response:
    return web.Response(
        body=cast("bytes", response.body), status=response.status, headers=CIMultiDict(_headers(response))
    )


async def _stream(request: web.BaseRequest, response: Response) -> web.StreamResponse:
    """Chunks as they come; the stream is closed when the client is gone, or takes nothing of a whole for too long."""
    answer = web.StreamResponse(status=response.status, headers=CIMultiDict(_headers(response)))
    stream: AsyncIterator[bytes]
    longest: float | None
    if isinstance(response.body, bytes):
        answer.content_length = len(response.body)
        stream, longest = _pieces(response.body), WRITE_SECONDS
    else:
        answer.enable_chunked_encoding()
        # Somebody may read a log slowly, page by page; a watch that is not read keeps what has changed since.
        stream, longest = response.body, None if response.content_type == TEXT else WRITE_SECONDS
    await answer.prepare(request)
    async with aclosing(stream) as chunks:  # type: ignore[type-var]
        try:
            async for chunk in chunks:
                async with asyncio.timeout(longest):
                    await answer.write(chunk)
            async with asyncio.timeout(longest):
                await answer.write_eof()
        except TimeoutError:
            # What is not sent yet would be kept for as long as the caller likes.
            if request.transport is not None:
                request.transport.abort()
        except (ConnectionError, asyncio.CancelledError):
            # A client that is gone is the usual end of a watch; anything else is an error, and is not swallowed.
            if request.transport is not None and not request.transport.is_closing():
                raise
    return answer


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """Yield a large answer piece by piece: the connection holds no copy of the whole."""
    for start in range(0, len(body), PIECE):
        yield body[start : start + PIECE]
