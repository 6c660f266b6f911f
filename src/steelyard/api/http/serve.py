"""Serves the API by uvicorn in a running event loop until an event is set. Signals are the caller's business."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from steelyard.api.http.app import App
from steelyard.api.platform import Api
from steelyard_common.serving.bounded import ACCEPTED, BoundedConnection, Door, bind, listen_for_many
from steelyard_common.serving.hosts import Hosts, find_host

DRAIN_SECONDS = 5
"""Time in which requests in flight may end after `stop`."""
WORD_SECONDS = 0.1
"""Time in which open streams say that they end."""
_SOCKET_BYTES = 64 << 10
"""Maximum size of a message of a WebSocket: those of this API only listen, and nobody has to say anything."""
_SOCKET_FRAMES = 64
_UNREAD_BYTES = 1 << 20
"""Bytes that a WebSocket may have to send before its caller is dropped, which sends pings and takes no answers."""


class _Socket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, with a bound for messages in many frames and for answers that are not taken."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if len(self.frames) > _SOCKET_FRAMES or self.transport.get_write_buffer_size() > _UNREAD_BYTES:
            self.transport.abort()


def _works(protocol: HttpToolsProtocol) -> bool:
    # None before the first request, whatever its type says.
    cycle: RequestResponseCycle | None = protocol.cycle
    return cycle is not None and not cycle.response_complete


def _begun(protocol: HttpToolsProtocol) -> bool:
    return protocol.cycle.response_started or bool(protocol.pipeline)


class _Doorway:
    """Makes the protocol of a connection, as uvicorn asks for it: one door for all of a server."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._door: Door | None = None  # uvicorn gives the parts of a protocol with each connection

    def close(self) -> None:
        if self._door is not None:
            self._door.close()

    def __call__(self, **parts: Any) -> BoundedConnection:
        if self._door is None:
            self._door = Door(lambda: HttpToolsProtocol(**parts), _works, _begun, self._hosts)
        return self._door()


class _Server(uvicorn.Server):
    """uvicorn's server, without its signal handlers; calls a function once it listens."""

    def __init__(self, config: uvicorn.Config, listens: Callable[[], None]) -> None:
        super().__init__(config)
        self._listens = listens

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for taken in sockets or ():
            listen_for_many(taken.fileno())
        if self.started:
            self._listens()


async def serve(
    app: App,
    host: str,
    port: int,
    *,
    stop: asyncio.Event,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until `stop` is set; call `ready` with the URL once requests are answered. Port 0 stands for a free one.

    Raises OSError for an address that cannot be bound, and the error of a background task that failed. However this
    function ends, nothing is served any more.
    """
    settings = app.api.platform.settings
    hosts = Hosts((*settings.hosts, *find_host(settings.public_url), host), setting="api.hosts")
    doorway = _Doorway(hosts)
    config = uvicorn.Config(
        app,
        http=cast(Any, doorway),
        ws=_Socket,
        ws_max_size=_SOCKET_BYTES,
        lifespan="off",
        log_config=None,
        access_log=False,
        backlog=ACCEPTED,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    with bind(host, port) as listening:
        address = f"[{host}]" if ":" in host else host
        url = f"http://{address}:{listening.getsockname()[1]}"
        async with app.running() as tasks:
            await app.api.completeness.wait()
            listens = asyncio.Event()
            server = _Server(config, listens.set)
            serving = asyncio.create_task(server.serve([listening]))
            stopping = asyncio.create_task(_end_server(stop, server, app.api))
            beginning: asyncio.Task[Any] = asyncio.create_task(listens.wait())
            try:
                await asyncio.wait([beginning, serving, tasks], return_when=asyncio.FIRST_COMPLETED)
                if ready and listens.is_set():
                    ready(url)
                await asyncio.wait([serving, tasks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                server.should_exit = True
                stopping.cancel()
                beginning.cancel()
                await serving
                doorway.close()
            if tasks.done():
                tasks.result()


async def _end_server(stop: asyncio.Event, server: uvicorn.Server, api: Api) -> None:
    """Wait for `stop`, go on until no new requests come any more, then end the streams, and then the server."""
    await stop.wait()
    api.draining = True
    await asyncio.sleep(api.platform.settings.drain_seconds or 0)
    api.ending.set()
    if server.server_state.connections:
        await asyncio.sleep(WORD_SECONDS)
    server.should_exit = True
