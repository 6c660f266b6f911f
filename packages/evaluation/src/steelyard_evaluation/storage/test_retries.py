"""Requests to an object store that does not answer: which requests are sent again, and for how long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, StorageError, open_store

SHORT = timedelta(seconds=1)


class Silent:
    """An S3 server that carries out the first request to create an object, or drops it, and never answers it.

    Its first `drops` connections it closes at once. Its object is not shown to the first `unseen` requests to read it.
    """

    def __init__(self, *, carries_out: bool) -> None:
        self.carries_out = carries_out
        self.mark: str | None = None
        self.puts = 0
        self.drops = 0
        self.unseen = 0
        self.ended = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.drops:
            self.drops -= 1
            writer.close()
            return
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if ": " in line)
        await reader.readexactly(int(lines.get("content-length", "0")))
        try:
            if head.startswith("PUT"):
                self.puts += 1
                there = self.mark
                if there is None and (self.puts > 1 or self.carries_out):
                    self.mark = lines["x-amz-meta-steelyardwrite"]
                if self.puts == 1:
                    await self.ended.wait()
                status = "200 OK" if there is None else "412 Precondition Failed"
                writer.write(f"HTTP/1.1 {status}\r\nETag: a\r\nContent-Length: 0\r\n\r\n".encode())
            elif self.unseen:
                self.unseen -= 1
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            else:
                date = "Last-Modified: Sat, 31 Jan 2026 12:00:00 GMT\r\nETag: a\r\nContent-Length: 1\r\n"
                mark = f"x-amz-meta-steelyardwrite: {self.mark}\r\n"
                writer.write(f"HTTP/1.1 200 OK\r\n{date}{mark}\r\n".encode())
                writer.write(b"x" if head.startswith("GET") else b"")
            await writer.drain()
        finally:
            writer.close()


def with_hidden_object(unseen: int) -> Silent:
    """Return a server that has another one's object, and does not show it to so many requests."""
    server = Silent(carries_out=False)
    server.mark, server.puts, server.unseen = "anothers", 1, unseen
    return server


@asynccontextmanager
async def listening(server: Silent) -> AsyncIterator[int]:
    async with await asyncio.start_server(server.answer, "127.0.0.1", 0) as listener:
        try:
            yield listener.sockets[0].getsockname()[1]
        finally:
            server.ended.set()
            if hasattr(listener, "close_clients"):  # from Python 3.13 on
                listener.close_clients()


def variables(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        "AWS_TIMEOUT": "300 ms",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("carries_out", [True, False], ids=["carried out", "lost"])
async def test_a_create_that_was_not_answered_is_sent_again(
    monkeypatch: pytest.MonkeyPatch, carries_out: bool
) -> None:
    server = Silent(carries_out=carries_out)
    async with listening(server) as port:
        variables(monkeypatch, port)
        await open_store("s3://bucket").create("a", b"x")
    assert server.puts >= 2, "on a busy machine the second may be too slow as well"


async def test_another_ones_object_is_not_taken_for_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Silent(carries_out=False)
    server.mark = "anothers"
    async with listening(server) as port:
        variables(monkeypatch, port)
        with pytest.raises(ObjectExists):
            await open_store("s3://bucket").create("a", b"x")


async def test_another_ones_object_can_be_read_when_a_create_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server may refuse a write while the object of another one is not to be seen yet."""
    server = with_hidden_object(3)
    async with listening(server) as port:
        variables(monkeypatch, port)
        store = open_store("s3://bucket")
        with pytest.raises(ObjectExists):
            await store.create("a", b"y")
        assert await store.get("a") == b"x"
    assert server.unseen == 0


async def test_a_refusal_because_of_an_object_that_never_appears_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = with_hidden_object(10_000)
    async with listening(server) as port:
        variables(monkeypatch, port)
        with pytest.raises(ObjectExists):
            await open_store("s3://bucket", patience=SHORT).create("a", b"y")


async def test_a_store_that_is_away_is_given_up_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store of no patience sends a request once; with some, the number of tries depends on the machine."""
    server = Silent(carries_out=False)
    server.drops = 10_000
    async with listening(server) as port:
        variables(monkeypatch, port)
        store = open_store("s3://bucket", patience=timedelta(0))
        calls = (store.create("a", b"x"), store.get("a"), anext(aiter(store.list())))
        for tries, call in enumerate(calls, 1):
            with pytest.raises(StorageError):
                await call
            async with asyncio.timeout(60):
                while 10_000 - server.drops < tries:  # noqa: ASYNC110 - it may see the request after its end
                    await asyncio.sleep(0.001)
            assert 10_000 - server.drops == tries


async def test_a_store_that_comes_back_in_time_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of tries does not count, only the time."""
    server = Silent(carries_out=True)
    server.drops = 4
    async with listening(server) as port:
        variables(monkeypatch, port)
        assert await open_store("s3://bucket").get("a") == b"x"
    assert server.drops == 0


async def no_bucket(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a request as S3 does where the bucket is not there."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if ": " in line)
        await reader.readexactly(int(lines.get("content-length", "0")))
        body = (
            "<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist.</Message></Error>"
        )
        answer = f"HTTP/1.1 404 Not Found\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        writer.write(answer.encode())
        await writer.drain()
    finally:
        writer.close()


async def test_a_bucket_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store fails then; that an object alone is missing is an answer, with which services go on."""
    async with await asyncio.start_server(no_bucket, "127.0.0.1", 0) as listener:
        variables(monkeypatch, listener.sockets[0].getsockname()[1])
        store = open_store("s3://bucket/place", patience=SHORT)
        for call in (store.create("a", b"x"), store.put("a", b"x"), store.get("a")):
            with pytest.raises(
                StorageError, match=r"^s3://bucket/place: there is no such bucket$"
            ) as refused:
                await call
            assert not isinstance(refused.value, ObjectMissing)
        with pytest.raises(StorageError, match="NoSuchBucket"):
            await anext(aiter(store.list()))
