"""Tests of what both clients have in common: an answer is whole, or it is a failure that says what happened."""

import asyncio
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from yarl import URL

from steelyard_common.discovery import ForeignSession, Verify
from steelyard_evaluation.engine import aiohttp_client, call, plain
from steelyard_evaluation.engine.aiohttp_client import AiohttpClient, find_proxy
from steelyard_evaluation.engine.call import Client, Failure, Fault
from steelyard_evaluation.engine.clients import open_client
from steelyard_evaluation.engine.plain import PlainClient

Open = Callable[..., Client]
CLOSE = "close"


PATIENCE = 60.0
"""Seconds that a call may take that is expected to succeed: the machine may be busy."""
NEVER = 3600.0
"""Seconds that the server waits where the test is over long before."""
clients: list[Client] = []
"""The clients that the test has opened, closed after it also where it failed."""


@pytest.fixture(autouse=True)
async def every_client_is_closed() -> AsyncIterator[None]:
    yield
    while clients:
        await clients.pop().close()


def open_plain(
    url: URL, timeout: float = PATIENCE, verify: Verify | None = None, host: str | None = None
) -> PlainClient:
    client = PlainClient(url, timeout, verify, {"X-Test": "1"}, host)
    clients.append(client)
    return client


def open_aiohttp(
    url: URL, timeout: float = PATIENCE, verify: Verify | None = None, host: str | None = None
) -> AiohttpClient:
    client = AiohttpClient(url, timeout, verify, {"X-Test": "1"}, host)
    clients.append(client)
    return client


def limit(client: Client, seconds: float) -> None:
    """Give the client's further calls another limit."""
    if isinstance(client, PlainClient):
        client._timeout = seconds
    else:
        assert isinstance(client, AiohttpClient)
        client._session._timeout = aiohttp.ClientTimeout(total=seconds)


both = pytest.mark.parametrize("opened", [open_plain, open_aiohttp], ids=["plain", "aiohttp"])


@dataclass
class Script:
    """A server that answers the n-th request with the n-th of `answers`: pieces of bytes, pauses, or the end."""

    answers: Sequence[Sequence[bytes | float | str]]
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    @property
    def url(self) -> URL:
        return URL(f"http://127.0.0.1:{self.port}/v1/generate?a=b")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lengths = [
                    line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
                ]
                body = await reader.readexactly(sum(int(length.split(b":")[1]) for length in lengths))
                self.requests.append(head + body)
                for piece in self.answers[len(self.requests) - 1]:
                    if isinstance(piece, bytes):
                        writer.write(piece)
                        await writer.drain()
                    elif isinstance(piece, float):
                        await asyncio.sleep(piece)
                    else:
                        return
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def script(
    *answers: Sequence[bytes | float | str], tls: ssl.SSLContext | None = None
) -> AsyncIterator[Script]:
    server = Script(answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


def http(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {size}", *headers, "", ""]).encode() + body


OK = http(b"fine")
Answer = Sequence[bytes | float | str]
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE: dict[str, Answer] = {
    "by its length": [OK],
    "in pieces": [OK[:20], 0.005, OK[20:50], 0.005, OK[50:]],
    "in chunks": [CHUNKED + b"2\r\nfi\r\n", 0.005, b"2;x=y\r\nne\r\n0\r\n\r\n"],
    "until the end of the connection": [b"HTTP/1.1 200 OK\r\n\r\nfi", 0.005, b"ne", CLOSE],
    "HTTP/1.0": [b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nfine", CLOSE],
    "the last on its connection": [http(b"fine", "Connection: close"), CLOSE],
    "after a word in between": [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", OK],
    "compressed": [http(gzip.compress(b"fine"), "Content-Encoding: gzip")],
    "deflated": [http(zlib.compress(b"fine"), "Content-Encoding: deflate")],
}
BROKEN: dict[str, Answer] = {
    "half a body": [http(b"fi", length=4), CLOSE],
    "no answer": [CLOSE],
    "no HTTP": [b"SSH-2.0-OpenSSH_9.2\r\n", CLOSE],
    "chunks that end early": [CHUNKED + b"5\r\nhel", CLOSE],
    "chunks of nonsense": [CHUNKED + b"zz\r\nhello\r\n", CLOSE],
    "two lengths": [http(b"fine", "Content-Length: 5"), CLOSE],
    "headers without end": [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, CLOSE],
    "another encoding than it says": [http(b"abc", "Content-Encoding: gzip")],
    "an encoding that ends early": [http(gzip.compress(b"fine" * 99)[:-9], "Content-Encoding: gzip")],
    "a server error": [http(b"oops", status="500 Internal Server Error")],
    "too many calls": [http(b"", "Retry-After: 7", status="429 Too Many Requests")],
}


@both
@pytest.mark.parametrize("how", WHOLE)
async def test_an_answer_that_is_whole(opened: Open, how: str) -> None:
    async with script(WHOLE[how], [OK]) as server:
        client = opened(server.url)
        assert await client.call(b'{"a": 1}') == b"fine"
        assert await client.call(b"{}") == b"fine"
        await client.close()
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert (head.split(b"\r\n")[0], body) == (b"POST /v1/generate?a=b HTTP/1.1", b'{"a": 1}')
    assert f"host: 127.0.0.1:{server.port}".encode() in head.lower()
    assert b"x-test: 1" in head.lower()
    assert server.connections == (2 if CLOSE in WHOLE[how] else 1)


@both
@pytest.mark.parametrize("how", BROKEN)
async def test_an_answer_that_is_not(opened: Open, how: str) -> None:
    if how == "an encoding that ends early" and opened is open_aiohttp:
        pytest.skip("aiohttp does not look")
    async with script(BROKEN[how], [OK]) as server:
        client = opened(server.url)
        failure = await client.call(b"{}")
        assert isinstance(failure, Failure)
        assert failure.fault is Fault.TRANSIENT
        assert failure.message
        assert (failure.retry_after, failure.overload) == (
            (7, True) if how == "too many calls" else (0, False)
        )
        assert await client.call(b"{}") == b"fine"
        await client.close()


@both
async def test_what_the_server_refuses(opened: Open) -> None:
    long = http(b"x" * 600_000, status="422 Unprocessable Entity")
    redirect = http(b"", "Location: http://127.0.0.1:1/", status="302 Found")
    async with script([http(b"no", status="400 Bad Request")], [long], [redirect], [OK]) as server:
        client = opened(server.url)
        failures = [await client.call(b"{}") for _ in range(3)]
        assert await client.call(b"{}") == b"fine"
        await client.close()
    assert all(isinstance(failure, Failure) and failure.fault is Fault.REFUSED for failure in failures)
    assert failures[0] == Failure(Fault.REFUSED, "status 400", 400, b"no")
    assert failures[1] == Failure(Fault.REFUSED, "status 422", 422, b"x" * call.KEPT_BODY_BYTES)
    assert isinstance(failures[2], Failure)
    assert "redirects are not followed, to http://127.0.0.1:1/" in failures[2].message


@both
@pytest.mark.parametrize(
    "late", [[NEVER], [OK[:10], NEVER], [OK[:-1], NEVER]], ids=["all", "the head", "the last byte"]
)
async def test_an_answer_that_takes_too_long(opened: Open, late: list[bytes | float]) -> None:
    """The next call has a connection of its own: on the old one the rest of the answer may still come."""
    async with script([OK], late) as server:
        client = opened(server.url)
        assert await client.call(b"{}") == b"fine"
        limit(client, 0.1)
        assert await client.call(b"{}") == call.TIMED_OUT
        limit(client, PATIENCE)
        # On a busy machine the time may be over before the server has read the request that is late.
        server.answers = [[OK]] * 3
        assert await client.call(b"{}") == b"fine"
        await client.close()
    assert server.connections == 2


@both
async def test_ten_megabytes_there_and_back(opened: Open) -> None:
    body = b"x" * 10_000_000
    async with script([http(body)], [CHUNKED + b"989680\r\n" + body + b"\r\n0\r\n\r\n"]) as server:
        client = opened(server.url)
        assert await client.call(body) == body
        assert await client.call(b"{}") == body
        await client.close()
    assert server.requests[0].endswith(body)


@both
@pytest.mark.parametrize("framing", ["length", "chunks", "end", "gzip"])
async def test_an_answer_that_is_too_long(
    opened: Open, framing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if framing == "gzip" and opened is open_aiohttp:
        pytest.skip("aiohttp has a limit of its own")
    monkeypatch.setattr(call, "MAX_ANSWER_BYTES", 1000)
    body = b"x" * 1001
    answer = {
        "length": http(body),
        "chunks": CHUNKED + b"3e9\r\n" + body + b"\r\n0\r\n\r\n",
        "end": b"HTTP/1.1 200 OK\r\n\r\n" + body,
        "gzip": http(gzip.compress(body), "Content-Encoding: gzip"),
    }[framing]
    async with script([answer, CLOSE]) as server:
        client = opened(server.url)
        failure = await client.call(b"{}")
        assert isinstance(failure, Failure)
        assert (failure.fault, failure.message) == (Fault.REFUSED, "the answer has more than 1000 bytes")
        await client.close()


@both
async def test_no_server_listens(opened: Open) -> None:
    async with script() as server:
        url = server.url
    client = opened(url)
    failure = await client.call(b"{}")
    assert isinstance(failure, Failure)
    assert failure.fault is Fault.UNREACHABLE
    await client.close()


@both
async def test_an_address_is_verified_before_each_new_connection(opened: Open) -> None:
    ours = True

    async def verify() -> None:
        if not ours:
            raise ForeignSession("another's")

    async with script([OK], [http(b"fine", "Connection: close"), CLOSE]) as server:
        client = opened(server.url, verify=verify)
        assert await client.call(b"{}") == b"fine"
        ours = False
        assert await client.call(b"{}") == b"fine"  # the connection is the one that was verified
        assert await client.call(b"{}") == Failure(Fault.FOREIGN, "another's")
        await client.close()
    assert len(server.requests) == 2


@both
async def test_a_pinned_client_connects_there_whatever_the_name(opened: Open) -> None:
    async with script([OK]) as server:
        client = opened(server.url.with_host("no-such-name.invalid"), host="127.0.0.1")
        assert await client.call(b"{}") == b"fine"
        await client.close()
    assert f"host: no-such-name.invalid:{server.port}".encode() in server.requests[0].lower()


@both
async def test_a_name_with_an_address_without_a_listener_and_another(opened: Open) -> None:
    async with script([OK], [OK]) as server:  # localhost is ::1 as well
        client = opened(server.url.with_host("localhost"))
        assert await client.call(b"{}") == b"fine"
        await client.close()
        client = opened(server.url.with_host("no-such-name.invalid"))
        failure = await client.call(b"{}")
        assert isinstance(failure, Failure)
        assert failure.fault is Fault.UNREACHABLE
        await client.close()


@both
async def test_a_cancelled_call_leaves_no_connection_that_waits_for_its_answer(opened: Open) -> None:
    async with script([NEVER], [OK]) as server:
        client = opened(server.url)
        task = asyncio.create_task(client.call(b"{}"))
        while not server.requests:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await client.call(b"{}") == b"fine"
        await client.close()
    assert server.connections == 2


async def test_what_follows_an_answer_belongs_to_no_request() -> None:
    """Bytes may come with the answer or later: the next call still gets its own answer. (aiohttp takes them
    for the next answer.)
    """
    async with script([OK + http(b"foreign")], [OK, 0.01, http(b"foreign")], [OK]) as server:
        client = open_plain(server.url)
        for _ in range(2):
            assert await client.call(b"{}") == b"fine"
            async with asyncio.timeout(PATIENCE):
                while any(connection.usable for connection in client._idle):  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0.001)
        assert await client.call(b"{}") == b"fine"
        await client.close()
    assert server.connections == 3


async def test_a_connection_that_waited_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "IDLE_SECONDS", 0.01)
    async with script([OK], [OK]) as server:
        client = open_plain(server.url)
        for _ in range(2):
            assert await client.call(b"{}") == b"fine"
            await asyncio.sleep(0.02)
        await client.close()
    assert server.connections == 2


async def test_a_header_cannot_hold_a_second_one() -> None:
    with pytest.raises(ValueError, match="'Authorization' has a line break"):
        PlainClient(URL("http://a"), 1.0, None, {"Authorization": "Bearer x\r\nX: y"}, None)


async def test_a_server_with_an_untrusted_certificate(tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(own_certificate(tmp_path))
    async with script([OK], tls=tls) as server:
        client = open_client(server.url.with_scheme("https"), PATIENCE)
        assert isinstance(client, AiohttpClient)
        failure = await client.call(b"{}")
        await client.close()
    assert isinstance(failure, Failure)
    assert failure.fault is Fault.UNTRUSTED
    assert "TLS failed" in failure.message
    assert "self-signed" in failure.message


async def test_no_file_of_passwords_stands_in_the_way_of_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password else")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    client = open_client(URL("https://127.0.0.1:1"), PATIENCE, headers={"Authorization": "Bearer key"})
    failure = await client.call(b"{}")
    await client.close()
    assert isinstance(failure, Failure)
    assert failure.fault is Fault.UNREACHABLE


def test_the_proxy_of_the_environment_is_for_https_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "inside")
    assert find_proxy(URL("https://outside/v1")) == "http://proxy:3128"
    assert find_proxy(URL("https://inside/v1")) is None
    assert find_proxy(URL("http://outside/v1")) is None


async def test_a_server_that_speaks_no_tls() -> None:
    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(http(b"what?", status="400 Bad Request"))
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        client = open_client(URL(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"), PATIENCE)
        failure = await client.call(b"{}")
        await client.close()
    assert isinstance(failure, Failure)
    assert (failure.fault, failure.message[:10]) == (Fault.UNTRUSTED, "TLS failed")


def own_certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "tls.pem").write_bytes(secret + certificate.public_bytes(pem))
    return folder / "tls.pem"


@pytest.mark.parametrize("client", [plain, aiohttp_client], ids=["plain", "aiohttp"])
async def test_json_that_is_got_from_a_url(client: Any) -> None:
    """An answer that is not a JSON object, or does not come whole, is one kind of error for both clients."""
    json = http(b'{"session": "ours"}', "Content-Type: application/json")
    async with script([json, CLOSE]) as server:
        assert await client.get_json(server.url) == {"session": "ours"}
        assert server.requests[0].startswith(b"GET /v1/generate?a=b HTTP/1.1\r\n")
    for answer in (
        http(b"{", "Content-Type: application/json"),
        http(b"", status="404 Not Found"),
        json[:-2],
    ):
        async with script([answer, CLOSE]) as server:
            with pytest.raises(OSError, match=r"http://127\.0\.0\.1"):
                await client.get_json(server.url)
    with pytest.raises(OSError):
        await client.get_json(server.url)


async def test_a_connection_that_opens_slowly_does_not_prolong_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first call's connection is still being opened when the second call takes the one that is idle."""
    opening = asyncio.Event()
    async with script([OK], [OK], [NEVER], [NEVER]) as server:
        client = open_plain(server.url)
        assert list(await asyncio.gather(client.call(b"{}"), client.call(b"{}"))) == [b"fine", b"fine"]
        slow, idle = client._idle

        async def open_slowly(deadline: float) -> object:
            await opening.wait()
            return slow

        monkeypatch.setattr(client, "_connect", open_slowly)
        client._idle = []
        limit(client, 0.1)
        earlier = asyncio.create_task(client.call(b"{}"))
        await asyncio.sleep(0)
        client._idle = [idle]
        limit(client, PATIENCE)
        later = asyncio.create_task(client.call(b"{}"))
        await asyncio.sleep(0)
        opening.set()
        assert await earlier == call.TIMED_OUT
        assert not later.done()
        later.cancel()
        await asyncio.gather(later, return_exceptions=True)
        await client.close()


@both
async def test_every_call_times_out_at_a_limit_of_its_own(opened: Open) -> None:
    async with script([OK], [OK], [NEVER], [NEVER]) as server:
        client = opened(server.url)
        assert list(await asyncio.gather(client.call(b"{}"), client.call(b"{}"))) == [b"fine", b"fine"]
        calls = []
        for seconds in (0.1, 0.2):
            limit(client, seconds)
            calls.append(asyncio.create_task(client.call(b"{}")))
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            assert await asyncio.gather(*calls) == [call.TIMED_OUT, call.TIMED_OUT]
        await client.close()
