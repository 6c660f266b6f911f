"""Requests to a replica: whatever its answers are, a body is whole, or the request fails."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing

import pytest

from steelyard.api.inference_sessions.upstream import BUFFERED_BYTES, MAX_HEAD_BYTES, Unreachable, Upstream

HEAD = b"HTTP/1.1 200 OK\r\n"
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]
"""Behaviour of the replica on its connection of a number, from 0 on."""


async def _trusted() -> None:
    return None


async def one_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
    return head + await reader.readexactly(length)


@asynccontextmanager
async def upstream(script: Script) -> AsyncIterator[Upstream]:
    """The connections to a replica that does what the script says."""
    opened = 0
    running: set[asyncio.Task[None]] = set()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        number, opened = opened, opened + 1
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await script(reader, writer, number)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            running.discard(task)
            writer.close()

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with closing(Upstream(f"http://127.0.0.1:{port}", _trusted, 5.0)) as connections:
        yield connections
    server.close()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def answering(*answers: bytes, close: bool = False) -> Script:
    """Answer each request of a connection in turn."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
        for answer in answers:
            await one_request(reader)
            writer.write(answer)
        if close:
            return
        await reader.read()

    return script


async def ask(connections: Upstream, silence: float = 5.0) -> tuple[int, bytes]:
    answer = await connections.ask("POST", "/v1/x", {"content-type": "application/json"}, b"{}", silence)
    try:
        return answer.status, await answer.read()
    finally:
        answer.release()


@pytest.mark.parametrize(
    ("answer", "close", "expected"),
    [
        (HEAD + b"Content-Length: 5\r\n\r\nwhole", False, (200, b"whole")),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nwh\r\n3\r\nole\r\n0\r\n\r\n", False, (200, b"whole")),
        (HEAD + b"\r\nwhole", True, (200, b"whole")),
        (b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n" + HEAD + b"Content-Length: 5\r\n\r\nwhole", False, (200, b"whole")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", False, (204, b"")),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", False, (503, b"busy")),
    ],
    ids=["by length", "in chunks", "to the end of the connection", "after a 100", "without a body", "an error"],
)  # fmt: skip
async def test_a_whole_answer(answer: bytes, close: bool, expected: tuple[int, bytes]) -> None:
    async with upstream(answering(answer, close=close)) as connections:
        assert await ask(connections) == expected


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"Content-Length: 9\r\n\r\nhalf",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"",
        HEAD,
        b"SSH-2.0-OpenSSH\r\n\r\n",
        HEAD + b"X: " + b"x" * (MAX_HEAD_BYTES + 1),
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
    ids=[
        "half by length",
        "half in chunks",
        "nothing",
        "half a head",
        "no HTTP",
        "a huge head",
        "an upgrade",
    ],
)
async def test_an_answer_that_breaks_off_is_none(answer: bytes) -> None:
    async with upstream(answering(answer, close=True)) as connections:
        with pytest.raises(OSError, match=r"."):
            await ask(connections)


async def test_a_connection_is_used_again_until_the_replica_closes_it() -> None:
    numbers: list[int] = []

    async def two_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        for _ in range(2):
            await one_request(reader)
            numbers.append(number)
            writer.write(HEAD + b"Content-Length: 2\r\n\r\nok")

    async with upstream(two_each) as connections:
        for _ in range(2):
            assert await ask(connections) == (200, b"ok")
        async with asyncio.timeout(30):
            while connections._idle[0].usable:  # noqa: ASYNC110 - nothing tells that its end has come
                await asyncio.sleep(0.001)
        assert await ask(connections) == (200, b"ok")
    assert numbers == [0, 0, 1]


async def test_bytes_behind_an_answer_belong_to_no_request() -> None:
    numbers: list[int] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        while True:
            await one_request(reader)
            numbers.append(number)
            behind = HEAD + b"Content-Length: 7\r\n\r\nforeign" if number == 0 else b""
            writer.write(HEAD + b"Content-Length: 3\r\n\r\nown" + behind)

    async with upstream(script) as connections:
        assert [await ask(connections) for _ in range(3)] == 3 * [(200, b"own")]
    assert numbers == [0, 1, 1]


async def test_an_answer_that_is_left_closes_its_connection() -> None:
    async with upstream(answering(HEAD + b"Content-Length: 9\r\n\r\nhalf", HEAD + b"\r\n")) as connections:
        answer = await connections.ask("POST", "/", {}, b"", 5.0)
        answer.release()
        with pytest.raises(OSError, match="middle"):
            await asyncio.wait_for(_second(connections), 60)


async def _second(connections: Upstream) -> None:
    answer = await connections.ask("POST", "/", {}, b"", 5.0)
    connections.close()
    await answer.read()


async def test_a_silent_replica_is_given_up() -> None:
    for begun in (b"", HEAD + b"Content-Length: 9\r\n\r\nhalf"):
        async with upstream(answering(begun)) as connections:
            with pytest.raises(TimeoutError, match="no byte"):
                await ask(connections, silence=0.05)


async def test_a_replica_waits_for_a_slow_client() -> None:
    size, sent = 64 * BUFFERED_BYTES, 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
        nonlocal sent
        await one_request(reader)
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(bytes(BUFFERED_BYTES))
            await writer.drain()
            sent += BUFFERED_BYTES

    async with upstream(endless) as connections:
        answer = await connections.ask("POST", "/", {}, b"", 60.0)
        pieces = answer.pieces()
        received = len(await anext(pieces))
        async with asyncio.timeout(30):
            while not answer._paused:  # noqa: ASYNC110 - nothing tells that its buffer is full
                await asyncio.sleep(0.001)
        # A client that takes nothing for longer than a silence may last: the replica is not to blame.
        answer._alarm.cancel()
        answer._silence = 0.05
        answer._listen()
        await asyncio.sleep(0.3)
        assert sent < size
        answer._silence = 60.0
        received += sum([len(piece) async for piece in pieces])
        answer.release()
    assert received == size


async def test_nothing_was_sent_where_no_server_listens_or_the_replica_is_another() -> None:
    async def foreign() -> None:
        raise PermissionError("another session's")

    with socket.socket() as bound:  # and not listening
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        for verify, error in ((_trusted, Unreachable), (foreign, PermissionError)):
            with closing(Upstream(url, verify, 1.0)) as connections, pytest.raises(error):
                await ask(connections)
