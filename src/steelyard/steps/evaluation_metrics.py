"""`/metrics` of the evaluation client: its progress in Prometheus' form, on port 8002 of its Pod."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING

from steelyard.steps.common import Log
from steelyard_common.serving.bounded import Door
from steelyard_common.serving.figures_access import REFUSAL, may_read
from steelyard_evaluation.engine.progress import Progress

if TYPE_CHECKING:
    from prometheus_client.core import Metric

PORT = 8002
_PREFIX = "steelyard_evaluation_"
_GAUGES = {
    "total": ("rows", "Rows that are asked for, in all attempts."),
    "done": ("rows_done", "Rows that are answered, in all attempts."),
    "inFlight": ("calls_in_flight", "Calls that are being answered."),
    "admitted": ("calls_admitted", "Calls that the replicas take at once, as far as they are known."),
    "ratePerSecond": ("rows_per_second", "Rows answered in a second, over the last ten."),
    "secondsLeft": ("seconds_left", "Seconds until all is done, at this rate."),
    "spend": ("spend", "What the tokens cost, where their prices are known."),
}
_COUNTERS = {
    "rowErrors": ("row_errors", "Rows that were given up in this attempt."),
    "retries": ("retries", "Calls that were made again in this attempt."),
    "refused": ("refused", "Calls that replicas did not admit (429) in this attempt."),
}


class Metrics:
    """Metrics that are made on request. Most evaluations are never asked: the libraries come with a scrape."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def watch(self, progress: Progress) -> None:
        """Report `progress` from now on."""
        self._progress = progress

    def collect(self) -> "Iterable[Metric]":
        """Yield the metrics at the registry's request."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        if self._progress is None:
            return
        snapshot = self._progress.snapshot()
        for field, (name, text) in _GAUGES.items():
            if snapshot[field] is not None:
                yield GaugeMetricFamily(_PREFIX + name, text, value=snapshot[field])
        for field, (name, text) in _COUNTERS.items():
            yield CounterMetricFamily(_PREFIX + name, text, value=snapshot[field])
        tokens = CounterMetricFamily(_PREFIX + "tokens", "Tokens, in all attempts.", labels=["of"])
        for kind, number in snapshot["tokens"].items():
            tokens.add_metric([kind], number)
        calls = CounterMetricFamily(_PREFIX + "calls", "Calls answered in this attempt.", labels=["replica"])
        for address, replica in snapshot["replicas"].items():
            calls.add_metric([address], replica["done"])
        slowest = snapshot["slowest"]
        seconds = slowest["seconds"] if slowest else 0.0
        yield tokens
        yield calls
        yield GaugeMetricFamily(
            _PREFIX + "slowest_seconds", "The oldest call, when it is slow.", value=seconds
        )

    @asynccontextmanager
    async def serve(self, host: str | None, log: Log, port: int = PORT) -> AsyncIterator[None]:
        """Serve while the block runs. Nothing depends on it: where it cannot listen, it only says so."""
        if host is None:
            yield
            return

        server = None
        try:
            server = await asyncio.get_running_loop().create_server(Door(self._protocol), host, port)
        # Metrics are worth no failed evaluation: another program may have the port.
        except OSError as error:
            log.warning("no metrics are served", reason=str(error))
        try:
            yield
        finally:
            if server is not None:
                server.close()

    def _protocol(self) -> asyncio.Protocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._answer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close its connection."""
        # A scraper that breaks off, or sends anything else, is no concern of the evaluation.
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            peer = writer.get_extra_info("peername")
            if may_read(peer[0] if peer else None, _headers(head)):
                status, kind, body = await self._response(*head.split(b" ", 2)[:2])
            else:
                status, kind, body = "401 Unauthorized", "text/plain", f"{REFUSAL}\n".encode()
            fields = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close"
            writer.write(f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n".encode())
            writer.write(b"" if head.startswith(b"HEAD ") else body)
            await writer.drain()
        writer.close()

    async def _response(self, method: bytes, target: bytes = b"") -> tuple[str, str, bytes]:
        """Return the status line's end, the content's type and the content."""
        if target.partition(b"?")[0] != b"/metrics":
            return "404 Not Found", "text/plain", b"there is only /metrics here\n"
        if method not in {b"GET", b"HEAD"}:
            return "405 Method Not Allowed", "text/plain", b"/metrics takes GET\n"
        await asyncio.to_thread(import_module, "prometheus_client")  # 60 ms in which calls go on
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        # A registry of its own: the library's global one adds metrics of the process, and takes a name only
        # once.
        registry = CollectorRegistry()
        registry.register(self)
        return "200 OK", CONTENT_TYPE_LATEST, generate_latest(registry)


def _headers(head: bytes) -> dict[str, str]:
    fields = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in fields}
