"""Servers that answer as engines do which are too old, each as far as the platform's first questions go."""

import re
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

import bson

Read = Callable[[int], bytes]
"""Reads so many bytes of a connection; raises EOFError at its end."""


@contextmanager
def serving(converse: Callable[[Read, Callable[[bytes], None], int], None]) -> Iterator[int]:
    """Serve TCP on a free port of the loopback, one thread per connection; yields the port."""

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            def read(size: int) -> bytes:
                content = b""
                while len(content) < size:
                    piece = self.request.recv(size - len(content))
                    if not piece:
                        raise EOFError
                    content += piece
                return content

            with suppress(EOFError, ConnectionError):
                converse(read, self.request.sendall, self.request.getsockname()[1])

    with _running(socketserver.ThreadingTCPServer, Connection) as port:
        yield port


@contextmanager
def _running(kind: type[socketserver.ThreadingTCPServer], handler: Any) -> Iterator[int]:
    kind.daemon_threads = True
    with kind(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


METADATA, API_VERSIONS = 3, 18
_COMMON = {
    0: 8,
    1: 11,
    2: 5,
    METADATA: 4,
    8: 7,
    10: 2,
    11: 5,
    12: 3,
    13: 2,
    14: 3,
    API_VERSIONS: 2,
    24: 1,
    25: 1,
    26: 1,
}
KAFKA = {
    "2.4": _COMMON | {9: 6, 22: 2, 28: 2},
    "2.5": _COMMON | {9: 7, 22: 3, 28: 3},
}
"""Newest version of requests that a broker knows, by the version of Kafka; the three that matter are as they were."""


@contextmanager
def kafka(newest: Mapping[int, int]) -> Iterator[int]:
    """A broker that lists the requests that it knows, and that it is the only broker, without topics."""

    def converse(read: Read, send: Callable[[bytes], None], port: int) -> None:
        while True:
            (size,) = struct.unpack(">i", read(4))
            key, version, correlation = struct.unpack(">hhi", read(size)[:8])
            answer = struct.pack(">i", correlation)
            if key == API_VERSIONS:
                unknown = 35 if version > newest[API_VERSIONS] else 0  # the answer has the oldest form then
                answer += struct.pack(">hi", unknown, len(newest))
                answer += b"".join(struct.pack(">hhh", request, 0, last) for request, last in newest.items())
                answer += struct.pack(">i", 0) if version >= 1 and not unknown else b""
            elif key == METADATA:  # of version 4
                host = b"127.0.0.1"
                answer += struct.pack(">iiih", 0, 1, 1, len(host)) + host + struct.pack(">ih", port, -1)
                answer += struct.pack(">hii", -1, 1, 0)
            else:
                raise EOFError
            send(struct.pack(">i", len(answer)) + answer)

    with serving(converse) as port:
        yield port


@contextmanager
def mongodb(wire_version: int) -> Iterator[int]:
    """A member of a replica set that says what it is, and does nothing else."""

    def converse(read: Read, send: Callable[[bytes], None], port: int) -> None:
        name = f"127.0.0.1:{port}"
        hello = {
            "ok": 1.0, "ismaster": True, "isWritablePrimary": True, "helloOk": True, "setName": "rs0", "setVersion": 1,
            "hosts": [name], "primary": name, "me": name, "maxBsonObjectSize": 1 << 24,
            "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "minWireVersion": 0,
            "maxWireVersion": wire_version,
        }  # fmt: skip
        while True:
            size, request, _, operation = struct.unpack("<iiii", read(16))
            content = read(size - 16)
            if operation == 2004:  # a query of the old form, which is answered in it
                code, answer = 1, struct.pack("<iqii", 8, 0, 0, 1) + bson.encode(hello)
            else:
                asked = next(iter(bson.decode(content[5 : 5 + struct.unpack("<i", content[5:9])[0]])))
                answered = (
                    hello
                    if asked in {"hello", "ismaster"}
                    else {"ok": 0.0, "code": 59, "errmsg": f"no {asked} here"}
                )
                code, answer = 2013, struct.pack("<iB", 0, 0) + bson.encode(answered)
            send(struct.pack("<iiii", 16 + len(answer), 1, request, code) + answer)

    with serving(converse) as port:
        yield port


def _message(kind: bytes, content: bytes = b"") -> bytes:
    return kind + struct.pack(">i", 4 + len(content)) + content


READY = _message(b"Z", b"I")


def _answer(query: str, rows: Mapping[str, Sequence[str]]) -> bytes:
    """Return the row for a query that has one of the words; all values are texts but those with digits alone."""
    row = next((row for word, row in rows.items() if word in query), None)
    if row is None and not query.lower().startswith("select"):
        return _message(b"C", b"OK\0")
    columns = [
        struct.pack(">ihihih", 0, 0, 23 if value.isdecimal() else 25, -1, -1, 0) for value in row or "x"
    ]
    values = [struct.pack(">i", len(value)) + value.encode() for value in row or ()]
    count = struct.pack(">h", len(columns))
    described = _message(b"T", count + b"".join(b"c\0" + column for column in columns))
    data = _message(b"D", count + b"".join(values)) if values else b""
    return described + data + _message(b"C", b"SELECT\0")


@contextmanager
def postgresql(version: str) -> Iterator[int]:
    """A server that lets everybody in, and answers the questions about itself."""
    rows = {
        "server_version_num": (version.partition(".")[0], "UTF8", "on", "on"),
        "version()": (f"PostgreSQL {version}",),
        "current_schema": ("public",),
        "standard_conforming_strings": ("on",),
        "transaction": ("read committed",),
    }

    def converse(read: Read, send: Callable[[bytes], None], _port: int) -> None:
        _let_in(read, send, version)
        query = ""
        while (kind := read(1)) != b"X":
            (size,) = struct.unpack(">i", read(4))
            content = read(size - 4)
            if kind == b"Q":
                send(_answer(content.rstrip(b"\0").decode(), rows) + READY)
            elif kind == b"P":
                query = content.split(b"\0")[1].decode()
            elif kind == b"S":  # what was asked for in pieces is answered at once
                answer = _answer(query, rows)
                nothing = b"" if answer.startswith(b"T") else _message(b"n")
                send(_message(b"1") + _message(b"2") + nothing + answer + READY)

    with serving(converse) as port:
        yield port


def _let_in(read: Read, send: Callable[[bytes], None], version: str) -> None:
    code = 0
    while code != 3 << 16:  # the protocol's third version; before it clients ask for encryption
        if code:
            send(b"N")
        (size,) = struct.unpack(">i", read(4))
        (code,) = struct.unpack(">i", read(size - 4)[:4])
    parameters = {"server_version": version, "client_encoding": "UTF8", "standard_conforming_strings": "on"}
    send(_message(b"R", struct.pack(">i", 0)))
    send(
        b"".join(_message(b"S", f"{name}\0{value}\0".encode()) for name, value in parameters.items()) + READY
    )


@contextmanager
def s3(*, conditional: bool) -> Iterator[int]:
    """A store of objects; one that is not `conditional` overwrites where there is to be no object."""
    objects: dict[str, tuple[bytes, dict[str, str]]] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def do_PUT(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if conditional and self.headers["If-None-Match"] and self.path in objects:
                self._send(412)
                return
            kept = {
                name: value for name, value in self.headers.items() if name.lower().startswith("x-amz-meta-")
            }
            objects[self.path] = (content, kept)
            self._send(200)

        def do_GET(self) -> None:
            if self.path not in objects:
                self._send(404)
                return
            content, kept = objects[self.path]
            self._send(200, content, kept)

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            """Remove objects, which is all that clients post."""
            content = self.rfile.read(int(self.headers["Content-Length"])).decode()
            keys = re.findall("<Key>(.*?)</Key>", content)
            for key in keys:
                objects.pop(f"{self.path.partition('?')[0]}/{key}", None)
            removed = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self._send(200, f"<DeleteResult>{removed}</DeleteResult>".encode())

        def _send(self, status: int, content: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    with _running(socketserver.ThreadingTCPServer, Handler) as port:
        yield port
