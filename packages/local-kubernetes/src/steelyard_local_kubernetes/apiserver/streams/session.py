"""Sessions that a WebSocket carries: a command, or a Pod's ports. `core.py` finds them, `transport.py` runs them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.messages import Request

Send = Callable[[bytes], Awaitable[None]]


class Session(Protocol):
    """One connection; `protocols` are those that a client may choose from."""

    @property
    def protocols(self) -> tuple[str, ...]: ...

    async def run(self, protocol: str | None, messages: AsyncIterator[bytes], send: Send) -> None:
        """Serve the client until either side ends; `protocol` is None for a client that names none."""


def connection_options(request: Request, subresource: str) -> Json:
    """Options of a connection as an object, which webhooks are shown."""
    if subresource == "proxy":
        path = request.path.partition("/proxy/")[2]
        return {"path": f"/{path}"} if path else {}
    if subresource == "portforward":
        ports = [
            int(text)
            for value in request.all_values("ports")
            for text in value.split(",")
            if text.isdecimal()
        ]
        return {"ports": ports} if ports else {}
    options: Json = {name: True for name in ("stdin", "stdout", "stderr", "tty") if request.flag(name)}
    if container := request.query.get("container"):
        options["container"] = container
    if subresource == "exec" and (command := list(request.all_values("command"))):
        options["command"] = command
    return options


def check_upgrade(request: Request) -> None:
    """Refuse a request that asks for no connection."""
    if not request.headers.get("upgrade"):
        raise errors.bad_request("Upgrade request required")


def check_websocket(request: Request, subresource: str) -> None:
    """Refuse any other protocol than WebSocket: SPDY, which older clients try."""
    if request.headers["upgrade"].lower() != "websocket":
        raise errors.not_implemented(f"this server serves pods/{subresource} over WebSocket alone")
