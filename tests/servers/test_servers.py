"""Attacks of callers without a token: every server, every way of sending too much or too slowly."""

import asyncio
import ctypes
import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import repeat
from pathlib import Path

import pytest

from steelyard_common.serving import bounded, limits
from steelyard_common.serving.figures_access import TOKEN_VARIABLE
from steelyard_common.serving.limits import HttpLimits
from tests.servers.table import HOST, SERVERS, Server, answer
from tests.source import modules, short_name

SHORT = HttpLimits(head_seconds=0.5, stall_seconds=0.5, connections=50)
MEBIBYTE = 1 << 20
SENT = 48 * MEBIBYTE
"""Bytes that an attack sends at most; the server may keep a small part."""
KEPT = 8 * MEBIBYTE
AT_ONCE = 3
"""Attacks at once, of eight connections each: fewer than a server takes."""
PIECE = 64 << 10
PAGE = os.sysconf("SC_PAGE_SIZE")

_HEAD = b"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
_POST = b"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
_CHUNKED = _POST + b"Transfer-Encoding: chunked\r\n\r\n"
TOO_MUCH: dict[str, tuple[bytes, bytes]] = {
    "a line without an end": (b"GET /", b"a" * PIECE),
    "a query without an end": (b"GET {path}?", b"a=b&" * (PIECE // 4)),
    "a method without an end": (b"", b"G" * PIECE),
    "a header's name without an end": (_HEAD, b"a" * PIECE),
    "a header's value without an end": (_HEAD + b"A: ", b"a" * PIECE),
    "many headers": (_HEAD, b"a: b\r\n" * (PIECE // 6)),
    "many headers of one name": (_HEAD, b"Cookie: a=b\r\n" * (PIECE // 13)),
    "empty headers": (_HEAD, b"a:\r\n" * (PIECE // 4)),
    "folded headers": (_HEAD + b"A: b\r\n", b" c\r\n" * (PIECE // 4)),
    "empty lines before a request": (b"", b"\r\n" * (PIECE // 2)),
    "an extension of a chunk without an end": (_CHUNKED + b"5;", b"a" * PIECE),
    "a size of a chunk without an end": (_CHUNKED, b"0" * PIECE),
    "many headers after the body": (_CHUNKED + b"0\r\n", b"a: b\r\n" * (PIECE // 6)),
    "a header after the body without an end": (_CHUNKED + b"0\r\nA: ", b"a" * PIECE),
    "a wish for another protocol, then headers": (
        _HEAD + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n" + _HEAD,
        b"a: b\r\n" * (PIECE // 6),
    ),
    "many requests whose answers are not taken": (b"", (_HEAD + b"\r\n") * (PIECE // 40)),
    "a body that nobody reads": (_POST + b"Content-Length: 99999999999\r\n\r\n", b"a" * PIECE),
}
"""The beginning, and what follows it again and again."""
HELD: dict[str, bytes] = {
    "nothing": b"",
    "a byte": b"G",
    "half a line": b"GET {path}",
    "half a head": _HEAD,
    "half a header": _HEAD + b"Accept",
    "half a body": _POST + b"Content-Length: 100\r\n\r\n{",
    "half a chunk": _CHUNKED + b"10\r\n{",
    "half a trailer": _CHUNKED + b"0\r\nA: b\r\n",
    "a body that was promised": _POST + b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n",
    "half a second request": _HEAD + b"\r\n" + _HEAD,
}


def _shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DEFAULT", SHORT)
    monkeypatch.setattr(bounded, "LINGER_SECONDS", 0.2)


@pytest.fixture(params=SERVERS)
async def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    _shorten(monkeypatch)
    async with AsyncExitStack() as stack:
        begun = await stack.enter_async_context(SERVERS[request.param]())
        assert b" 421 " not in await answer(begun)  # whatever a server loads for its first answer is there
        yield begun


def _memory() -> int:
    """Return the resident bytes of this process, without those that the allocator keeps for what comes."""
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def _filled(text: bytes, server: Server) -> bytes:
    return text.replace(b"{path}", server.path.encode())


async def _check_honest_answer(server: Server) -> None:
    line = await answer(server)
    assert line.startswith(b"HTTP/1.1 ")
    assert b" 503 " not in line


async def _send(server: Server, beginning: bytes, pieces: Iterator[bytes]) -> bytes:
    """Send until the server ends the connection, or takes nothing for a while; return what it answered."""
    reader, writer = await asyncio.open_connection(HOST, server.port)
    try:
        with suppress(ConnectionError, TimeoutError):
            writer.write(beginning)
            for piece in pieces:
                writer.write(piece)
                async with asyncio.timeout(2 * SHORT.stall_seconds):
                    await writer.drain()
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(1):
                return await reader.read(PIECE)
        return b""
    finally:
        writer.transport.abort()


async def _until_dropped(server: Server, beginning: bytes, drip: bytes = b"") -> bytes:
    """Return what the server says before it ends a connection that sends one byte now and then, or none."""
    reader, writer = await asyncio.open_connection(HOST, server.port)
    try:
        writer.write(beginning)
        dripping = asyncio.create_task(_drip(writer, drip))
        try:
            async with asyncio.timeout(60):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            dripping.cancel()
    finally:
        writer.transport.abort()


async def _drip(writer: asyncio.StreamWriter, drip: bytes) -> None:
    while drip:
        writer.write(drip)
        await asyncio.sleep(SHORT.head_seconds / 5)


async def test_what_is_too_much_is_not_kept(server: Server) -> None:
    # Heads that never end go some at once: their callers are refused, and given up only after a while.
    whole = [name for name, parts in TOO_MUCH.items() if b"\r\n\r\n" in b"".join(parts)]
    heads = [name for name in TOO_MUCH if name not in whole]
    for start in range(0, len(heads), AT_ONCE):
        await _check_memory(server, heads[start : start + AT_ONCE])
    for name in whole:
        await _check_memory(server, [name])


async def _check_memory(server: Server, names: Sequence[str]) -> None:
    """Send all these at once; together they may take what one of them may."""
    before = _memory()
    attacks = []
    for name in names:
        beginning, piece = (_filled(text, server) for text in TOO_MUCH[name])
        pieces = (piece for _ in range(SENT // 8 // len(piece)))
        attacks += [asyncio.create_task(_send(server, beginning, pieces)) for _ in range(8)]
    while not all(task.done() for task in attacks):
        await answer(server)
        assert _memory() - before < 3 * KEPT, names
        await asyncio.sleep(0.05)
    await asyncio.gather(*attacks)
    assert _memory() - before < KEPT, names
    await _check_honest_answer(server)


async def test_a_request_that_is_not_finished_is_dropped(server: Server) -> None:
    # Of two that drip, one goes on with a header or a body, and the other ends what may end there.
    callers = [(_filled(held, server), drip) for held in HELD.values() for drip in (b"", b"a", b"1")]
    await asyncio.gather(*(_until_dropped(server, held, drip) for held, drip in callers))
    await _check_honest_answer(server)


async def test_honest_callers_are_answered_beside_very_many_others(server: Server) -> None:
    for held in HELD:
        await _check_beside_many(server, held)


async def _check_beside_many(server: Server, held: str) -> None:
    writers = []
    try:
        for _ in range(3 * SHORT.connections):
            _, writer = await asyncio.open_connection(HOST, server.port)
            writers.append(writer)
            with suppress(ConnectionError):
                writer.write(_filled(HELD[held], server))
        await _check_honest_answer(server)
    finally:
        for writer in writers:
            writer.transport.abort()


async def test_an_unknown_host_is_refused(server: Server, request: pytest.FixtureRequest) -> None:
    known = ("localhost", "localhost:1", "a.localhost", "127.0.0.1:80", "[::1]:80", "api", "api.ns.svc", "")
    assert all([b" 421 " not in await answer(server, host=host) for host in known])
    # Whoever asks the login for a dashboard needs a token, or a cookie that a browser sends to one name only.
    every = "ray login" in request.node.name
    unknown = ("evil.example.com", "localhost.evil.com", "127.0.0.1.nip.io:80", "svc.evil.com", "evil.com.")
    assert all([(b" 421 " in await answer(server, host=host)) is not every for host in unknown])


@pytest.mark.parametrize("name", ["api", "metrics", "model server"])
async def test_a_refusal_names_the_field_and_the_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _shorten(monkeypatch)
    async with SERVERS[name]() as server:
        head, post = (_filled(text, server) for text in (_HEAD, _POST))
        said = await _send(server, head + b"A: " + b"a" * 40_000, repeat(b"", 0))
        assert said.startswith(b"HTTP/1.1 431 ")
        assert _words(name, said) == "headers: have more than 32768 bytes"
        said = await _send(server, head + b"a: b\r\n" * 101, repeat(b"", 0))
        assert _words(name, said) == "headers: are more than 100"
        said = await _until_dropped(server, head)
        assert _words(name, said) == "headers: were not whole within 0.5 s"
        # Without a token, the API answers before the body came; it then drops who does not send it.
        said = await _until_dropped(server, post + b"Content-Length: 100\r\n\r\n{")
        late = "body: less than 1024 bytes came in 0.5 s"
        assert said.startswith(b"HTTP/1.1 405 ") or _words(name, said) == late


def _words(name: str, said: bytes) -> str:
    """Return what a refusal says, in the form of its server: a model server's clients are OpenAI's."""
    body = json.loads(said.partition(b"\r\n\r\n")[2])
    return str(body["error"]["message"] if name == "model server" else body["detail"])


async def test_websockets_that_have_ended_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    _shorten(monkeypatch)
    async with SERVERS["api"]() as server:
        for _ in range(2 * SHORT.connections):
            reader, writer = await asyncio.open_connection(HOST, server.port)
            writer.write(
                b"GET /v0/nothing HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
            )
            assert b" 404 " in await reader.readline()
            writer.transport.abort()
        await _check_honest_answer(server)


FIGURES = ("api", "metrics", "evaluation metrics")


@pytest.mark.parametrize("name", FIGURES)
async def test_figures_are_for_this_machine_or_by_token(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "secret")
    async with SERVERS[name]() as server:
        figures = Server(server.port, "/metrics")
        assert b" 200 " in await answer(figures)
        # What a proxy of this machine passes on comes from elsewhere.
        assert b" 401 " in await answer(figures, more="X-Forwarded-For: 10.0.0.1\r\n")
        token = "Authorization: Bearer {}\r\nX-Forwarded-For: 10.0.0.1\r\n"
        assert b" 200 " in await answer(figures, more=token.format("secret"))
        assert b" 401 " in await answer(figures, more=token.format("wrong"))


def test_every_server_is_in_the_table() -> None:
    """A program that listens for HTTP without the bounds would be missed here."""
    makers = re.compile(
        r"uvicorn\.Config|web\.(AppRunner|TCPSite|SockSite|run_app|Server)\(|HTTPServer\(|start_server\("
    )
    doubles = {"doubles.py", "conftest.py", "source_servers.py"}
    programs = {
        short_name(path)
        for path in modules()
        if path.name not in doubles and not path.name.startswith("test_") and "simulation" not in path.parts
        if makers.search(path.read_text())
    }
    assert programs == {
        "api/http/serve.py",
        "steelyard_common/serving/aiohttp_server.py",
        "steelyard_local_kubernetes/names/forward.py",  # forwards bytes of any protocol
    }
