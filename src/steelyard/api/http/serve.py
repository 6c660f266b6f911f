"""Serves the API by uvicorn in a running event loop, until it is told to stop. Signals are the caller's business."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn

from steelyard.api.http.app import App

DRAIN_SECONDS = 5
"""How long requests in flight may take to end after `stop`."""


class _Server(uvicorn.Server):
    """uvicorn's, without its signal handlers, saying when it listens."""

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
    """Until `stop`. `ready` is told the bound URL; port 0 is one that is free. Raises OSError, and what is fatal.

    However it ends, nothing is answered any more.
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
            beginning = asyncio.create_task(_happened(listens))
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


async def _happened(event: asyncio.Event) -> None:
    await event.wait()


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
