"""Figures of a process for Prometheus: counted as things happen, or looked up when a scraper asks.

The servers of `/metrics` send `Figures.text`: `telemetry/monitoring.py`, and the API as one of its routes.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from steelyard_common import __version__

CONTENT_TYPE = CONTENT_TYPE_LATEST
LOOK_UP_SECONDS = 2.0
"""Time that a look-up may take: a scrape waits for no engine that has stopped answering."""
FRESH_SECONDS = 1.0
"""Time for which a look-up's result is reused: anyone may ask the API for its figures, and each look-up asks an
engine."""
_log = logging.getLogger(__name__)
# In the text form each counter and histogram would bring a second series, with the time of its first count.
disable_created_metrics()  # type: ignore[no-untyped-call]

LookUp = Callable[[], Awaitable[None]]


class Figures:
    """Registry of one process, and the metrics that it looks up."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        ProcessCollector(registry=self.registry)
        build = Gauge(
            "steelyard_build_info", "Version of Steelyard; always 1.", ["version"], registry=self.registry
        )
        build.labels(__version__).set(1)
        self.leading = Gauge(
            "leader_election_master_status",
            "1 while this process leads, by the name of the lease.",
            ["name"],
            registry=self.registry,
        )
        self._failures = Counter(
            "steelyard_metrics_lookup_failures",
            "Figures that could not be looked up for a scrape.",
            ["figure"],
            registry=self.registry,
        )
        self._look_ups: dict[str, LookUp] = {}
        self._fresh_until = 0.0
        self._looking = asyncio.Lock()

    def look_up(self, name: str, look_up: LookUp) -> None:
        """Call `look_up` before figures are sent; `name` is that under which its failures are counted."""
        self._look_ups[name] = look_up
        self._failures.labels(name)

    async def text(self) -> bytes:
        """Return the figures in Prometheus' form. What cannot be looked up keeps its last value, and is counted."""
        async with self._looking:
            if time.monotonic() >= self._fresh_until:
                await asyncio.gather(*(self._look(name, look_up) for name, look_up in self._look_ups.items()))
                self._fresh_until = time.monotonic() + FRESH_SECONDS
        return generate_latest(self.registry)

    async def _look(self, name: str, look_up: LookUp) -> None:
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                await look_up()
        except Exception as error:  # noqa: BLE001 - an engine that is away must not hide the other figures
            _log.warning("metrics: %s cannot be looked up: %r", name, error)
            self._failures.labels(name).inc()
