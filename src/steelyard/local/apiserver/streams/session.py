"""Sessions that a WebSocket carries: a command, or a Pod's ports. `core.py` finds them, `transport.py` runs them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from steelyard.local.apiserver import errors
from steelyard.local.apiserver.messages import Request

Send = Callable[[bytes], Awaitable[None]]


class Session(Protocol):
    """One connection; `protocols` are those that a client may choose from."""

    @property
    def protocols(self) -> tuple[str, ...]: ...

    async def run(self, protocol: str | None, messages: AsyncIterator[bytes], send: Send) -> None:
        """Serve the client until either side ends; `protocol` is None for a client that names none."""


def check_upgrade(request: Request, subresource: str) -> None:
    """Refuse what is no WebSocket, SPDY too, which older clients try; newer ones then go on with what is served."""
    upgrade = request.headers.get("upgrade", "").lower()
    if not upgrade:
        raise errors.bad_request("Upgrade request required")
    if upgrade != "websocket":
        raise errors.not_implemented(f"this server serves pods/{subresource} over WebSocket alone")
