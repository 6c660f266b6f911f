"""aiohttp's connections: they end with their session, and close nothing that belongs to another."""

import asyncio
import os
import socket
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler


class OwnedSocket(socket.socket):
    """A socket that closes its descriptor only while the descriptor is still its own.

    uvloop closes the descriptor of a connection that the peer resets in the moment it is made, without telling the
    socket. Whatever has the same number then, a file or another connection, would be closed with the socket: libuv ends
    the process when it finds a connection's descriptor closed.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._inode = os.fstat(self.fileno()).st_ino

    def _real_close(self) -> None:
        self._let_go()
        super()._real_close()  # type: ignore[misc]  # of socket.socket; close() calls it

    def __del__(self) -> None:
        self._let_go()
        self.close()

    def _let_go(self) -> None:
        try:
            own = self.fileno() < 0 or os.fstat(self.fileno()).st_ino == self._inode
        except OSError:
            own = False
        if not own:
            self.detach()


def make_socket(info: tuple[Any, Any, int, str, tuple[Any, ...]]) -> socket.socket:
    """Return the socket for one address, as a connector asks for it."""
    family, type_, proto, _, _ = info
    return OwnedSocket(family, type_, proto)


class TrackingConnector(aiohttp.TCPConnector):
    """Ends at its close also the connections that aiohttp has let go.

    A request that is cancelled, or a watch that is left, closes its connection in TLS's good order, which waits for the
    peer's last word; aiohttp does not count it any more. If the loop ends meanwhile, the socket stays open.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"socket_factory": make_socket, **options})
        self._transports: dict[ResponseHandler, asyncio.WriteTransport] = {}
        self._factory: Any = lambda: _TrackedHandler(self)

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


class _TrackedHandler(ResponseHandler):
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
