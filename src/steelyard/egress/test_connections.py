"""The three clients against servers of this machine: a refused request never reaches one."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import aiohttp
import httpx
import pytest
import urllib3

from steelyard.egress.aiohttp_connector import AnswerTooLarge, make_guarded_session, read_bounded
from steelyard.egress.doubles import names_leading
from steelyard.egress.httpx_client import make_guarded_client
from steelyard.egress.urllib3_pools import GuardedPoolManager
from steelyard_schema.egress import EgressPolicy, EgressRefused

Call = Callable[[EgressPolicy, str], Awaitable[bytes]]
LOOPBACK = EgressPolicy(hosts=("http://127.0.0.1",), networks=("127.0.0.0/8",))


async def call_aiohttp(policy: EgressPolicy, url: str) -> bytes:
    async with make_guarded_session(policy) as session, session.get(url) as response:
        return await read_bounded(response, 100)


async def call_httpx(policy: EgressPolicy, url: str) -> bytes:
    def call() -> bytes:
        with make_guarded_client(policy, follow_redirects=True) as client:
            return client.get(url).content

    return await asyncio.to_thread(call)


async def call_urllib3(policy: EgressPolicy, url: str) -> bytes:
    def call() -> bytes:
        with GuardedPoolManager(policy, retries=urllib3.Retry(connect=0, redirect=3)) as pools:
            return pools.request("GET", url).data

    return await asyncio.to_thread(call)


@pytest.fixture(params=[call_aiohttp, call_httpx, call_urllib3], ids=["aiohttp", "httpx", "urllib3"])
def call(request: pytest.FixtureRequest) -> Call:
    chosen: Call = request.param
    return chosen


class Server:
    """An HTTP server on one address that notes who calls it."""

    def __init__(self, address: str, port: int = 0) -> None:
        self.hosts: list[str] = []
        self.location = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.hosts.append(self.headers["Host"])
                body = address.encode()
                self.send_response(302 if outer.location else 200)
                if outer.location:
                    self.send_header("Location", outer.location)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer((address, port), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    """Two servers on one port: the first is on an address that the tests allow, the second on one that they do not."""
    allowed = Server("127.0.0.2")
    forbidden = Server("127.0.0.3", allowed.port)
    yield allowed, forbidden
    allowed.close()
    forbidden.close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    return names_leading(monkeypatch)


ONLY_2 = EgressPolicy(hosts=("http://hooks.example", "http://*.example"), networks=("127.0.0.2/32",))


async def test_an_allowed_address_is_called(call: Call, servers: tuple[Server, Server]) -> None:
    policy = EgressPolicy(hosts=("http://127.0.0.2",), networks=("127.0.0.2/32",))
    assert await call(policy, f"http://127.0.0.2:{servers[0].port}/") == b"127.0.0.2"


async def test_a_name_keeps_its_name(
    call: Call, servers: tuple[Server, Server], names: dict[str, list[str]]
) -> None:
    names["hooks.example"] = ["127.0.0.2"]
    assert await call(ONLY_2, f"http://hooks.example:{servers[0].port}/") == b"127.0.0.2"
    assert servers[0].hosts == [f"hooks.example:{servers[0].port}"]


@pytest.mark.parametrize("host", ["127.0.0.3", "hooks.example", "[::ffff:127.0.0.3]"])
async def test_an_address_that_is_not_public_is_not_called(
    call: Call, servers: tuple[Server, Server], names: dict[str, list[str]], host: str
) -> None:
    names["hooks.example"] = ["127.0.0.3"]
    policy = EgressPolicy(hosts=("http://*",), networks=("127.0.0.2/32",))
    with pytest.raises(EgressRefused, match="an address that is not public"):
        await call(policy, f"http://{host}:{servers[1].port}/")
    assert servers[1].hosts == []


async def test_a_host_that_no_pattern_names_is_not_called(call: Call, servers: tuple[Server, Server]) -> None:
    policy = EgressPolicy(hosts=("http://127.0.0.9",), networks=("127.0.0.0/8",))
    with pytest.raises(EgressRefused, match=r"has no pattern for http://127\.0\.0\.2"):
        await call(policy, f"http://127.0.0.2:{servers[0].port}/")
    assert servers[0].hosts == []


@pytest.mark.parametrize("location", ["http://127.0.0.3:{port}/", "http://inside.example:{port}/"])
async def test_a_redirect_is_checked_as_well(
    call: Call, servers: tuple[Server, Server], names: dict[str, list[str]], location: str
) -> None:
    names["hooks.example"], names["inside.example"] = ["127.0.0.2"], ["127.0.0.3"]
    servers[0].location = location.format(port=servers[1].port)
    with pytest.raises(EgressRefused):
        await call(ONLY_2, f"http://hooks.example:{servers[0].port}/")
    assert (len(servers[0].hosts), servers[1].hosts) == (1, [])


async def test_a_name_that_leads_elsewhere_after_its_check_does_not_win(
    call: Call, servers: tuple[Server, Server], names: dict[str, list[str]]
) -> None:
    names["hooks.example"] = ["127.0.0.2", "127.0.0.3"]
    url = f"http://hooks.example:{servers[0].port}/"
    # Resolved once: the connection leads where the check looked.
    assert await call(ONLY_2, url) == b"127.0.0.2"
    with pytest.raises(EgressRefused):
        await call(ONLY_2, url)
    assert servers[1].hosts == []


async def test_no_proxy_of_the_environment_is_used(
    call: Call, servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.3:{servers[1].port}")
    policy = EgressPolicy(hosts=("http://127.0.0.2",), networks=("127.0.0.2/32",))
    assert await call(policy, f"http://127.0.0.2:{servers[0].port}/") == b"127.0.0.2"
    assert servers[1].hosts == []


async def test_an_absent_server_is_an_error_of_the_connection(
    call: Call, servers: tuple[Server, Server]
) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound and not listening: refused
        with pytest.raises(
            (aiohttp.ClientConnectorError, httpx.ConnectError, urllib3.exceptions.MaxRetryError)
        ):
            await call(LOOPBACK, f"http://127.0.0.1:{bound.getsockname()[1]}/")


async def test_an_answer_that_is_too_large_is_not_read(servers: tuple[Server, Server]) -> None:
    policy = EgressPolicy(hosts=("http://127.0.0.2",), networks=("127.0.0.2/32",))
    url = f"http://127.0.0.2:{servers[0].port}/"
    async with make_guarded_session(policy) as session, session.get(url) as response:
        with pytest.raises(AnswerTooLarge, match="has more than 8 bytes"):
            await read_bounded(response, 8)
