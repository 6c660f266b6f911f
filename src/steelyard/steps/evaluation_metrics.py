"""`/metrics` of the evaluation client: its progress in Prometheus' form, on port 8002 of its Pod."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from steelyard.evaluation.progress import Progress
from steelyard.steps.common import Log

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
    """A registry of its own, filled when somebody asks."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def watch(self, progress: Progress) -> None:
        """Report `progress` from now on."""
        self._progress = progress

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics at the registry's request."""
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
    async def served(self, host: str | None, log: Log, port: int = PORT) -> AsyncIterator[None]:
        """Serve while the block runs. Nothing depends on it: where it cannot listen, it only says so."""
        if host is None:
            yield
            return

        async def metrics(_: web.Request) -> web.Response:
            body = generate_latest(self._registry)
            return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

        app = web.Application()
        app.router.add_get("/metrics", metrics)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.0)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, host, port).start()
            except OSError as error:
                log.warning("no metrics are served", reason=str(error))
            yield
        finally:
            await runner.cleanup()
