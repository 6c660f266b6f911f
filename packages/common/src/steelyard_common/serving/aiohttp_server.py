"""Servers of aiohttp behind a bounded door."""

import asyncio
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from steelyard_common.serving.bounded import ACCEPTED, Door, RefusalBody, bind, detail, listen_for_many
from steelyard_common.serving.hosts import Hosts
from steelyard_common.serving.limits import default_limits

KEEP_ALIVE_SECONDS = 75.0
"""Time for which a connection without a request stays open: longer than clients keep theirs."""
HANDSHAKE_SECONDS = 10.0


REFUSAL_BODY: web.AppKey[RefusalBody] = web.AppKey("REFUSAL_BODY")
"""Key of an application whose callers read refusals in a form of its own."""


def door(server: web.Server, *, hosts: Hosts | None = None, body: RefusalBody = detail) -> Door:
    """Return a factory of connections for `loop.create_server`."""
    return Door(server, _works, _begun, hosts or Hosts(), body=body)


def _works(protocol: Any) -> bool:
    return protocol._current_request is not None  # aiohttp tells it nowhere else


def _begun(protocol: Any) -> bool:
    return bool(protocol._current_request.writer.output_size)


@asynccontextmanager
async def serving_app(
    app: web.Application,
    host: str | Sequence[str] | None = None,
    port: int = 0,
    *,
    listening: socket.socket | None = None,
    tls: ssl.SSLContext | None = None,
    hosts: Hosts | None = None,
    **options: Any,
) -> AsyncIterator[tuple[str, int]]:
    """Serve the application while the block runs; yields the address. Raises OSError where it cannot listen.

    `options` are those of aiohttp's AppRunner.
    """
    # The door is stricter: an error has one text, whatever the server.
    bounds = dict.fromkeys(
        ("max_line_size", "max_field_size", "max_headers"), 2 * default_limits().head_bytes
    )
    settings: dict[str, Any] = {
        "access_log": None,
        "keepalive_timeout": KEEP_ALIVE_SECONDS,
        **bounds,
        **options,
    }
    runner = web.AppRunner(app, **settings)
    await runner.setup()
    try:
        assert runner.server is not None
        factory = door(runner.server, hosts=hosts, body=app.get(REFUSAL_BODY, detail))
        loop = asyncio.get_running_loop()
        secure: dict[str, Any] = {"ssl": tls, "ssl_handshake_timeout": HANDSHAKE_SECONDS if tls else None}
        if listening is None and host == "::":  # asyncio's own would take IPv6 alone
            listening = bind(host, port)
        if listening is None:
            listener = await loop.create_server(
                factory, host, port, backlog=ACCEPTED, reuse_address=True, **secure
            )
        else:
            listener = await loop.create_server(factory, sock=listening, backlog=ACCEPTED, **secure)
        try:
            for taken in listener.sockets:
                listen_for_many(taken.fileno())
            yield listener.sockets[0].getsockname()[:2]
        finally:
            listener.close()
            factory.close()  # aiohttp would wait for them, too
    finally:
        await runner.cleanup()


def run(
    app: web.Application,
    host: str,
    port: int,
    *,
    ready: Callable[[], None],
    hosts: Hosts | None = None,
    shutdown_timeout: float = 5.0,
) -> None:
    """Serve until SIGTERM or SIGINT; calls in flight get their answers. Raises OSError where it cannot listen."""

    async def serve() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with serving_app(app, host, port, hosts=hosts, shutdown_timeout=shutdown_timeout):
            ready()
            await stop.wait()

    asyncio.run(serve())
