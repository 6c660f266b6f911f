"""`pods/attach`: the streams of a running container itself. `core.py` finds it, `transport.py` carries it.

A container with `stdin` or `tty` has a socket of its shim's; of another one the output is its log from now on.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import orjson

from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.execution import (
    ERROR,
    PROTOCOLS,
    STDERR,
    STDOUT,
    exit_status,
    read_streams,
)
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.logs import choose_container
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.streams.session import Send
from steelyard_local_kubernetes.kubelet.attach import PACKET, connect
from steelyard_local_kubernetes.kubelet.records import PodFolder, Run

POLL_SECONDS = 0.1
_BLOCK = 1 << 16
_CHANNELS = {b"stdout": STDOUT, b"stderr": STDERR}


@dataclass(frozen=True)
class Attachment:
    """A container, and which of its streams the client asks for."""

    folder: PodFolder
    container: str
    run_: Run
    stdin: bool
    channels: frozenset[int]
    protocols = PROTOCOLS

    async def run(self, protocol: str | None, messages: AsyncIterator[bytes], send: Send) -> None:
        base = self.folder.base(self.container, self.run_.attempt)
        connection = _connection(base)
        with connection or _log_from_now(base.with_suffix(".log")) as source:
            # Only now does the client hear that all is set up: what it causes from then on is shown.
            await send(bytes([STDOUT if STDOUT in self.channels else ERROR]))
            if isinstance(source, socket.socket):
                showing = asyncio.create_task(self._show(source, send))
                calling = asyncio.create_task(_send_on(messages, source, has_input=self.stdin))
            else:
                showing = asyncio.create_task(self._show_log(source, send))
                calling = asyncio.create_task(_ignore(messages))
            try:
                await asyncio.wait([showing, calling], return_when=asyncio.FIRST_COMPLETED)
                # A container that ends while input is on its way is noticed here first: its last output and its end
                # follow.
                if calling.done() and not calling.exception() and calling.result():
                    await asyncio.wait([showing])
                if showing.done():
                    await send(bytes([ERROR]) + orjson.dumps(exit_status(0)))
            finally:
                for task in (showing, calling):
                    task.cancel()
                await asyncio.gather(showing, calling, return_exceptions=True)

    async def _show(self, connection: socket.socket, send: Send) -> None:
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError):
            while packet := await loop.sock_recv(connection, PACKET):
                if packet[0] in self.channels:
                    await send(packet)

    async def _show_log(self, log: BinaryIO, send: Send) -> None:
        """Send the lines that follow in the log, until the run has ended."""
        rest = b""
        while True:
            ended = not self._runs()  # asked before reading: what was written by then is read
            rest += log.read(_BLOCK)
            whole, _, rest = rest.rpartition(b"\n")
            for line in whole.split(b"\n") if whole else ():
                _, stream, tag, text = [*line.split(b" ", 3), b"", b"", b""][:4]
                channel = _CHANNELS.get(stream, ERROR)
                if channel in self.channels:
                    await send(bytes([channel]) + text + (b"" if tag == b"P" else b"\n"))
            if ended and not whole:
                return
            if not whole:
                await asyncio.sleep(POLL_SECONDS)

    def _runs(self) -> bool:
        run = self.folder.run(self.container, self.run_.attempt)
        return run is not None and run.state == "running"


def prepare_attachment(pods: Path | None, request: Request, item: Item) -> Attachment:
    if pods is None:
        raise errors.not_implemented("this server has no folder of Pods, and so nothing to attach to")
    streams = read_streams(request)
    container = choose_container(item.parse(), request.query.get("container", ""))
    folder = PodFolder(pods / item.uid)
    run = folder.run(container)
    if run is None or run.state != "running":
        raise errors.Refusal(500, "InternalError", f'container not found ("{container}")')
    requested = {STDOUT: streams["stdout"] or streams["tty"], STDERR: streams["stderr"]}
    channels = frozenset(channel for channel, is_wanted in requested.items() if is_wanted)
    return Attachment(folder, container, run, streams["stdin"], channels)


def _connection(base: Path) -> socket.socket | None:
    """The shim's socket; None of a container without one, or one that has just ended."""
    try:
        return connect(str(base))
    except OSError:
        return None


def _log_from_now(path: Path) -> BinaryIO:
    """Open a log at its end; one that went with its Pod in this moment is empty."""
    try:
        log = path.open("rb")
    except FileNotFoundError:
        return BytesIO()
    log.seek(0, os.SEEK_END)
    return log


async def _send_on(messages: AsyncIterator[bytes], connection: socket.socket, *, has_input: bool) -> bool:
    """Give the container its input; return whether it has ended, rather than the client gone."""
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(connection, b"i" if has_input else b"o")
        async for message in messages:
            # A packet holds what one read of the shim takes; an empty one would be the end.
            for at in range(1, max(2, len(message)) if message else 0, PACKET // 2):
                await loop.sock_sendall(connection, message[:1] + message[at : at + PACKET // 2])
    except ConnectionError:
        return True
    return False


async def _ignore(messages: AsyncIterator[bytes]) -> bool:
    async for _ in messages:
        pass
    return False
