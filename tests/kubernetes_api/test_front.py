"""Connections that send too much, too slowly or too little: none of them costs others the server."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from steelyard_local_kubernetes.apiserver import front, intake, transport
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, RunningServer, serve

TOKEN = "a token of tests"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[RunningServer]:
    async with serve(ApiServerConfig(None, folder / "pki", {TOKEN: "tester"})) as server:
        yield server


def trusting(server: RunningServer) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(server.ca))


class Callers:
    """Connections of callers that may never say a whole sentence."""

    def __init__(self) -> None:
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, server: RunningServer, *, tls: bool = True) -> Streams:
        context = trusting(server) if tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        self._writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()


@pytest.fixture
async def callers() -> AsyncIterator[Callers]:
    opened = Callers()
    yield opened
    await opened.close()


async def is_ready(server: RunningServer) -> bool:
    timeout = aiohttp.ClientTimeout(total=20)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"{server.url}/readyz", ssl=trusting(server)) as answer,
    ):
        return answer.status == 200


async def whole_answer(reader: asyncio.StreamReader) -> bytes:
    answer = b""
    # A connection that is dropped while its caller still sends may lose the answer.
    with suppress(ConnectionError, ssl.SSLError):
        async with asyncio.timeout(20):
            while piece := await reader.read(1 << 16):
                answer += piece
    return answer


GET, FIRST = b"GET /readyz HTTP/1.1\r\n", b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n"
LONG_HEADERS = GET + b"".join(b"x%d: %s\r\n" % (number, b"y" * 8000) for number in range(100))
HEADS = {
    "many headers": GET + b"".join(b"x%d: y\r\n" % number for number in range(10_000)),
    "a long header": GET + b"x: " + b"y" * 1_000_000,
    "a long name": GET + b"y" * 1_000_000,
    "long headers": LONG_HEADERS,
    "one header without end": GET + b"x: y\r\n " * 100_000,
    "a long path": b"GET /" + b"x" * 1_000_000,
    "a long method": b"G" * 1_000_000,
    "empty lines": b"\r\n" * 500_000,
    "a long second head": FIRST + LONG_HEADERS,
    "a second head of many lines": FIRST + GET + b"".join(b"x%d: y\r\n" % number for number in range(9999)),
    "a long head of a chunk": b"POST /readyz HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1;"
    + b"x" * 1_000_000,
}


@pytest.mark.parametrize("sent", HEADS.values(), ids=HEADS.keys())
async def test_a_head_has_its_bounds(sent: bytes, tmp_path: Path, callers: Callers) -> None:
    async with serving(tmp_path) as server:
        reader, writer = await callers.connect(server)
        writer.write(sent)
        answer = await whole_answer(reader)  # ends
        assert b" 500 " not in answer
        assert b" 200 " not in answer[20:] or sent.startswith(FIRST)
        assert await is_ready(server)


async def test_half_a_request_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, callers: Callers
) -> None:
    monkeypatch.setattr(front.Front.__init__, "__kwdefaults__", {"idle_seconds": 0.2, "waiting": 8})
    async with serving(tmp_path) as server:
        for sent in (b"", b"GET /readyz HTTP/1.1\r\nx: ", b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\nGET /"):
            reader, writer = await callers.connect(server)
            writer.write(sent)
            answer = await whole_answer(reader)  # ends
            assert answer == b"" or answer.endswith(b"ok")


@pytest.fixture
async def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningServer]:
    """A server that drops nobody for being slow, at which eight callers may wait at once."""
    monkeypatch.setattr(front.Front.__init__, "__kwdefaults__", {"idle_seconds": 3600, "waiting": 8})
    async with serving(tmp_path) as server:
        yield server


async def test_of_many_that_wait_the_oldest_are_dropped(patient: RunningServer, callers: Callers) -> None:
    halves = []
    for _ in range(20):
        reader, writer = await callers.connect(patient)
        writer.write(b"GET /readyz HTTP/1.1\r\n")
        halves.append((reader, writer))
        assert await is_ready(patient)
    for reader, _ in halves[:10]:
        assert await whole_answer(reader) == b""


async def test_handshakes_that_never_end_keep_nobody_out(patient: RunningServer, callers: Callers) -> None:
    silent = [await callers.connect(patient, tls=False) for _ in range(50)]
    assert await is_ready(patient)
    for reader, _ in silent[:30]:
        assert await whole_answer(reader) == b""


async def test_a_body_that_does_not_come_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, callers: Callers
) -> None:
    monkeypatch.setattr(intake, "BODY_SECONDS", 0.2)
    async with serving(tmp_path) as server:
        reader, writer = await callers.connect(server)
        head = f"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n"
        writer.write(f"{head}content-length: 100\r\n\r\n{{".encode())
        answer = await whole_answer(reader)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"has to arrive within 0.2 seconds" in answer


async def test_an_answer_that_nobody_takes_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, callers: Callers
) -> None:
    monkeypatch.setattr(transport, "WRITE_SECONDS", 0.5)
    async with serving(tmp_path) as server:
        _, writer = await callers.connect(server)
        head = f"GET /openapi/v2 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()
        writer.write(head * 8)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(30):
            while not writer.transport.is_closing():  # the server's abort is seen by a later write
                assert await is_ready(server)
                writer.write(b"\r\n")
