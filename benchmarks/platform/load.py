"""A load generator that costs as little as Python can: `python -m benchmarks.platform.load FILE`.

A closed loop over keep-alive connections; each sends the next prepared request as soon as the last one is answered.
FILE is a `Load` as JSON; a `Measured` is printed as JSON. Started by `pinned.py`, on a core of its own.
"""

import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import cast

from benchmarks.machine.__main__ import processor

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_HEAD = b"\r\n\r\n"


@dataclass(frozen=True)
class Load:
    """Load to send in turn and over again; `requests` are whole HTTP/1.1 requests to the process `pid`."""

    port: int
    pid: int
    requests: Sequence[str]
    connections: int = 32
    seconds: float = 5.0
    warm_seconds: float = 1.0


@dataclass(frozen=True)
class Latencies:
    """Latencies in milliseconds. `busy`: the generator's own share of its core; near 1, it was the limit.

    `processor`: microseconds of the server's processor time for each request, which other work on the machine changes
    less than it changes the rest.
    """

    requests_per_second: float
    p50: float
    p99: float
    statuses: Mapping[str, int]
    busy: float
    processor: float
    bytes: int


@dataclass
class Tally:
    """Shared by the connections of one run."""

    requests: Iterator[bytes]
    running: bool = True
    took: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    bytes: int = 0


class Connection(asyncio.Protocol):
    """One request in flight."""

    def __init__(self, tally: Tally) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tally = tally
        self._head = b""
        self._missing = 0
        self._began = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._send()

    def data_received(self, data: bytes) -> None:
        self._tally.bytes += len(data)
        if self._missing:
            self._missing -= len(data)
        else:
            self._head += data
            if not self._parsed():
                return
        if self._missing == 0:
            self._tally.took.append(time.perf_counter() - self._began)
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def _parsed(self) -> bool:
        end = self._head.find(_HEAD)
        if end < 0:
            return False
        match = _LENGTH.search(self._head, 0, end + 2)
        self._missing = end + len(_HEAD) + (int(match[1]) if match else 0) - len(self._head)
        self._tally.statuses[self._head[9:12].decode()] += 1
        self._head = b""
        return True

    def _send(self) -> None:
        assert self._transport is not None
        if not self._tally.running:
            self._transport.close()
            return
        self._began = time.perf_counter()
        self._transport.write(next(self._tally.requests))


async def run(load: Load) -> Latencies:
    loop = asyncio.get_running_loop()
    tally = Tally(cycle([request.encode() for request in load.requests]))
    opened = [
        await loop.create_connection(lambda: Connection(tally), "127.0.0.1", load.port)
        for _ in range(load.connections)
    ]
    await asyncio.sleep(load.warm_seconds)
    tally.took.clear()
    tally.statuses.clear()
    tally.bytes = 0
    began, cpu, used = time.perf_counter(), time.process_time(), processor([load.pid])
    await asyncio.sleep(load.seconds)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    used = (processor([load.pid]) - used) * 1e6 / max(len(tally.took), 1)
    took, statuses, count = sorted(tally.took), dict(tally.statuses), tally.bytes
    tally.running = False
    await asyncio.wait([connection.ended for _, connection in opened], timeout=10)
    if not took:
        raise SystemExit(f"no request was answered in {seconds:.0f} s")
    rate = len(took) / seconds
    p50, p99 = took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3
    return Latencies(rate, p50, p99, statuses, cpu / seconds, used, count // len(took))


if __name__ == "__main__":
    import uvloop

    load = Load(**json.loads(Path(sys.argv[1]).read_text()))
    print(json.dumps(asdict(uvloop.run(run(load)))))
