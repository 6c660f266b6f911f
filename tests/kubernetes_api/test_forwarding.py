"""`pods/portforward`: kubectl's tunnel of SPDY in a WebSocket, the Python client's channels, and what neither sends."""

import asyncio
import contextlib
import re
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.streams.forwarding import CHANNELS, TUNNEL
from steelyard_local_kubernetes.apiserver.streams.spdy import PING, SYN_REPLY, Frame, Spdy
from tests.kubernetes_api.api import Api, pod
from tests.kubernetes_api.conftest import Server
from tests.kubernetes_api.test_kubectl import Kubectl, kc

__all__ = ["kc"]
ADDRESS = "127.9.8.7"


@pytest.fixture
async def running(embedded: Server, api: Api, core: str) -> str:
    """A Pod `p` that runs at `ADDRESS`."""
    (await api.post(f"{core}/pods", pod("p", nodeName="localhost"))).ok(201)
    status: Json = {"phase": "Running", "podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}
    status["conditions"] = [{"type": "Ready", "status": "True"}]
    (await api.merge(f"{core}/pods/p/status", {"status": status})).ok(200)
    return f"{core}/pods/p"


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """The port of a program that says everything twice, and `bye` at the end."""

    answering: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            while block := await reader.read(1 << 16):
                writer.write(block * 2)
                await writer.drain()
            writer.write(b"bye")

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.add(asyncio.create_task(answer(reader, writer)))

    server = await asyncio.start_server(accept, ADDRESS, 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    # A connection that is still open would be found unclosed within some later test.
    for task in answering:
        task.cancel()
    await asyncio.gather(*answering, return_exceptions=True)


@contextlib.asynccontextmanager
async def forwarded(kc: Kubectl, what: str, port: int) -> AsyncIterator[int]:
    """The local port of `kubectl port-forward`."""
    process = kc.start("port-forward", what, f":{port}")
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), 20)
        match = re.search(r"127.0.0.1:(\d+) ->", line)
        assert match, line
        yield int(match[1])
    finally:
        process.kill()
        process.communicate()


async def exchanged(port: int, content: bytes) -> bytes:
    """All that is answered to bytes that have an end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(content)
    writer.write_eof()
    async with asyncio.timeout(30):
        answer = await reader.read()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return answer


async def test_kubectl_forwards_a_port(kc: Kubectl, running: str, echo: int) -> None:
    large = bytes(range(256)) * 8192
    async with forwarded(kc, "pod/p", echo) as port:
        assert await exchanged(port, b"hello") == b"hellohellobye"
        answers = await asyncio.gather(*(exchanged(port, b"%d" % number) for number in range(20)))
        assert answers == [b"%d%dbye" % (number, number) for number in range(20)]
        answer = await exchanged(port, large)
        assert len(answer) == 2 * len(large) + 3


async def test_one_connection_that_is_not_read_holds_up_no_other(
    kc: Kubectl, running: str, echo: int
) -> None:
    async with forwarded(kc, "pod/p", echo) as port:
        _, slow = await asyncio.open_connection("127.0.0.1", port)
        slow.write(b"x" * 100_000)
        assert await exchanged(port, b"hello") == b"hellohellobye"
        slow.transport.abort()
        assert await exchanged(port, b"again") == b"againagainbye"


async def test_a_port_without_a_listener(kc: Kubectl, running: str) -> None:
    process = kc.start("port-forward", "pod/p", ":9", stderr=subprocess.PIPE)
    assert process.stdout is not None
    match = re.search(r":(\d+) ->", await asyncio.to_thread(process.stdout.readline))
    assert match
    assert await exchanged(int(match[1]), b"hello") == b""
    _, said = await asyncio.to_thread(process.communicate, timeout=120)
    assert f"dial tcp4 {ADDRESS}:9: connect: connection refused" in said


async def test_ports_of_a_pod_that_does_not_run(embedded: Server, api: Api, core: str) -> None:
    (await api.post(f"{core}/pods", pod("q", nodeName="localhost"))).ok(201)
    answer = await upgraded(api, f"{core}/pods/q/portforward")
    assert answer == (400, "pod q is not running")


async def upgraded(api: Api, path: str, upgrade: str = "websocket") -> tuple[int, str]:
    headers = api.headers | {
        "Upgrade": upgrade, "Connection": "Upgrade", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version": "13",
    }  # fmt: skip
    async with api.session().get(api.url + path, headers=headers) as answer:
        return answer.status, (await answer.json())["message"]


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ("", (500, 'container not found ("main")')),
        ("&container=other", (400, "container other is not valid for pod p")),
    ],
)
async def test_spdy_hears_what_is_wrong_before_it_hears_that_it_is_not_served(
    api: Api, running: str, container: str, expected: tuple[int, str]
) -> None:
    """kubectl tries SPDY once its WebSocket was refused, and shows the answer to that."""
    query = f"?command=true&stdout=true{container}"
    assert await upgraded(api, f"{running}/exec{query}", "SPDY/3.1") == expected


@pytest.mark.parametrize(
    ("query", "upgrade", "expected"),
    [
        ("?ports=0", "websocket", (400, 'unable to parse "0" as a port')),
        ("?ports=80,x", "websocket", (400, 'unable to parse "x" as a port')),
        ("", "SPDY/3.1", (501, "this server serves pods/portforward over WebSocket alone")),
    ],
)
async def test_connections_that_are_refused(
    api: Api, running: str, query: str, upgrade: str, expected: tuple[int, str]
) -> None:
    assert await upgraded(api, f"{running}/portforward{query}", upgrade) == expected


async def test_a_request_that_asks_for_no_connection(api: Api, running: str) -> None:
    answer = await api.get(f"{running}/portforward")
    assert (answer.status, answer.message) == (400, "Upgrade request required")


# A program of its own, since the client leaves its sockets to the end of it.
PYTHON = """
import sys
from kubernetes import client, config
from kubernetes.stream import portforward
config.load_kube_config(sys.argv[1])
call = client.CoreV1Api().connect_get_namespaced_pod_portforward
ports = portforward(call, "p", sys.argv[2], ports=sys.argv[3])
socket = ports.socket(int(sys.argv[3]))
socket.settimeout(20)
socket.sendall(b"hello")
print(socket.recv(10))
refused = portforward(call, "p", sys.argv[2], ports="9")
refused.socket(9).settimeout(20)
print(refused.socket(9).recv(1), refused.error(9))
"""


async def test_the_python_client_forwards_ports(
    kubeconfig: Path, namespace: str, running: str, echo: int
) -> None:
    command = [sys.executable, "-c", PYTHON, str(kubeconfig), namespace, str(echo)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "b'hellohello'"
    assert second.startswith("b'' error forwarding port 9 to pod p")
    assert second.endswith(f"dial tcp4 {ADDRESS}:9: connect: connection refused")


@contextlib.asynccontextmanager
async def connection(api: Api, path: str, *protocols: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    assert isinstance(api.tls, ssl.SSLContext)
    url, headers = api.url + path, api.headers
    async with api.session().ws_connect(url, headers=headers, protocols=protocols) as socket:
        yield socket


async def frames(socket: aiohttp.ClientWebSocketResponse, spdy: Spdy, count: int) -> list[Frame]:
    received: list[Frame] = []
    while len(received) < count:
        received += spdy.read(await socket.receive_bytes(timeout=120))
    return received


async def test_frames_of_the_tunnel(api: Api, running: str, echo: int) -> None:
    async with connection(api, f"{running}/portforward", TUNNEL) as socket:
        assert socket.protocol == TUNNEL
        spdy, headers = Spdy(), {"port": str(echo), "requestid": "0"}
        await socket.send_bytes(spdy.ping(1) + spdy.open(1, {**headers, "streamtype": "error"}))
        # A frame may come in parts, and parts of two frames together.
        opened = spdy.open(3, {**headers, "streamtype": "data"}) + spdy.data(3, b"hello", fin=True)
        for at in range(0, len(opened), 7):
            await socket.send_bytes(opened[at : at + 7])
        received = await frames(socket, spdy, 5)
        assert {(frame.kind, frame.stream) for frame in received[:3]} == {
            (PING, 1), (SYN_REPLY, 1), (SYN_REPLY, 3)
        }  # fmt: skip
        while not received[-1].fin or received[-1].stream != 1:
            received += await frames(socket, spdy, 1)
        assert b"".join(frame.data for frame in received if (frame.kind, frame.stream) == (0, 3)) == (
            b"hellohellobye"
        )


BOMB = Spdy().open(1, {"a": "x" * 10_000_000})


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="HTTP"),
        pytest.param(b"\x80\x02\x00\x01" + b"\0" * 20, id="another version"),
        pytest.param(b"\x80\x03\x00\x01\0\0\0\x0c" + b"\0" * 12, id="headers that are not compressed"),
        pytest.param(b"\x80\x03\x00\x01\0\0\0\x02\0\0", id="a stream without a number"),
        pytest.param(b"\0\0\0\x01\0\xff\xff\xff", id="a frame of 16 MB"),
        pytest.param(BOMB, id="headers of 10 MB"),
    ],
)
async def test_what_is_no_tunnel_is_ended(api: Api, running: str, content: bytes) -> None:
    async with connection(api, f"{running}/portforward", TUNNEL) as socket:
        await socket.send_bytes(content)
        async with asyncio.timeout(60):
            assert (await socket.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)


async def test_protocols_that_are_not_served(api: Api, running: str) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with connection(api, f"{running}/portforward", CHANNELS):
            pass  # it needs ports
    assert refused.value.status == 400
