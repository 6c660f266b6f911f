"""An OpenAI-compatible endpoint that costs as little CPU as Python can: `python -m benchmarks.evaluation.server …`.

Hand-written HTTP/1.1 over epoll, with waits exact to microseconds: an event loop's timers round to milliseconds,
which would be one hundredth of the measured time. Prints one port for each replica; when its standard input closes,
it prints what it counted as JSON, and ends.
"""

import argparse
import json
import os
import re
import select
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
CONTENT = "a" * 400
_CHOICE = {
    "index": 0,
    "message": {"role": "assistant", "content": CONTENT},
    "text": CONTENT,
    "logprobs": None,
    "finish_reason": "stop",
}
_USAGE = {"prompt_tokens": 100, "completion_tokens": 100, "total_tokens": 200}
_ANSWER = {"id": "1", "object": "chat.completion", "created": 1, "model": "mock", "choices": [_CHOICE]}
_REFUSAL = {"error": {"message": "too many requests", "type": "rate_limit", "code": "rate_limit"}}


def _http(status: str, body: object) -> bytes:
    text = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


ANSWER = _http("200 OK", _ANSWER | {"usage": _USAGE})
REFUSAL = _http("429 Too Many Requests", _REFUSAL)


@dataclass
class Replica:
    """One port: what it was asked. Times are of the monotonic clock, which all processes of a machine share."""

    port: int
    slots: int
    """Calls that it can work on at once; more wait, and keep nothing busy."""
    asked: int = 0
    answered: int = 0
    refused: int = 0
    in_flight: int = 0
    peak: int = 0
    first: float = 0.0
    last: float = 0.0
    ended: float = 0.0
    """Time at which the last answer was sent."""
    busy: float = 0.0
    """Seconds in a slot, of all calls together."""
    busy_at_last: float = 0.0
    """The same up to the last request: afterwards there is nothing left to be busy with."""
    _since: float = 0.0

    def begins(self, now: float) -> None:
        self._count(now)
        self.first = self.first or now
        self.last, self.busy_at_last = now, self.busy
        self.asked += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)

    def ends(self, now: float) -> None:
        self._count(now)
        self.in_flight -= 1
        self.answered += 1
        self.ended = now

    def refuses(self, now: float) -> None:
        self.first = self.first or now
        self.asked += 1
        self.refused += 1

    def _count(self, now: float) -> None:
        self.busy += min(self.in_flight, self.slots) * (now - self._since)
        self._since = now


class Connection:
    """One connection; several requests may come in one piece, and one request in several."""

    def __init__(self, taken: socket.socket, replica: Replica) -> None:
        self.socket = taken
        self.replica = replica
        self.buffer = b""

    def requests(self, data: bytes) -> int:
        """Return how many requests are complete now."""
        buffer = self.buffer + data if self.buffer else data
        position = 0
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(buffer, 0, end)
            size = end + 4 + (int(length[1]) if length else 0)
            if len(buffer) < size:
                break
            buffer = buffer[size:]
            position += 1
        self.buffer = buffer
        return position


class Server:
    """Every replica in one process and one thread."""

    def __init__(self, replicas: int, latency: float, slots: int, admits: int | None) -> None:
        self._latency = latency
        self._admits = admits
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._due: deque[tuple[float, Connection]] = deque()
        self._listening: dict[int, tuple[socket.socket, Replica]] = {}
        for _ in range(replicas):
            port = socket.create_server(("127.0.0.1", 0), backlog=4096)
            port.setblocking(False)
            self._listening[port.fileno()] = port, Replica(port.getsockname()[1], slots)
            self._epoll.register(port.fileno(), select.EPOLLIN)

    @property
    def replicas(self) -> list[Replica]:
        return [replica for _, replica in self._listening.values()]

    def run(self) -> None:
        """Serve until standard input closes."""
        watched = [self._epoll.fileno(), sys.stdin.fileno()]
        while True:
            wait = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            ready, _, _ = select.select(watched, [], [], wait)
            if sys.stdin.fileno() in ready and not os.read(sys.stdin.fileno(), 64):
                return
            for number, _ in self._epoll.poll(0):
                if number in self._listening:
                    self._accept(*self._listening[number])
                else:
                    self._read(self._connections[number])
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                self._answer(self._due.popleft()[1], now)

    def _accept(self, port: socket.socket, replica: Replica) -> None:
        taken, _ = port.accept()
        taken.setblocking(False)
        taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[taken.fileno()] = Connection(taken, replica)
        self._epoll.register(taken.fileno(), select.EPOLLIN)

    def _read(self, connection: Connection) -> None:
        try:
            data = connection.socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            del self._connections[connection.socket.fileno()]
            connection.socket.close()
            return
        now = time.monotonic()
        for _ in range(connection.requests(data)):
            replica = connection.replica
            if self._admits is not None and replica.in_flight >= self._admits:
                replica.refuses(now)
                self._send(connection, REFUSAL)
                continue
            replica.begins(now)
            if self._latency:
                self._due.append((now + self._latency, connection))
            else:
                self._answer(connection, now)

    def _answer(self, connection: Connection, now: float) -> None:
        connection.replica.ends(now)
        self._send(connection, ANSWER)

    def _send(self, connection: Connection, answer: bytes) -> None:
        try:
            connection.socket.send(answer)  # it fits the socket's buffer
        except OSError:
            return  # closed by the client, or about to be


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-ms", type=float, default=50.0)
    parser.add_argument("--slots", type=int, default=1_000_000, help="of each replica")
    parser.add_argument("--admits", type=int, help="calls at once and replica; more get 429")
    parser.add_argument("--replicas", type=int, default=1)
    arguments = parser.parse_args()
    server = Server(arguments.replicas, arguments.latency_ms / 1000, arguments.slots, arguments.admits)
    print(*(replica.port for replica in server.replicas), flush=True)
    server.run()
    facts = [
        {name: value for name, value in vars(replica).items() if not name.startswith("_")}
        for replica in server.replicas
    ]
    print(json.dumps({"replicas": facts, "cpu": time.process_time()}), flush=True)


if __name__ == "__main__":
    main()
