"""One consumer that reads every partition this process has asked for, and goes on reading at their ends."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka import Message as KafkaMessage

from steelyard.broker.kafka.address import Address, logger
from steelyard.broker.kafka.cluster import reason
from steelyard.broker.kafka.messages import incoming
from steelyard.broker.kafka.polling import Poller
from steelyard.broker.log import Record

FETCH_MS = 20
"""Longest time that a broker waits for new records before it answers that there are none.

Only such an answer says that markers of transactions alone are left before the end, and the newest records wait for it.
"""
Partition = tuple[str, int]
"""A topic and a partition of it."""


class Reader(Protocol):
    """Receiver of the records of one partition."""

    def store(self, records: Sequence[Record], reached: int) -> Sequence[Record]:
        """Keep records; called in the tail's thread. `reached`: everything before it has been given.

        Returns those that `advance` is to be given: they stay in memory until the event loop calls it.
        """
        ...

    def advance(self, records: Sequence[Record], reached: int) -> None:
        """Learn the stored positions, and take those that are still to be stored; called on the event loop."""
        ...

    def fail(self, fault: str) -> None:
        """Learn why nothing comes for now; called on the event loop."""
        ...

    def end(self, fault: str) -> None:
        """Learn that nothing will come any more; called on the event loop."""
        ...


class Tail:
    """Reads for any number of readers, one for each partition. Belongs to one event loop."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._readers: dict[Partition, Reader] = {}
        self.version = 0
        self._changed = asyncio.Event()
        consumer = Consumer(
            address.client(
                group_id=address.topic("steelyard-tail"),  # never joined; the client wants a name
                enable_auto_commit=False,
                enable_partition_eof=True,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                fetch_wait_max_ms=FETCH_MS,
                queued_max_messages_kbytes=16 << 10,
            )
        )
        self._poller = Poller(consumer, self._take, self._end, "kafka-tail")

    async def follow(
        self, readers: Mapping[Partition, Reader], starts: Mapping[Partition, int] | None = None
    ) -> None:
        """Give partitions to readers, from an offset on or from the beginning. Raises LogError."""
        places = self._partitions(readers)
        for place, partition in zip(readers, places, strict=True):
            partition.offset = (starts or {}).get(place, OFFSET_BEGINNING)

        def assign(consumer: Consumer) -> None:
            self._readers |= readers
            consumer.incremental_assign(places)

        await self._poller.call(assign)

    async def leave(self, places: Iterable[Partition]) -> None:
        """Read these partitions no more."""
        left = list(places)

        def unassign(consumer: Consumer) -> None:
            for place in left:
                self._readers.pop(place, None)
            consumer.incremental_unassign(self._partitions(left))

        await self._poller.call(unassign)

    def pause(self, place: Partition, *, paused: bool) -> None:
        """Stop reading a partition for a while, or go on."""

        def change(consumer: Consumer) -> None:
            if place in self._readers:
                (consumer.pause if paused else consumer.resume)(self._partitions([place]))

        self._poller.post(change)

    def _partitions(self, places: Iterable[Partition]) -> list[TopicPartition]:
        return [TopicPartition(self._address.topic(topic), partition) for topic, partition in places]

    async def wait_for_change(self, since: int, timeout: float) -> int:
        """Return the version, once it is another than `since` or `timeout` seconds have passed."""
        if self.version == since:
            try:
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self.version

    def bump(self) -> None:
        """Wake who waits for a change; called on the event loop."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def _end(self, fault: str) -> None:
        for reader in self._readers.values():
            reader.end(fault)
        self.bump()  # those who wait for a change check, and learn why there is none

    async def close(self) -> None:
        await self._poller.close()

    def _take(self, messages: Sequence[KafkaMessage]) -> None:
        records: dict[Partition, list[Record]] = {}
        reached: dict[Partition, int] = {}
        for message in messages:
            name, partition, offset = message.topic(), message.partition(), message.offset()
            error = message.error()
            if name is None or partition is None or offset is None:
                if error is not None:
                    self._fail(list(self._readers), error)
                continue
            place = (name.removeprefix(self._address.prefix), partition)
            if error is None:
                records.setdefault(place, []).append(incoming(message, place[0]))
                reached[place] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                reached[place] = offset
            else:
                self._fail([place], error)
        for place, end in reached.items():
            reader = self._readers.get(place)
            if reader is not None:
                new = records.get(place, [])
                left = reader.store(new, end)
                self._poller.on_loop(reader.advance, left, end)
        if records:
            self._poller.on_loop(self.bump)

    def _fail(self, places: Iterable[Partition], error: KafkaError) -> None:
        logger.info("%s", reason(error))
        for place in places:
            if reader := self._readers.get(place):
                self._poller.on_loop(reader.fail, reason(error))
