"""The log in Kafka."""

import asyncio
import secrets
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from steelyard.broker.kafka.address import Address, parse
from steelyard.broker.kafka.cluster import (
    AWAY_SECONDS,
    IDENTITY,
    Cluster,
    is_compacted_late,
    list_required_settings,
)
from steelyard.broker.kafka.copies import Copy, CopyReader
from steelyard.broker.kafka.cursor import Cursor
from steelyard.broker.kafka.identity import (
    MAKER,
    Identity,
    identity_message,
    read_identity,
    write_first_identity,
)
from steelyard.broker.kafka.inbox import KafkaInbox
from steelyard.broker.kafka.messages import Outgoing, outgoing
from steelyard.broker.kafka.tail import Tail
from steelyard.broker.kafka.writing import RETRY_SECONDS, SingleWriter, Transactions, Undone
from steelyard.broker.log import (
    COMPACTED,
    DEAD,
    EVENTS,
    OUTCOMES,
    PARTITIONS,
    UNREAD,
    WAITING,
    Batch,
    LogError,
    Message,
    PartitionsDiffer,
    Prepared,
    Record,
)
from steelyard.broker.partition import find_partition

TOPICS = (*sorted(COMPACTED), EVENTS, OUTCOMES, DEAD, WAITING)
METADATA_TRIES = 5
MANY = 1 << 30


async def open_kafka_log(url: str, partitions: int = PARTITIONS) -> "KafkaLog":
    """Return the log at an address, whose topics are there. Raises PartitionsDiffer, LogError."""
    address = parse(url)
    cluster = Cluster(address)
    await cluster.check_versions()
    identity = await _find_identity(address, cluster)
    if identity.partitions != partitions:
        raise PartitionsDiffer(
            f"has {identity.partitions} partitions, not {partitions}; the number is fixed when the log is made"
        )
    return KafkaLog(address, cluster, identity)


async def prepare_kafka_log(url: str, partitions: int = PARTITIONS) -> Prepared:
    """Make the topics that are not there, and the log's identity; give those of an earlier version today's settings.

    Raises PartitionsDiffer, LogError.
    """
    address = parse(url)
    cluster = Cluster(address)
    await cluster.check_versions()
    there = await cluster.topics()
    for name, number in there.items():
        if name in TOPICS and number != partitions:
            raise PartitionsDiffer(
                f"log {address.url}: {name} has {number} partitions, not {partitions}; "
                "the number is fixed when the log is made"
            )
    replicas = await cluster.replicas()
    if IDENTITY not in there:
        await cluster.make([IDENTITY], 1, replicas)
    missing = [name for name in TOPICS if name not in there]
    if missing:
        await cluster.make(missing, partitions, replicas)
    new = Identity(secrets.token_hex(16), 1, partitions, replicas)
    made = await asyncio.to_thread(write_first_identity, address, new)
    altered = await cluster.compact_in_time(name for name in (IDENTITY, *TOPICS) if name in there)
    return "made" if missing or made else "settings altered" if altered else "up to date"


async def _find_identity(address: Address, cluster: Cluster) -> Identity:
    """Return the identity of a log. A broker may hear of topics seconds after they were made through another one."""
    for left in reversed(range(METADATA_TRIES)):
        if IDENTITY in await cluster.topics():
            identity = await asyncio.to_thread(read_identity, address)
            if identity is not None:
                return identity
        if left:
            await asyncio.sleep(0.5)
    raise LogError(f"log {address.url}: has no topics of Steelyard yet; `steelyard config init` makes them")


class KafkaLog:
    """Made by `open_kafka_log`; belongs to one event loop."""

    def __init__(self, address: Address, cluster: Cluster, identity: Identity) -> None:
        self.address, self.cluster = address, cluster
        self.id, self.epoch, self.partitions = identity.id, identity.epoch, identity.partitions
        self._identity = identity
        self._topics: set[str] = set(TOPICS)
        self._tail = Tail(address)
        self._copies: dict[str, asyncio.Task[Copy]] = {}
        self._cursors: dict[tuple[str, int], Cursor] = {}
        self._single = SingleWriter(address)
        self._transactions = Transactions(address, f"writer-{secrets.token_hex(8)}")
        self._worker = ThreadPoolExecutor(1, "kafka-transactions")
        self._joined: _Publication | None = None
        self._inboxes: list[KafkaInbox] = []

    async def begin_epoch(self, epoch: int) -> None:
        if epoch <= self.epoch:
            raise LogError(f"log {self.address.url}: epoch {epoch} is not after {self.epoch}")
        identity = Identity(self.id, epoch, self.partitions, self._identity.replicas)
        maker = Transactions(self.address, MAKER)
        await asyncio.to_thread(maker.write, [identity_message(self.address, identity)])
        self.epoch = epoch

    async def publish(self, messages: Sequence[Message]) -> Sequence[Record]:
        placed = await self._place(messages)
        if not placed:
            return []
        if len(placed) == 1:
            return [await self._single.write(placed[0])]
        joined = self._joined
        if joined is None:
            joined = self._joined = _Publication([])
            joined.written = asyncio.ensure_future(self._write(joined))
        start = len(joined.messages)
        joined.messages += placed
        assert joined.written is not None
        # Shielded: one who is cancelled does not cancel the others.
        written = await asyncio.shield(joined.written)
        return written[start : start + len(placed)]

    async def _write(self, joined: "_Publication") -> list[Record]:
        """Write the waiting messages once the transaction before them has ended."""
        loop = asyncio.get_running_loop()

        def take() -> list[Outgoing]:
            if self._joined is joined:
                self._joined = None
            return joined.messages

        await loop.run_in_executor(self._worker, _pass_turn)
        messages = take()
        end = loop.time() + AWAY_SECONDS
        while True:
            try:
                return await loop.run_in_executor(self._worker, self._transactions.write, messages)
            except Undone:
                if loop.time() > end:
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    async def _place(self, messages: Sequence[Message]) -> list[Outgoing]:
        placed = [outgoing(message, self.address, self.partitions) for message in messages]
        for message in messages:
            await self._topic(message.topic)
        return placed

    async def _topic(self, name: str) -> None:
        if name not in self._topics:
            there = await self.cluster.topics()
            if name not in there:
                await self.cluster.make([name], self.partitions, self._identity.replicas)
            self._topics |= {name}

    async def read(self, topic: str, partition: int, start: int, limit: int = 500) -> Sequence[Record]:
        if topic in COMPACTED:
            copy = await self._copy(topic)
            # Records that are there are given without asking; that there are none has to be known.
            if records := copy.read(partition, start, limit):
                return records
            await self._current(copy, topic, {partition})
            return copy.read(partition, start, limit)
        await self._topic(topic)
        end = (await self.cluster.ends(topic, self.partitions))[partition]
        if start > end:
            return []
        # Also where there are none: what is read from here on wakes `changed`.
        cursor = self._cursors.setdefault((topic, partition), Cursor(self._tail, (topic, partition)))
        return await cursor.read(start, limit, end)

    async def read_each(
        self, topic: str, starts: Mapping[int, int], limit: int = 500
    ) -> Mapping[int, Sequence[Record]]:
        # At once: that there is nothing new in them is one question to the brokers, not one for each.
        read = await asyncio.gather(
            *(self.read(topic, partition, start, limit) for partition, start in starts.items())
        )
        return {partition: records for partition, records in zip(starts, read, strict=True) if records}

    async def ends(self, topic: str) -> Mapping[int, int]:
        await self._topic(topic)
        return await self.cluster.ends(topic, self.partitions)

    async def positions(self, group: str, topic: str) -> Mapping[int, int]:
        return await self.cluster.positions(group, topic)

    async def unread(self, topic: str, positions: Mapping[int, int]) -> Mapping[int, int]:
        """Count offsets, which markers of transactions take as well as records."""
        ends = await self.ends(topic)
        return {partition: min(max(ends[partition] - at, 0), UNREAD) for partition, at in positions.items()}

    async def latest(self, topic: str, key: str) -> Record | None:
        if topic not in COMPACTED:
            return None
        copy = await self._copy(topic)
        await self._current(copy, topic, {find_partition(key, self.partitions)})
        return copy.latest(key)

    async def find_latest(self, topic: str, keys: Collection[str]) -> Mapping[str, Record]:
        if topic not in COMPACTED:
            return {}
        copy = await self._copy(topic)
        await self._current(copy, topic, {find_partition(key, self.partitions) for key in keys})
        records = {key: copy.latest(key) for key in keys}
        return {key: record for key, record in records.items() if record is not None}

    async def _copy(self, topic: str) -> Copy:
        if topic not in self._copies:
            self._copies[topic] = asyncio.ensure_future(self._begin_copy(topic))
        return await asyncio.shield(self._copies[topic])

    async def _begin_copy(self, topic: str) -> Copy:
        copy = Copy(topic, self.partitions)
        await self._tail.follow(
            {(topic, partition): CopyReader(copy, partition) for partition in range(self.partitions)}
        )
        return copy

    async def _current(self, copy: Copy, topic: str, partitions: Collection[int]) -> None:
        """Wait until the copy has all of these partitions that was written before this call."""
        ends = await self.cluster.ends(topic, self.partitions)
        for partition in partitions:
            await copy.progress[partition].reach(ends[partition])

    def version(self) -> int:
        return self._tail.version

    async def wait_for_change(self, since: int, timeout: float) -> int:
        return await self._tail.wait_for_change(since, timeout)

    async def inbox(self, group: str, topic: str) -> "KafkaLogInbox":
        await self._topic(topic)
        inbox = await KafkaInbox.join(self.address, self.cluster, self._tail, group, topic, self.partitions)
        self._inboxes.append(inbox)
        return KafkaLogInbox(self, inbox)

    async def expire(self, topic: str, before: datetime) -> int:
        unread = await self.cluster.lowest_positions(topic)
        if topic in COMPACTED:
            copy = await self._copy(topic)
            await self._current(copy, topic, range(self.partitions))
            return copy.expire(before, unread)
        starts = await self.cluster.starts(topic, self.partitions)
        ends = await self.cluster.ends(topic, self.partitions)
        since = await self.cluster.at_time(topic, self.partitions, before)
        last = {
            partition: min(
                since[partition] if since[partition] >= 0 else ends[partition], unread.get(partition, ends[partition])
            )
            for partition in ends
        }  # fmt: skip
        await self.cluster.delete_before(topic, {p: end for p, end in last.items() if end > starts[p]})
        return sum(max(last[partition] - starts[partition], 0) for partition in last)

    async def facts(self) -> Sequence[str]:
        await self.cluster.check_rights(TOPICS)
        fewest, in_sync, least = MANY, MANY, MANY
        brokers, late = 0, False
        for topic in TOPICS:
            settings = await self.cluster.settings(topic)
            for name, value in list_required_settings(topic).items():
                if settings[name] != value:
                    raise LogError(
                        f"log {self.address.url}: the topic {topic} has {name}={settings[name]}, "
                        f"which should be {value}: records could be lost"
                    )
            late = late or is_compacted_late(topic, settings)
            least = min(least, int(settings["min.insync.replicas"]))
            brokers, replicas, synced = await self.cluster.copies(topic)
            fewest, in_sync = min(fewest, replicas), min(in_sync, synced)
        if fewest > 1 and least < 2:
            raise LogError(
                f"log {self.address.url}: min.insync.replicas of a topic is {least}: "
                "a record that one broker alone has would be confirmed"
            )
        return (
            *describe_copies(brokers, fewest, in_sync, least),
            "all rights",
            *(("the loss of one broker loses the log",) if fewest < 2 else ()),
            *(("forgotten content may stay for long: `steelyard config init` alters this",) if late else ()),
        )

    async def close(self) -> None:
        for inbox in self._inboxes:
            await inbox.close()
        await self._tail.close()
        await self._single.close()
        self._worker.shutdown(wait=False)
        self._transactions.close()
        for task in self._copies.values():
            (await task).close()


def describe_copies(brokers: int, replicas: int, in_sync: int, confirming: int) -> tuple[str, str]:
    """Return the words about the brokers, and about the copies that they keep of each record."""
    return (
        f"{brokers} broker{'' if brokers == 1 else 's'}",
        f"{replicas} replica{'' if replicas == 1 else 's'}, {in_sync} in sync, "
        f"{confirming} confirm{'s' if confirming == 1 else ''} each record",
    )


class KafkaLogInbox:
    """A member of a group, whose outputs are checked as those of `publish`."""

    def __init__(self, log: KafkaLog, inbox: KafkaInbox) -> None:
        self._log, self._inbox = log, inbox
        self.batch, self.pause, self.close = inbox.batch, inbox.pause, inbox.close

    async def transact(self, batch: Batch, outputs: Sequence[Message] = ()) -> Sequence[Record]:
        return await self._inbox.transact(batch, await self._log._place(outputs))


@dataclass
class _Publication:
    """Messages of several tasks that are published in one transaction."""

    messages: list[Outgoing]
    written: "asyncio.Task[list[Record]] | None" = None


def _pass_turn() -> None:
    """Do nothing: a turn of the thread that comes after what runs in it."""
