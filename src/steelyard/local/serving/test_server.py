"""Tests of a server that is kept running: one that listens no more, and does not end, is ended and started again."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from steelyard.local.serving import server as serving
from steelyard.local.serving.server import Server, answers, refuses

PROGRAM = """
import os, pathlib, signal, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
def close(*_):
    listener.close()
    while True:
        signal.pause()
signal.signal(signal.SIGUSR1, close)
pathlib.Path(sys.argv[2]).write_text(str(os.getpid()))
while True:
    connection, _ = listener.accept()
    connection.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n")
    connection.close()
"""


def make_plan(folder: Path, port: int) -> Any:
    kind = SimpleNamespace(
        title="Fake", ready_path="/ready", stage=lambda line: None, last_error=lambda lines, number: ""
    )
    return SimpleNamespace(
        kind=kind,
        environment=SimpleNamespace(version="0", variant="cpu"),
        serving=SimpleNamespace(name="fake", host="127.0.0.1", port=port),
        memory_text="needs little",
        fits=True,
        log=folder / "server.log",
        command=[sys.executable, "-c", PROGRAM, str(port), str(folder / "pid")],
        variables=dict(os.environ),
        url=f"http://127.0.0.1:{port}/v1",
    )


async def test_a_server_that_has_closed_its_port_is_ended_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "LISTENING_SECONDS", 0.1)
    # Bound and never listening: no other process gets the port, and the server may have it.
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        assert await refuses("127.0.0.1", port)
        said: list[str] = []
        server = Server(make_plan(tmp_path, port), said.append)
        await server.start()
        keeping = asyncio.create_task(server.keep())
        try:
            assert not await refuses("127.0.0.1", port)
            front = int((tmp_path / "pid").read_text())
            os.kill(front, signal.SIGUSR1)
            async with asyncio.timeout(60):
                while server.restarts == 0 or not await answers("127.0.0.1", port, "/ready"):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert "the server has closed its port, but does not end: it is ended" in said
        finally:
            await server.stop()
            await keeping
