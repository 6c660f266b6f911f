"""Protocol that stands before the one of an HTTP server, and bounds what a caller can make it hold.

It reads the frame of every request (where its headers end, where its body ends), and hands the bytes on unchanged. A
caller is answered and dropped that sends too large a head, too many headers, or too slowly; that does not take its
answer; or that names another Host. When there are too many connections, the one goes that has let the server wait for
longest: connections whose answer is being made stay, unless their callers asked for more before they had it.
"""

import asyncio
import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import httptools

from steelyard_common.serving.hosts import Hosts
from steelyard_common.serving.limits import HttpLimits, default_limits

LINGER_SECONDS = 1.0
"""Time in which a refused caller may read why, before its connection ends."""
LINGER_BYTES = 64 << 10
"""Bytes that are read of a refused caller, which may be about to send them before it reads why."""
ACCEPTED = 16
"""New connections of one server in one turn of the event loop: the others are served in between."""
QUEUED = 2048
"""New connections that may wait in the system. A caller beyond them tries again after a second."""
_REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}

_END = b"\r\n\r\n"

Inner = Callable[[], asyncio.Protocol]
"""Makes the protocol of a server, once for every connection."""
RefusalBody = Callable[[int, str], bytes]
"""Makes the body of a refusal, in JSON, from its status and what is wrong."""


def detail(_: int, words: str) -> bytes:
    """Return the body of a refusal as most servers have it."""
    return json.dumps({"detail": words}).encode()


@dataclass
class Door:
    """The connections of one server. It makes the protocol of each: `loop.create_server` takes it as its factory."""

    inner: Inner
    works: Callable[[Any], bool] = lambda _: False
    """Tells of a protocol of the server whether it makes an answer."""
    begun: Callable[[Any], bool] = lambda _: False
    """Tells of a protocol that makes an answer whether some of it may be sent."""
    hosts: Hosts = field(default_factory=Hosts)
    limits: HttpLimits = field(default_factory=default_limits)
    body: RefusalBody = detail
    open: "dict[BoundedConnection, None]" = field(default_factory=dict)
    """The connections; the one that was heard last is the last one."""
    leaving: "dict[BoundedConnection, None]" = field(default_factory=dict)
    """Refused connections whose callers may still read why; the one that was refused first is the first one."""

    closed: bool = False
    """True once the server ends: new connections end at once."""

    def __call__(self) -> "BoundedConnection":
        return BoundedConnection(self)

    def admit(self, connection: "BoundedConnection") -> bool:
        """Take a connection, and drop the one that waits for its caller for longest if there are too many.

        Where all are at work, the one goes that asked for much at once, and was heard longest ago.
        """
        if len(self.open) >= self.limits.most_connections():
            waiting = next((other for other in self.open if other.waits), None)
            waiting = waiting or next((other for other in self.open if other.pipelines), None)
            if waiting is None:
                return False
            waiting.drop()
        self.open[connection] = None
        return True

    def dismiss(self, connection: "BoundedConnection") -> None:
        """Let a refused connection stay for a moment; it takes no place, and ends the oldest of them."""
        self.open.pop(connection, None)
        if len(self.leaving) >= self.limits.most_connections() // 2:
            next(iter(self.leaving)).drop()
        self.leaving[connection] = None

    def close(self) -> None:
        """End the connections whose callers the server waits for, those that it has refused, and new ones."""
        self.closed = True
        for connection in [other for other in self.open if other.waits] + list(self.leaving):
            connection.drop()

    def note_head(self, connection: "BoundedConnection") -> None:
        if self.open.pop(connection, self) is None:
            self.open[connection] = None


def bind(host: str, port: int, backlog: int = QUEUED) -> socket.socket:
    """Return a socket that listens; `::` stands for both families. Raises OSError, which names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    return socket.create_server((host, port), family=family, backlog=backlog, dualstack_ipv6=both)


def listen_for_many(fd: int) -> None:
    """Let more connections wait than the event loop accepts in one turn, which has one number for both."""
    with socket.socket(fileno=os.dup(fd)) as listening:
        listening.listen(QUEUED)


class _Part(Enum):
    """Part of a request that a caller is sending."""

    HEAD = auto()
    BODY = auto()
    NOTHING = auto()
    """A request is whole, and the next one has not begun."""
    FRAMES = auto()
    """Frames of a WebSocket, whose own pings find out who is gone."""


class _Refused(Exception):
    """The caller is to be refused: the parser goes on no further."""


class BoundedConnection(asyncio.Protocol):
    """One connection."""

    inner: asyncio.Protocol
    """Protocol of the server; made when the connection has a place."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._limits = door.limits
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpRequestParser | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._part = _Part.HEAD
        self._between = 0
        """Bytes since the head began, or since the last piece of the body."""
        self._moved = 0
        """Bytes of the body since the timer was set."""
        self._begun = self._body = 0
        """Requests, and bytes of bodies, in the last piece of what came."""
        self._head = self._headers = 0
        self._refusal: tuple[int, str] | None = None
        self._websocket = False
        self._made = self._refused = False
        self._after = 0
        """Bytes that came after the refusal."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's transports are no subclass of asyncio's
        if self._door.closed:
            self.drop()
            return
        if not self._door.admit(self):
            self._refuse(503, f"there are {self._limits.most_connections()} connections, all of them at work")
            return
        self._parser = httptools.HttpRequestParser(self)
        self.inner = self._door.inner()
        self._made = True
        self._wait(self._limits.head_seconds)
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            self._after += len(data)
            if self._after > LINGER_BYTES and self._transport is not None:
                self._transport.pause_reading()  # to read on would keep the others waiting
            return
        self._door.note_head(self)
        if self._part is not _Part.FRAMES:
            self._read(data)
            if self._refusal is not None:
                self._refuse(*self._refusal)
                return
        self.inner.data_received(data)
        if self._part is _Part.FRAMES and self._transport is not None:
            self._leave(self._transport)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received() if self._made else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._parser = None  # it holds this object
        for timer in (self._timer, self._taking):
            if timer is not None:
                timer.cancel()
        if self._made:
            self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._made:
            self._watch_taking()
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        if self._made:
            if self._taking is not None:
                self._taking.cancel()
                self._taking = None
            self.inner.resume_writing()

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._part is _Part.NOTHING:
            self._wait(self._limits.head_seconds)
        self._part = _Part.HEAD
        self._between = self._head = self._headers = 0
        self._begun += 1
        if self._begun > self._limits.requests:
            self._fault(
                400, f"requests: more than {self._limits.requests} came before the answer to the first"
            )
        self._websocket = False

    def on_url(self, url: bytes) -> None:
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers += 1
        self._count(len(name) + len(value) + 4)
        if self._headers > self._limits.headers:
            self._fault(431, f"headers: are more than {self._limits.headers}")
        name = name.lower()
        if name == b"host" and not self._door.hosts.known(text := value.decode("latin-1")):
            self._fault(421, self._door.hosts.refusal(text))
        self._websocket |= name == b"upgrade" and value.strip().lower() == b"websocket"

    def on_headers_complete(self) -> None:
        self._part = _Part.BODY
        self._between = self._moved = 0
        self._wait(self._limits.stall_seconds)

    def on_chunk_header(self) -> None:
        self._between = 0

    def on_body(self, body: bytes) -> None:
        self._between = 0
        self._moved += len(body)
        self._body += len(body)

    def on_message_complete(self) -> None:
        self._part = _Part.NOTHING
        self._between = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # What it does of itself.

    @property
    def waits(self) -> bool:
        """Return whether the server waits for the caller, and not the caller for the server."""
        if self._part is _Part.FRAMES:
            return False
        assert self._transport is not None
        unread = self._transport.get_write_buffer_size() > 0
        return self._part is not _Part.NOTHING or unread or not self._door.works(self.inner)

    @property
    def pipelines(self) -> bool:
        """Return whether the caller asked again before it had its answer, as honest ones hardly do."""
        return self._part is _Part.NOTHING and self._begun > 1

    def drop(self) -> None:
        """End the connection at once."""
        self._forget()
        if self._transport is not None:
            self._transport.abort()

    def _forget(self) -> None:
        self._door.open.pop(self, None)
        self._door.leaving.pop(self, None)

    def _leave(self, transport: asyncio.Transport) -> None:
        """Count the connection no longer if the server has given it to another protocol, as uvicorn does."""
        if transport.get_protocol() is not self:
            self._made = False  # the server's protocol has let it go itself
            self.connection_lost(None)

    def _read(self, data: bytes) -> None:
        """Follow the frame of the requests in the bytes."""
        assert self._parser is not None
        if self._part is _Part.NOTHING:
            self._wait(self._limits.head_seconds)
        self._between += len(data)
        self._begun = self._body = 0
        piece = data
        while data:
            try:
                self._parser.feed_data(data)
                data = b""
            except httptools.HttpParserUpgrade as upgrade:
                if self._websocket:
                    self._part = _Part.FRAMES
                    return
                # The server answers a wish for anything else as if it was not there.
                data = data[upgrade.args[0] :]
            except httptools.HttpParserError:
                if self._refusal is None:
                    # The server's own parser says what is wrong; what follows has no frame to go by.
                    self._end_soon()
                return
        if self._begun and self._part is _Part.HEAD:
            # The parser does not tell where the last head began, and nothing of it may be whole.
            self._between = len(piece) - len(piece[: piece.rfind(_END) + 1]) - self._body
        if self._part is not _Part.NOTHING and self._between > self._limits.head_bytes:
            self._refusal = (431, f"headers: have more than {self._limits.head_bytes} bytes")

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > self._limits.head_bytes:
            self._fault(431, f"headers: have more than {self._limits.head_bytes} bytes")

    def _fault(self, status: int, detail: str) -> None:
        """Refuse the caller. Raises within the parser, which calls nothing more for what follows in the piece."""
        self._refusal = (status, detail)
        raise _Refused

    def _wait(self, seconds: float) -> None:
        """Expect the caller's next step within this time."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._late)

    def _late(self) -> None:
        assert self._transport is not None
        reading = self._transport.is_reading()
        if self._part is _Part.BODY:
            # The server may read nothing itself for a while: that is not the caller's delay.
            if not reading or self._moved >= self._limits.stall_bytes:
                self._moved = 0
                self._wait(self._limits.stall_seconds)
            else:
                seconds = self._limits.stall_seconds
                self._refuse(408, f"body: less than {self._limits.stall_bytes} bytes came in {seconds:g} s")
        elif not reading:
            self._wait(self._limits.head_seconds)
        elif self._part is _Part.HEAD and self._headers == self._head == self._between == 0:
            self.drop()  # nothing was asked, so that nothing is answered
        else:
            self._refuse(408, f"headers: were not whole within {self._limits.head_seconds:g} s")

    def _watch_taking(self) -> None:
        """Expect that the caller takes some of its answer."""
        assert self._transport is not None
        if self._taking is not None:
            self._taking.cancel()
        left = self._transport.get_write_buffer_size() - self._limits.stall_bytes
        self._taking = self._loop.call_later(self._limits.stall_seconds, self._not_taken, left)

    def _not_taken(self, left: int) -> None:
        assert self._transport is not None
        self._taking = None
        if self._transport.get_write_buffer_size() > left:
            self.drop()
        else:
            self._watch_taking()

    def _refuse(self, status: int, words: str) -> None:
        """Say why, unless another answer is on its way, and end the connection."""
        assert self._transport is not None
        works = self._made and self._door.works(self.inner)
        if works and self._part is _Part.BODY and not self._door.begun(self.inner):
            self._made = works = False
            self.inner.connection_lost(ConnectionAbortedError(words))
        if not works and not self._transport.is_closing():
            body = self._door.body(status, words)
            head = (
                f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            self._transport.write(head.encode() + body)
        self._end_soon()

    def _end_soon(self) -> None:
        """End once the caller could read the answer: at once, it would lose that with the bytes on their way."""
        self._refused = True
        self._door.dismiss(self)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(LINGER_SECONDS, self.drop)
