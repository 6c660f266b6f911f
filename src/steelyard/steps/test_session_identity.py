"""The program that names its session on one port of the Pod."""

import asyncio
import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from queue import Queue

import pytest

from steelyard.steps.session_identity import serve


@pytest.fixture
def port() -> Iterator[int]:
    loop, listening = asyncio.new_event_loop(), Queue[int]()

    async def serve_until_stopped() -> None:
        server = await serve("0d19", "127.0.0.1", 0)
        listening.put(server.sockets[0].getsockname()[1])
        await stop.wait()
        server.close()

    stop = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve_until_stopped(),))
    thread.start()
    yield listening.get(timeout=60)
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


def test_says_its_session_on_one_connection(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(2):
        connection.request("GET", "/steelyard/session")
        assert json.loads(connection.getresponse().read()) == {"session": "0d19"}
    connection.request("GET", "/elsewhere")
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())) == (404, {"error": "there is no /elsewhere here"})
    connection.close()


def test_imports_nothing_heavy() -> None:
    code = "import steelyard.steps.session_identity, sys; print({m.partition('.')[0] for m in sys.modules})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("pydantic", "aiohttp", "pyarrow", "numpy", "yaml"):
        assert repr(heavy) not in out


def test_ends_in_order_on_sigterm() -> None:
    command = [sys.executable, "-m", "steelyard.steps.session_identity", "--session", "s", "--port", "0"]
    with subprocess.Popen([*command, "--host", "127.0.0.1"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert json.loads(child.stdout.readline())["session"] == "s"
        child.terminate()
        assert child.wait(10) == 0
