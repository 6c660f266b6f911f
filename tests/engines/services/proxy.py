"""A proxy between clients and a server, which can cut them off from each other, or answer late.

Cut off means silence, as of a network that drops every packet, or a server that is suspended: connections are neither
refused nor closed, data are not acknowledged by the program at the other end, and data under way arrive once the
network is whole again.
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CHUNK = 1 << 16
QUEUED = 64
"""Chunks under way in one direction of a connection; then the proxy reads no more."""


class Proxy:
    """Forwards TCP connections to `host:target` from a free port of its own, `port`, in a thread of its own."""

    def __init__(self, target: int, host: str) -> None:
        self.port = 0
        self._host, self._target = host, target
        self._loop = asyncio.new_event_loop()
        self._whole = asyncio.Event()
        self._whole.set()
        self._delay = 0.0
        self._listening = threading.Event()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def start(self) -> None:
        """Listen. Raises RuntimeError where no port can be had."""
        self._thread.start()
        if not self._listening.wait(10) or not self.port:
            raise RuntimeError(f"the proxy of port {self._target} does not listen")

    def cut(self) -> None:
        """Let nothing through until `heal`."""
        self._loop.call_soon_threadsafe(self._whole.clear)

    def heal(self) -> None:
        """Let everything through, first of all the data held back."""
        self._loop.call_soon_threadsafe(self._whole.set)

    def slow_down(self, seconds: float) -> None:
        """Hand every answer of the server on that many seconds after it came; 0 for at once."""
        self._delay = seconds

    def stop(self) -> None:
        """End all connections."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        connections: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._forward(reader, writer))
            connections.add(task)
            task.add_done_callback(connections.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", None, limit=CHUNK)
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._ended.wait()
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _forward(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                stack.callback(to_client.transport.abort)
                await self._whole.wait()
                server, to_server = await asyncio.open_connection(self._host, self._target, limit=CHUNK)
                stack.callback(to_server.transport.abort)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pump(client, to_server, late=False))
                    group.create_task(self._pump(server, to_client, late=True))
        except* OSError:
            pass  # one side has ended the connection, which ends the other's

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, late: bool) -> None:
        """Hand on what comes from one side, and its end."""
        chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(QUEUED)

        async def read() -> None:
            chunk = b"."
            while chunk:
                try:
                    chunk = await source.read(CHUNK)
                except ConnectionError:
                    chunk = b""
                await chunks.put((self._loop.time() + (self._delay if late else 0.0), chunk))

        async with asyncio.TaskGroup() as group:
            group.create_task(read())
            chunk = b"."
            while chunk:
                due, chunk = await chunks.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                await self._whole.wait()
                if chunk:
                    target.write(chunk)
                    await target.drain()
                elif target.can_write_eof():
                    with contextlib.suppress(OSError):  # the other side has closed the connection meanwhile
                        target.write_eof()


@contextmanager
def proxy(target: int, host: str = "127.0.0.1") -> Iterator[Proxy]:
    """A proxy of a server's port."""
    running = Proxy(target, host)
    running.start()
    try:
        yield running
    finally:
        running.stop()
