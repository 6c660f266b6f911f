"""A member of a consumer group. Kafka's own groups share the partitions out, and fence a member that lost its own.

Rebalances are cooperative: a member keeps the partitions that are not taken from it, and works on.
"""

import asyncio
import contextlib
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from steelyard.broker.kafka.address import Address, logger
from steelyard.broker.kafka.cluster import ANSWER_SECONDS, AWAY_SECONDS, Cluster, reason
from steelyard.broker.kafka.messages import Outgoing, incoming
from steelyard.broker.kafka.polling import Poller
from steelyard.broker.kafka.tail import Tail
from steelyard.broker.kafka.writing import RETRY_SECONDS, Positions, Transactions, Undone
from steelyard.broker.log import READ_BYTES, Batch, Fenced, LogError, Record
from steelyard.broker.sharing import gather

SESSION_MS = 10_000
"""Time after which the brokers give away the partitions of a member that died."""
HEARTBEAT_MS = 500
FETCH_MS = 50
JOIN_SECONDS = 60.0
UNDECIDED_SECONDS = 1.0
"""Longest time that an empty batch waits for a transaction which a producer left open."""
FULL_BYTES = 8 * READ_BYTES
FULL_RECORDS = 2000


@dataclass
class HeldPartition:
    """A partition that this member holds. `kept` begins at `position`, which the group has in the log.

    `caught_up` says that its end was reached once: from then on, records come as they are written.
    """

    position: int
    reached: int
    kept: deque[Record] = field(default_factory=deque)
    bytes: int = 0
    caught_up: bool = False
    paused: bool = False

    def drop_before(self, position: int) -> None:
        while self.kept and self.kept[0].offset < position:
            self.bytes -= len(self.kept.popleft().value or b"")

    def records_from(self, start: int, limit: int) -> list[Record]:
        taken: list[Record] = []
        size = 0
        for record in self.kept:
            if record.offset < start:
                continue
            size += len(record.value or b"")
            if len(taken) >= limit or (taken and size > READ_BYTES):
                break
            taken.append(record)
        return taken


class KafkaInbox:
    """Made by `join`."""

    def __init__(
        self,
        address: Address,
        cluster: Cluster,
        tail: Tail,
        group: str,
        topic: str,
        partitions: int,
    ) -> None:
        self._address, self._cluster, self._tail = address, cluster, tail
        self._group, self._topic, self._partitions = group, topic, partitions
        self._name = address.topic(topic)
        # Replaced by the thread that polls, never changed: the event loop reads it meanwhile.
        self._held: Mapping[int, HeldPartition] = {}
        self._generation: object = None
        self._stopped: set[int] = set()
        self._turns = 0
        self._moved = asyncio.Event()
        self._joined = asyncio.Event()
        self._fault = ""
        self._transactions = Transactions(address, f"{group}-{secrets.token_hex(8)}")
        # Held while a transaction runs: a partition is given up before or after it, never in between.
        self._busy = threading.Lock()
        consumer = Consumer(
            address.client(
                group_id=address.topic(group),
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                enable_partition_eof=True,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                partition_assignment_strategy="cooperative-sticky",
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                fetch_wait_max_ms=FETCH_MS,
                queued_max_messages_kbytes=16 << 10,
            )
        )
        self._closed = False
        self._over = False
        self._poller = Poller(consumer, self._take, self._end, f"kafka-{group}")

    @classmethod
    async def join(
        cls, address: Address, cluster: Cluster, tail: Tail, group: str, topic: str, partitions: int
    ) -> "KafkaInbox":
        """Join a group, and wait until it has shared its partitions out. Raises LogError."""
        inbox = cls(address, cluster, tail, group, topic, partitions)

        def subscribe(consumer: Consumer) -> None:
            consumer.subscribe(
                [inbox._name],
                on_assign=inbox._assign,
                on_revoke=inbox._revoke,
                on_lost=inbox._lose,
            )

        try:
            await inbox._poller.call(subscribe)
            async with asyncio.timeout(JOIN_SECONDS):
                await inbox._joined.wait()
        except BaseException as error:
            await inbox.close()
            if isinstance(error, TimeoutError):
                raise LogError(
                    f"log {address.url}: {topic}: joined no group within {JOIN_SECONDS:.0f} s; {inbox._fault}"
                ) from error
            raise
        return inbox

    async def batch(self, limit: int = 500, wait: float = 1.0) -> Batch:
        clock = asyncio.get_running_loop().time
        end = clock() + wait
        checked = False
        while True:
            if self._over:
                raise LogError(f"log {self._address.url}: {self._topic}: reading ended: {self._fault}")
            moved = self._moved
            batch = self._gather(limit)
            if batch.records and self._settled(limit):
                return batch
            if not batch.records and checked and clock() >= end:
                return batch
            if not batch.records and not checked:
                await self._await_earlier_writes()
                checked = True
                continue
            left = max(end - clock(), 0.0) if not batch.records else UNDECIDED_SECONDS
            try:
                async with asyncio.timeout(left):
                    await moved.wait()
            except TimeoutError:
                if batch.records:
                    return batch  # another partition's end is undecided

    def _gather(self, limit: int) -> Batch:
        held = self._held
        partitions = sorted(held.keys() - self._stopped)
        self._turns += 1
        # Each turn begins with another partition, so that a full one does not starve the others.
        turn = self._turns % len(partitions) if partitions else 0
        ordered = partitions[turn:] + partitions[:turn]
        return gather(
            lambda partition, start, number: held[partition].records_from(start, number),
            {partition: held[partition].position for partition in ordered},
            limit,
        )

    def _settled(self, limit: int) -> bool:
        """Return whether every partition has its share, or has been read to its end before."""
        held = [held for partition, held in self._held.items() if partition not in self._stopped]
        share = -(-limit // max(len(held), 1))
        return all(one.caught_up or one.paused or len(one.kept) >= share for one in held)

    async def _await_earlier_writes(self) -> None:
        """Wait for the records written before now; not for long if a transaction is left open."""
        ends = await self._cluster.ends(self._topic, self._partitions)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(UNDECIDED_SECONDS):
                while any(
                    held.reached < ends[partition]
                    for partition, held in self._held.items()
                    if partition not in self._stopped and not held.kept
                ):
                    await self._moved.wait()

    def pause(self, partition: int) -> None:
        self._stopped.add(partition)

    async def transact(self, batch: Batch, outputs: Sequence[Outgoing]) -> Sequence[Record]:
        """Write outputs and positions as one transaction. Raises Fenced, LogError."""
        loop = asyncio.get_running_loop()
        end = loop.time() + AWAY_SECONDS
        while True:
            try:
                return await asyncio.to_thread(self._write, batch, outputs)
            except Undone:
                # Also where a rebalance has begun another generation: this member may have kept its partitions.
                await self._refresh()
                if loop.time() > end:
                    raise
            except Fenced:
                raise
            except LogError:
                await self._refresh()
                raise
            await asyncio.sleep(RETRY_SECONDS)

    def _write(self, batch: Batch, outputs: Sequence[Outgoing]) -> list[Record]:
        with self._busy:
            if self._closed:
                raise Fenced(f"{self._topic}: this member of {self._group} has left")
            known = self._held
            for partition, start in batch.starts.items():
                held = known.get(partition)
                if held is None:
                    raise Fenced(f"{self._topic}/{partition}: another member of {self._group} has it now")
                if held.position != start:
                    raise Fenced(f"{self._topic}/{partition}: {self._group} has gone on from {start} already")
            offsets = [TopicPartition(self._name, *position) for position in batch.positions.items()]
            if not offsets and not outputs:
                return []
            positions = Positions(offsets, self._generation) if offsets else None
            written = self._transactions.write(outputs, positions)
            for partition, offset in batch.positions.items():
                known[partition].position = offset
        self._poller.on_loop(self._commit, dict(batch.positions))
        return written

    def _commit(self, positions: dict[int, int]) -> None:
        for partition, offset in positions.items():
            held = self._held.get(partition)
            if held is not None:
                held.drop_before(offset)
                if held.paused and held.bytes < FULL_BYTES // 2 and len(held.kept) < FULL_RECORDS // 2:
                    held.paused = False
                    self._poller.post(partial(_resume, TopicPartition(self._name, partition)))

    async def _refresh(self) -> None:
        """Learn the group's committed positions, after a transaction whose end this member does not know."""

        def ask(consumer: Consumer) -> dict[int, int]:
            places = [TopicPartition(self._name, p) for p in self._held]
            # A rebalance that changes nothing for this member makes no callback, and still begins a generation.
            self._generation = consumer.consumer_group_metadata()
            return {one.partition: one.offset for one in consumer.committed(places, ANSWER_SECONDS)}

        # Once reading has ended nothing can be learnt; `batch` says why it has.
        with contextlib.suppress(KafkaException, RuntimeError, LogError):
            for partition, offset in (await self._poller.call(ask)).items():
                held = self._held.get(partition)
                if held is not None and offset >= 0 and offset != held.position:
                    held.position = offset
                    held.drop_before(offset)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._poller.close()
        self._held = {}
        self._transactions.close()

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Begin with the group's positions. Called in the thread that polls, as the next two are."""
        # Positions are asked for again while a broker elects its successor. Without them nothing may be read.
        end = time.monotonic() + JOIN_SECONDS / 2
        while True:
            try:
                begun = self._begin(consumer, partitions)
                break
            except KafkaException as error:
                self._fault = reason(error)
                if time.monotonic() > end:
                    raise  # out of the poll: reading ends, and with it this member
            time.sleep(RETRY_SECONDS)
        self._held = {
            **self._held,
            **{place.partition: HeldPartition(place.offset, place.offset) for place in begun},
        }
        consumer.incremental_assign(begun)
        self._generation = consumer.consumer_group_metadata()
        self._poller.on_loop(self._joined.set)
        self._poller.on_loop(self._wake)

    def _begin(self, consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
        if not partitions:
            return []
        # Waits for positions of a transaction that is not decided yet.
        known = consumer.committed(partitions, JOIN_SECONDS / 2)
        new = []
        for place in known:
            if place.error is not None:
                raise KafkaException(place.error)
            if place.offset < 0:
                place.offset = consumer.get_watermark_offsets(place, ANSWER_SECONDS)[0]
                new.append(place)
        if new:
            # From now on nothing that this group has not read expires.
            consumer.commit(offsets=new, asynchronous=False)
        return [TopicPartition(place.topic, place.partition, place.offset) for place in known]

    def _revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        with self._busy:
            self._forget(partitions)
        consumer.incremental_unassign(partitions)

    def _lose(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Another member may have them already: a transaction that runs is fenced by its generation.
        self._forget(partitions)
        consumer.incremental_unassign(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        gone = {place.partition for place in partitions}
        self._held = {partition: held for partition, held in self._held.items() if partition not in gone}
        self._poller.on_loop(self._wake)

    def _take(self, messages: Sequence[KafkaMessage]) -> None:
        records: list[tuple[HeldPartition, Record]] = []
        ends: list[tuple[HeldPartition, int]] = []
        for message in messages:
            partition, offset, error = message.partition(), message.offset(), message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                self._fault = reason(error)
                logger.info("%s: %s", self._topic, self._fault)
                continue
            held = self._held.get(partition) if partition is not None else None
            if held is None or offset is None:
                continue
            if error is None:
                records.append((held, incoming(message, self._topic)))
            else:
                ends.append((held, offset))
        self._poller.on_loop(self._keep, records, ends)

    def _keep(
        self, records: Sequence[tuple[HeldPartition, Record]], ends: Sequence[tuple[HeldPartition, int]]
    ) -> None:
        for held, record in records:
            if record.offset < held.reached:
                continue
            held.kept.append(record)
            held.bytes += len(record.value or b"")
            held.reached = record.offset + 1
            if not held.paused and (held.bytes > FULL_BYTES or len(held.kept) > FULL_RECORDS):
                held.paused = True
                self._poller.post(partial(_pause, TopicPartition(self._name, record.partition)))
        for held, end in ends:
            held.reached, held.caught_up = max(held.reached, end), True
        if records:
            self._tail.bump()
        self._wake()

    def _end(self, fault: str) -> None:
        self._fault, self._over = fault, True
        self._joined.set()
        self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


def _pause(place: TopicPartition, consumer: Consumer) -> None:
    consumer.pause([place])


def _resume(place: TopicPartition, consumer: Consumer) -> None:
    consumer.resume([place])
