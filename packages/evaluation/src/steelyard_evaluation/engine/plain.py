"""Calls of plain http, for replicas in a cluster: HTTP/1.1 with keep-alive, parsed by httptools.

One call at a time on a connection. A connection that did anything it should not is closed after its call, and an answer
counts only when its end has come: by its length, its last chunk, or the end of a connection that announced neither.
"""

import asyncio
import socket
import zlib
from collections.abc import Mapping

import httptools
import orjson
from yarl import URL

from steelyard_common.discovery import IDENTITY_SECONDS, ForeignSession, Verify, is_ip
from steelyard_evaluation.engine import call
from steelyard_evaluation.engine.alarm import Alarm
from steelyard_evaluation.engine.call import Failure, Fault, Outcome

IDLE_SECONDS = 4.0
"""Seconds that a connection may wait for its next call: servers close idle ones after five seconds and more."""
RESOLVE_SECONDS = 5.0
MAX_HEAD_BYTES = 1 << 16
MAX_REFUSAL_BYTES = 1 << 18
"""An answer with an error that is longer is not waited for: its beginning is enough."""


async def get_json(url: URL) -> object:
    """Return the JSON value at a URL, by a connection of its own; raises OSError without one."""
    fields = f"Host: {url.host_port_subcomponent}\r\nAccept: application/json\r\nConnection: close\r\n"
    # The address may be unused: a connection to it would wait for minutes.
    async with asyncio.timeout(IDENTITY_SECONDS):
        _, connection = await asyncio.get_running_loop().create_connection(
            _Connection, url.host or "", url.port or 80
        )
        try:
            answer = await connection.ask(f"GET {url.raw_path_qs} HTTP/1.1\r\n{fields}\r\n".encode())
        finally:
            connection.close()
    if isinstance(answer, Failure):
        raise ConnectionError(f"{url}: {answer.message}")
    try:
        return orjson.loads(answer)
    except orjson.JSONDecodeError as error:
        raise ConnectionError(f"{url}: the answer is not JSON: {error}") from error


class PlainClient:
    """The connections to one replica."""

    def __init__(
        self, url: URL, timeout: float, verify: Verify | None, headers: Mapping[str, str], host: str | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._verify = verify
        self._host, self._port = host or url.host or "", url.port or 80
        fields = {"Host": url.host_port_subcomponent, **headers}
        for name, value in fields.items():
            # A key that was read from a file often ends with a line break: it would end the header, and begin
            # another one.
            if any(character in f"{name}{value}" for character in "\r\n\0"):
                raise ValueError(f"the header {name!r} has a line break")
        lines = [f"POST {url.raw_path_qs} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        self._head = "\r\n".join([*lines, "Content-Length: "]).encode()
        self._idle: list[_Connection] = []
        self._sent: dict[_Connection, float] = {}
        """Connections in flight and when they time out."""
        self._alarm = Alarm(self._time_out)
        self._resolving: asyncio.Task[list[str]] | None = None
        self._resolved_at = 0.0
        self.closed = False

    async def call(self, body: bytes) -> Outcome:
        connection = self._take_idle()
        if connection is None:
            deadline = self._loop.time() + self._timeout
            opened = await self._connect(deadline)
            if isinstance(opened, Failure):
                return opened
            connection = opened
        else:
            deadline = self._loop.time() + self._timeout
        self._sent[connection] = deadline
        # A connection that took long to open is due before one that was open already and was asked meanwhile.
        self._alarm.set(deadline)
        try:
            outcome = await connection.ask(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
        # The answer to a cancelled call may still come: on a connection that is used again it would belong to
        # the next row.
        except BaseException:
            connection.close()
            raise
        finally:
            del self._sent[connection]
        if connection.usable and not self.closed:
            # Last in, first out: under little load the same few connections stay young.
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
        else:
            connection.close()
        return outcome

    async def close(self) -> None:
        """Close every connection: calls in flight fail."""
        self.closed = True
        self._alarm.cancel()
        if self._resolving is not None:
            self._resolving.cancel()
        for connection in [*self._idle, *self._sent]:
            connection.close()
        self._idle.clear()

    def _take_idle(self) -> "_Connection | None":
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.idle_since + IDLE_SECONDS > self._loop.time():
                return connection
            connection.close()
        return None

    async def _connect(self, deadline: float) -> "_Connection | Failure":
        try:
            async with asyncio.timeout_at(deadline):
                if self._verify is not None:
                    await self._verify()
                return await self._connect_anywhere()
        except TimeoutError:
            return call.unreachable("timed out")
        except ForeignSession as error:
            return Failure(Fault.FOREIGN, str(error))
        except OSError as error:
            return call.unreachable(error)

    async def _connect_anywhere(self) -> "_Connection":
        """Connect to the first of the host's addresses that accepts, which is tried first from then on."""
        if self._resolving is None or self._resolved_at + RESOLVE_SECONDS < self._loop.time():
            self._resolved_at = self._loop.time()
            self._resolving = self._loop.create_task(self._resolve())
            self._resolving.add_done_callback(_retrieve_exception)
        # Shared by all calls that connect now: one that times out must not cancel it for the others.
        places = await asyncio.shield(self._resolving)
        error: OSError = OSError(f"{self._host} has no address")
        # A copy, because calls that connect at the same time reorder the list.
        for place in list(places):
            try:
                _, connection = await self._loop.create_connection(_Connection, place, self._port)
            except OSError as refused:
                error = refused
                continue
            places.remove(place)
            places.insert(0, place)
            return connection
        raise error

    async def _resolve(self) -> list[str]:
        if is_ip(self._host):
            return [self._host]
        resolved = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in resolved))

    def _time_out(self) -> None:
        now = self._loop.time() + 0.001  # uvloop rounds to milliseconds
        for connection, deadline in self._sent.items():
            if deadline <= now:
                connection.fail(call.TIMED_OUT)
        if left := [deadline for deadline in self._sent.values() if deadline > now]:
            self._alarm.set(min(left))


def _retrieve_exception(task: asyncio.Task[list[str]]) -> None:
    """Retrieve the task's exception: the caller may be gone."""
    if not task.cancelled():
        task.exception()


class _Connection(asyncio.Protocol):
    """One connection, and the answer that it is getting. httptools calls its `on_…` methods."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Outcome] | None = None
        self.usable = False
        """True while the connection may get another request."""
        self.idle_since = 0.0
        self._begin()

    def ask(self, request: bytes) -> "asyncio.Future[Outcome]":
        self._begin()
        self.usable = False
        waiter: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        # The server closed an idle connection in the moment that it was taken.
        if self._transport is None or self._transport.is_closing():
            self.fail(call.connection_failure("closed before the request was sent"))
        else:
            self._transport.write(request)
        return waiter

    def close(self) -> None:
        self.usable = False
        if self._transport is not None:
            # Not `close`, which would first send what is buffered: a peer that reads nothing would keep it
            # open.
            self._transport.abort()

    def fail(self, failure: Failure) -> None:
        self._settle(failure)
        self.close()

    def _begin(self) -> None:
        self._headers: dict[str, str] = {}
        self._status = 0
        self._pieces: list[bytes] = []
        self._size = self._head_size = 0
        self._complete = self._reusable = False

    def _settle(self, outcome: Outcome) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(outcome)

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's is one in all but name
        self.usable = True

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            self.close()  # nobody asked
            return
        try:
            self._parser.feed_data(data)
        # The parser raises also for bytes behind a whole answer: the answer counts, and the connection is not
        # used again.
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._reusable = False
            if not self._complete:
                self.fail(call.connection_failure(f"the answer is not HTTP: {error.__context__ or error}"))
                return
        if self._complete:
            self.usable = self._reusable
            self._settle(self._outcome())
        elif self._status == 0:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD_BYTES:
                self.fail(
                    call.connection_failure(f"the answer's headers have more than {MAX_HEAD_BYTES} bytes")
                )

    def eof_received(self) -> None:
        self.usable = False

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        if self._waiter is None:
            return
        # HTTP/1.0 and `Connection: close` without a length: the end of the connection is the end of the
        # answer, unless it was reset.
        framed = "Content-Length" in self._headers or "Transfer-Encoding" in self._headers
        if error is None and self._status >= 200 and not framed:
            self._settle(self._outcome())
            return
        how = error or (f"closed after {self._size} bytes of the answer" if self._status else "no answer")
        self._settle(call.connection_failure(how))

    # The parser's calls

    def on_message_begin(self) -> None:
        if self._complete:
            self._reusable = False  # more than was asked for: what follows belongs to no request

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._complete:
            self._headers[name.decode("latin-1").title()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self._headers.clear()  # only the beginning: the answer follows
            return
        self._status = status
        length = self._headers.get("Content-Length", "")
        # Refused before it is read: 64 calls at once of a gigabyte each would end the process.
        if length.isdigit() and int(length) > call.MAX_ANSWER_BYTES:
            self.fail(call.too_long(status))

    def on_body(self, data: bytes) -> None:
        if self._complete or self._waiter is None:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size > call.MAX_ANSWER_BYTES:
            self.fail(call.too_long(self._status))
        elif self._size > MAX_REFUSAL_BYTES and not 200 <= self._status < 300:
            self.fail(call.read_failure(self._status, self._headers, self._body_start()))

    def on_message_complete(self) -> None:
        if self._status and not self._complete:
            self._complete, self._reusable = True, self._parser.should_keep_alive()

    def _body_start(self) -> bytes:
        return b"".join(self._pieces)[: call.KEPT_BODY_BYTES]

    def _outcome(self) -> Outcome:
        if not 200 <= self._status < 300:
            return call.read_failure(self._status, self._headers, self._body_start())
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        encoding = self._headers.get("Content-Encoding", "identity").lower()
        return body if encoding == "identity" else _decode(body, encoding, self._status)


def _decode(body: bytes, encoding: str, status: int) -> Outcome:
    """Decode a compressed answer; none was requested, but some servers send one."""
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        return call.connection_failure(f"the answer has the unknown encoding {encoding[:40]!r}")
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        # A small answer can unpack to any size.
        plain = unpacking.decompress(body, call.MAX_ANSWER_BYTES)
    except zlib.error as error:
        return call.connection_failure(f"the answer is not {encoding}: {error}")
    if unpacking.unconsumed_tail:
        return call.too_long(status)
    return plain if unpacking.eof else call.connection_failure(f"the answer's {encoding} ends early")
