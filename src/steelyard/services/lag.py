"""Lag of consumers: how many records of each partition they have not read yet, as their committed positions say.

Positions are asked for where they are kept, so that a member that lost a partition to another shows no old number.
"""

from collections.abc import Awaitable, Callable, Mapping

from prometheus_client import CollectorRegistry, Gauge

from steelyard.broker.log import Log

Positions = Callable[[], Awaitable[Mapping[int, int]]]


class LagMetrics:
    """Lag of the consumers of one process."""

    def __init__(self, log: Log, registry: CollectorRegistry) -> None:
        self._log = log
        self._positions: dict[tuple[str, str], Positions] = {}
        self._gauge = Gauge(
            "steelyard_consumer_lag_records",
            "Records that a consumer has not read yet.",
            ["topic", "partition", "consumer"],
            registry=registry,
        )

    def follow(self, topic: str, consumer: str, positions: Positions) -> None:
        """Measure a consumer, whose committed positions `positions` returns."""
        self._positions[topic, consumer] = positions

    async def update(self) -> None:
        """Look all of them up."""
        for (topic, consumer), positions in self._positions.items():
            begun = dict.fromkeys(range(self._log.partitions), 0)
            for partition, number in (await self._log.unread(topic, begun | dict(await positions()))).items():
                self._gauge.labels(topic, str(partition), consumer).set(number)
