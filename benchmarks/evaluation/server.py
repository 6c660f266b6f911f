"""A server that answers after a fixed time and costs as little CPU as Python can: `python -m ….server LATENCY_MS`.

Hand-written HTTP/1.1 on an asyncio protocol. Prints its port; ends when its standard input closes.
"""

import asyncio
import re
import sys
from typing import cast

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_BODY = b'{"text": "' + b"a" * 600 + b'"}'
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_BODY) + _BODY
)


class Server(asyncio.Protocol):
    """One connection."""

    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            found = _LENGTH.search(self._buffer, 0, end)
            size = end + 4 + (int(found[1]) if found else 0)
            if len(self._buffer) < size:
                return
            self._buffer = self._buffer[size:]
            if self._latency:
                asyncio.get_running_loop().call_later(self._latency, self._answer)
            else:
                self._answer()

    def _answer(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(ANSWER)


async def main(latency_ms: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Server(latency_ms / 1000), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    try:
        import uvloop

        uvloop.run(main(float(sys.argv[1])))
    except ImportError:
        asyncio.run(main(float(sys.argv[1])))
