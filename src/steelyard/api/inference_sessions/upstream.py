"""Requests of the API to one replica: HTTP/1.1 with keep-alive, parsed by httptools.

`replicas.py` passes the requests of a session's endpoint on by it. A general client costs several times as much, and
that processor time is taken from a model server on the same machine. One request at a time on a connection; answers
come as they are, with their encoding, whole or in pieces.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import cast

import httptools
from yarl import URL

IDLE_SECONDS = 4.0
"""Seconds that a connection may wait for its next request: servers close idle ones after five seconds and more."""
MAX_HEAD_BYTES = 1 << 16
BUFFERED_BYTES = 1 << 18
"""Bytes of an answer that wait for a slow client; the replica has to wait with the next ones."""


class Unreachable(OSError):
    """No connection to the replica: nothing was sent."""


class Upstream:
    """The connections to one replica."""

    def __init__(self, address: str, verify: Callable[[], Awaitable[None]], connect_seconds: float) -> None:
        """Connect to a base URL; `verify` is awaited before each new connection, and may raise."""
        url = URL(address)
        self._host, self._port = url.host or "", url.port or 80
        self._authority = url.host_port_subcomponent or ""
        self._verify = verify
        self._connect_seconds = connect_seconds
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._closed = False

    async def ask(
        self, method: str, target: str, fields: Mapping[str, str], body: bytes, silence_seconds: float
    ) -> "Answer":
        """Send a request, and return its answer once its head has come; it has to be released.

        Raises Unreachable and what `verify` raises where nothing was sent, and OSError where the replica broke off or
        said nothing for so long.
        """
        connection = self._take_idle() or await self._connect()
        head = [f"{method} {target} HTTP/1.1", f"Host: {self._authority}"]
        head += [f"{name}: {value}" for name, value in fields.items()]
        if body or method != "GET":
            head.append(f"Content-Length: {len(body)}")
        answer = Answer(connection, self._end, silence_seconds)
        self._busy.add(connection)
        connection.send(answer, "\r\n".join([*head, "\r\n"]).encode("latin-1") + body)
        try:
            await answer.wait_for_head()
        except BaseException:
            answer.release()
            raise
        return answer

    def close(self) -> None:
        """Close every connection: answers that are not complete break off."""
        self._closed = True
        for connection in [*self._idle, *self._busy]:
            connection.close()
        self._idle.clear()

    def _take_idle(self) -> "_Connection | None":
        now = asyncio.get_running_loop().time()
        while self._idle:
            # Last in, first out: with little load, the others get old and are closed before their server does it.
            connection = self._idle.pop()
            if connection.usable and connection.idle_since + IDLE_SECONDS > now:
                return connection
            connection.close()
        return None

    async def _connect(self) -> "_Connection":
        await self._verify()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, connection = await loop.create_connection(_Connection, self._host, self._port)
        except (OSError, TimeoutError) as error:
            raise Unreachable(f"cannot connect to {self._authority}: {str(error) or 'timed out'}") from error
        return connection

    def _end(self, connection: "_Connection") -> None:
        self._busy.discard(connection)
        if connection.usable and not self._closed:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
            # Of many connections that one burst opened, the old ones would stay open as long as the newest are used.
            while self._idle[0].idle_since + IDLE_SECONDS < connection.idle_since:
                self._idle.pop(0).close()
        else:
            connection.close()


class Answer:
    """The answer to one request."""

    def __init__(
        self, connection: "_Connection", end: Callable[["_Connection"], None], silence_seconds: float
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """Fields by their names in small letters."""
        self.complete = False
        self._connection = connection
        self._end: Callable[[_Connection], None] | None = end
        self._error: OSError | None = None
        self._pieces: list[bytes] = []
        self._buffered = 0
        self._paused = False
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._silence = silence_seconds
        self._heard = self._loop.time()
        self._alarm = self._loop.call_later(silence_seconds, self._listen)

    @property
    def length(self) -> int | None:
        """Bytes of the body, where the answer announces them."""
        length = self.headers.get("content-length", "")
        return int(length) if length.isdigit() else None

    async def wait_for_head(self) -> None:
        """Wait for the head. Raises OSError."""
        while not self.status:
            await self._more()

    async def read(self) -> bytes:
        """Return the whole body. Raises OSError for one that breaks off."""
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes. Raises OSError where it breaks off."""
        while True:
            if self._pieces:
                yield self._take()
            elif self.complete:
                return
            else:
                await self._more()

    def release(self) -> None:
        """End the request: an answer that is not complete closes its connection."""
        self._alarm.cancel()
        end, self._end = self._end, None
        if end is not None:
            if not self.complete:
                self._connection.usable = False
            self._connection.answer = None
            end(self._connection)

    # The connection's calls

    def add(self, data: bytes) -> None:
        self._pieces.append(data)
        self._buffered += len(data)
        if self._buffered > BUFFERED_BYTES and not self._paused:
            self._paused = True
            self._connection.pause(paused=True)

    def fail(self, error: OSError) -> None:
        if not self.complete and self._error is None:
            self._error = error
            self.wake()

    def hear(self) -> None:
        self._heard = self._loop.time()

    def wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def _more(self) -> None:
        if self._error is None:
            self._waiter = self._loop.create_future()
            await self._waiter
        # What came before it broke off is passed on first.
        if self._error is not None and not self._pieces:
            raise self._error

    def _take(self) -> bytes:
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._buffered = 0
        if self._paused:
            self._paused = False
            self._heard = self._loop.time()
            self._connection.pause(paused=False)
        return data

    def _listen(self) -> None:
        """Fail after a silence; a replica that has to wait for the client is not silent."""
        left = self._silence if self._paused else self._heard + self._silence - self._loop.time()
        if left <= 0.001:  # uvloop rounds to milliseconds
            self.fail(TimeoutError(f"no byte for {self._silence:.0f} s"))
        else:
            self._alarm = self._loop.call_later(left, self._listen)


class _Connection(asyncio.Protocol):
    """One connection, and the answer that it is getting. httptools calls its `on_…` methods."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._head_bytes = 0
        self._reusable = False
        self.answer: Answer | None = None
        self.usable = False
        """True while the connection may get another request."""
        self.idle_since = 0.0

    def send(self, answer: Answer, request: bytes) -> None:
        self.answer, self.usable, self._reusable, self._head_bytes = answer, False, False, 0
        # The server closed an idle connection in the moment that it was taken.
        if self._transport is None or self._transport.is_closing():
            answer.fail(Unreachable("closed before the request was sent"))
        else:
            self._transport.write(request)

    def close(self) -> None:
        self.usable = False
        if self._transport is not None:
            # Not `close`, which would first send what is buffered: a peer that reads nothing would keep it open.
            self._transport.abort()

    def pause(self, *, paused: bool) -> None:
        if self._transport is not None and not self._transport.is_closing():
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self.usable = True

    def data_received(self, data: bytes) -> None:
        answer = self.answer
        if answer is None:
            self.close()  # nobody asked
            return
        answer.hear()
        try:
            self._parser.feed_data(data)
        # The parser raises also for bytes behind a whole answer: the answer counts, and the connection is closed.
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._reusable = False
            self._break(answer, ConnectionError(f"the answer is not HTTP: {error.__context__ or error}"))
        if answer.complete:
            self.usable = self._reusable
        elif not answer.status:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._break(answer, ConnectionError(f"the head has more than {MAX_HEAD_BYTES} bytes"))
            return
        answer.wake()

    def eof_received(self) -> None:
        self.usable = False

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        answer = self.answer
        if answer is None or answer.complete:
            return
        # HTTP/1.0 and `Connection: close` without a length: the end of the connection is the end of the answer.
        framed = "content-length" in answer.headers or "transfer-encoding" in answer.headers
        if error is None and answer.status and not framed:
            answer.complete = True
            answer.wake()
            return
        how = error or ("closed in the middle of the answer" if answer.status else "closed without an answer")
        answer.fail(error if isinstance(error, OSError) else ConnectionResetError(str(how)))

    def _break(self, answer: Answer, error: OSError) -> None:
        answer.fail(error)
        self.close()

    # The parser's calls

    def on_message_begin(self) -> None:
        if self.answer is not None and self.answer.complete:
            self._reusable = False  # more than was asked for: what follows belongs to no request

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.answer is not None and not self.answer.complete:
            self.answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self.answer is None or self.answer.complete:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self.answer.headers.clear()  # only the beginning: the answer follows
        else:
            self.answer.status = status

    def on_body(self, data: bytes) -> None:
        if self.answer is not None and not self.answer.complete:
            self.answer.add(data)

    def on_message_complete(self) -> None:
        if self.answer is not None and self.answer.status and not self.answer.complete:
            self.answer.complete, self._reusable = True, self._parser.should_keep_alive()
