"""`python -m steelyard.steps.session_identity --session ID`.

Says which session this Pod serves, on port 8001 of the Pod's address.

The evaluation client asks at connect, so that an address taken over by another session never scores its
model. It stands in every session Pod, hence the standard library alone, and a few rules in place of a server's many: a
head of one piece or several and no body, and the connection that was silent for longest goes when there are too many.
"""

import argparse
import asyncio
import json
import os
import signal

from steelyard_common.serving.hosts import Hosts
from steelyard_common.serving.limits import HttpLimits, default_limits

IDLE_SECONDS = 60.0
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 421: "Misdirected Request"}
_END = b"\r\n\r\n"


class _Connection(asyncio.Protocol):
    """One connection; `others` are all of the server, the one that was heard last as the last one."""

    def __init__(self, session: str, others: "dict[_Connection, None]", limits: HttpLimits) -> None:
        self._session, self._others, self._limits = session, others, limits
        self._head = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        while len(self._others) >= self._limits.most_connections():
            next(iter(self._others)).drop()
        self._others[self] = None
        self._wait(self._limits.head_seconds)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if not self._head:
            self._wait(self._limits.head_seconds)
        self._others[self] = self._others.pop(self, None)
        self._head += data
        while _END in self._head and not self._transport.is_closing():
            head, _, self._head = self._head.partition(_END)
            self._answer(head.decode("latin-1"))
            self._wait(self._limits.head_seconds if self._head else IDLE_SECONDS)
        # Who asks on without taking the answers would let them grow here.
        if len(self._head) > self._limits.head_bytes or self._transport.get_write_buffer_size() > 1 << 16:
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._others.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    def drop(self) -> None:
        """End the connection at once."""
        assert self._transport is not None
        self._others.pop(self, None)
        self._transport.abort()

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.drop)

    def _answer(self, head: str) -> None:
        assert self._transport is not None
        line, *fields = head.split("\r\n")
        names = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        status, answer = self._content(line.split(" "), names.get("host", ""))
        # What follows a request with a body has no frame that is known here.
        last = status == 405 or names.get("connection", "").lower() == "close" or line.endswith("1.0")
        body = json.dumps(answer).encode()
        lines = [
            f"HTTP/1.1 {status} {_REASONS[status]}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *(["Connection: close"] if last else []),
        ]
        self._transport.write(
            "\r\n".join(lines).encode() + _END + (b"" if line.startswith("HEAD ") else body)
        )
        if last:
            self._transport.close()

    def _content(self, line: list[str], host: str) -> tuple[int, dict[str, str]]:
        answers = {"/steelyard/session": {"session": self._session}, "/ready": {"status": "ready"}}
        if len(line) != 3:
            return 405, {"error": "this is not an HTTP request"}
        if not Hosts().known(host):
            return 421, {"error": Hosts().refusal(host)}
        if line[0] not in {"GET", "HEAD"}:
            return 405, {"error": "there is only GET here"}
        path = line[1].partition("?")[0]
        return (200, answers[path]) if path in answers else (404, {"error": f"there is no {path} here"})


async def serve(session: str, host: str, port: int) -> asyncio.Server:
    """Begin to serve. Raises OSError where it cannot listen."""
    limits, others = default_limits(), dict[_Connection, None]()
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: _Connection(session, others, limits), host, port, backlog=128)


async def _run(session: str, host: str, port: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server = await serve(session, host, port)
    line = {"level": "info", "step": "session_identity", "message": "listening", "session": session}
    print(json.dumps(line), flush=True)
    await stop.wait()
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m steelyard.steps.session_identity")
    pod_ip = os.environ.get("POD_IP")
    parser.add_argument("--session", required=True, metavar="ID")
    parser.add_argument(
        "--host", default=pod_ip, required=pod_ip is None, help="address to listen on [$POD_IP]"
    )
    parser.add_argument("--port", type=int, default=8001)
    arguments = parser.parse_args()

    asyncio.run(_run(arguments.session, arguments.host, arguments.port))


if __name__ == "__main__":
    main()
