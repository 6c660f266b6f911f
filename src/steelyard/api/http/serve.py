"""Serves the API by uvicorn in a running event loop until an event is set. Signals are the caller's business."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from steelyard.api.http.app import App

DRAIN_SECONDS = 5
"""Time in which requests in flight may end after `stop`."""


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
        if self.started:
            self._listens()


async def serve(
    app: App, host: str, port: int, *, stop: asyncio.Event, ready: Callable[[str], None] | None = None
) -> None:
    """Serve until `stop` is set; call `ready` with the URL once requests are answered. Port 0 stands for a free one.

    Raises OSError for an address that cannot be bound, and the error of a background task that failed. However this
    function ends, nothing is served any more.
    """
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="websockets-sansio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    with _bound(host, port) as listening:
        address = f"[{host}]" if ":" in host else host
        url = f"http://{address}:{listening.getsockname()[1]}"
        async with app.running() as tasks:
            await app.api.completeness.wait()
            listens = asyncio.Event()
            server = _Server(config, listens.set)
            serving = asyncio.create_task(server.serve([listening]))
            stopping = asyncio.create_task(_end_server(stop, server))
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
            if tasks.done():
                tasks.result()


async def _end_server(stop: asyncio.Event, server: uvicorn.Server) -> None:
    await stop.wait()
    server.should_exit = True


@contextlib.contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(2048)
        yield listening
