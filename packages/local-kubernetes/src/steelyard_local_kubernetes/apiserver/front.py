"""Connections of the API server: what one may send before it has asked for something, and how long that may take.

Whoever reaches the port may do a bounded amount, without a token. A connection that has no request in progress is
dropped when it has sent too much for a request's head, when it has waited too long, and, the longest waiting first,
when there are too many.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

HEAD_BYTES = 64 << 10
"""Most bytes of a request's line and headers."""
HEADERS, LINE_BYTES = 128, 8190
"""Most headers of a request, and bytes of its line and of each header."""
IDLE_SECONDS = 75.0
"""Time in which a connection has to send a whole request's head, the first or the next one."""
HANDSHAKE_SECONDS = 10.0
WAITING = 128
"""Most connections without a request in progress; as many may be at their handshake."""
CONNECTIONS = 4096
"""Most connections of all."""
_RETRY_SECONDS = 0.1
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connection(RequestHandler):
    """A connection. `expects_head` says that what comes next belongs to a request that has not begun."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.expects_head = True
        self._head_bytes = self._requests = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._request_count != self._requests:
            self._requests, self._head_bytes, self.expects_head = self._request_count, 0, False
        elif self.expects_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse()

    def _refuse(self) -> None:
        if self.transport is not None and isinstance(self.transport, asyncio.Transport):
            text = f"a request has at most {HEAD_BYTES} bytes of headers, each of at most {LINE_BYTES}"
            head = f"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: {len(text)}\r\n"
            self.transport.write(f"{head}Connection: close\r\n\r\n{text}".encode())
        self.force_close()


class Front(web.Server):
    """aiohttp's server with bounds; `serve` accepts connections until it is cancelled."""

    def __init__(self, answer: Answer, *, idle_seconds: float = IDLE_SECONDS, waiting: int = WAITING) -> None:
        self._fields: dict[str, Any] = {
            "access_log": None,
            # A piece of 64 KiB unpacks to 64 MiB in one step, before anybody could count it.
            "auto_decompress": False,
            "keepalive_timeout": idle_seconds,
            "lingering_time": 2.0,
            "max_line_size": LINE_BYTES,
            "max_field_size": LINE_BYTES,
            "max_headers": HEADERS,
        }
        # Cancelled when the client goes: a watch without a reader would else run on until its next change.
        super().__init__(self._handle, handler_cancellation=True, **self._fields)
        self._answer, self._most = answer, waiting
        # Connections without a request in progress, and those at their handshake, each the oldest first.
        self._waiting: dict[RequestHandler, None] = {}
        self._opening: dict[asyncio.Task[None], None] = {}

    def __call__(self) -> RequestHandler:
        return Connection(self, loop=self._loop, **self._fields)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._wait(handler)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._waiting.pop(handler, None)
        super().connection_lost(handler, exc)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._waiting.pop(request.protocol, None)
        try:
            return await self._answer(request)
        finally:
            if request.transport is not None:
                self._wait(request.protocol)

    def _wait(self, handler: RequestHandler) -> None:
        self._waiting[handler] = None
        while len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.force_close()

    async def serve(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        """Accept connections. Not asyncio's own server: it has no bound for those at their handshake."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(listener)
                except OSError:  # no file descriptor is left, or the client has gone
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                self._begin(accepted, context)
                await asyncio.sleep(0)  # else a crowd of callers keeps everything else waiting
        finally:
            for task in list(self._opening):
                task.cancel()

    def _begin(self, accepted: socket.socket, context: ssl.SSLContext) -> None:
        if len(self.connections) >= CONNECTIONS:
            accepted.close()
            return
        task = asyncio.create_task(self._open(accepted, context), name="handshake")
        self._opening[task] = None
        task.add_done_callback(lambda done: self._opening.pop(done, None))
        if len(self._opening) > self._most:
            oldest = next(iter(self._opening))
            del self._opening[oldest]
            oldest.cancel()

    async def _open(self, accepted: socket.socket, context: ssl.SSLContext) -> None:
        # A caller that speaks no TLS, gives up or takes too long is nobody's fault here.
        with suppress(OSError, TimeoutError):
            accepted.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(
                self, accepted, ssl=context, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
