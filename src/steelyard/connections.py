"""aiohttp's connections, none of which outlives the close of its session."""

import asyncio
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler


class TrackingConnector(aiohttp.TCPConnector):
    """Ends at its close also the connections that aiohttp has let go.

    A request that is cancelled, or a watch that is left, closes its connection in TLS's good order, which waits for the
    peer's last word; aiohttp does not count it any more. If the loop ends meanwhile, the socket stays open.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._transports: dict[ResponseHandler, asyncio.WriteTransport] = {}
        self._factory: Any = lambda: _Tracked(self)

    async def close(self, **options: Any) -> None:
        await super().close(**options)
        for transport in self._transports.values():
            transport.abort()
        # One turn of the loop closes the socket; the others report that to TLS, and from TLS to the protocol.
        for _ in range(3):
            await asyncio.sleep(0)

    def track(self, protocol: ResponseHandler, transport: asyncio.WriteTransport) -> None:
        """Remember the connection until it ends; end it now, if it was being opened at the close."""
        self._transports[protocol] = transport
        if self.closed:
            transport.abort()

    def forget(self, protocol: ResponseHandler) -> None:
        self._transports.pop(protocol, None)


class _Tracked(ResponseHandler):
    def __init__(self, connector: TrackingConnector) -> None:
        super().__init__(asyncio.get_running_loop())
        self._connector = connector

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # uvloop's transports are no subclass of asyncio's.
        self._connector.track(self, cast(asyncio.WriteTransport, transport))

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connector.forget(self)
        super().connection_lost(exc)
