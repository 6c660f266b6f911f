"""Requests to the cluster: topics, their ends, positions of groups, removal of expired records."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from steelyard.broker.kafka.address import Address, logger
from steelyard.broker.kafka.rights import check_rights
from steelyard.broker.kafka.versions import check_versions
from steelyard.broker.log import COMPACTED, LogError

T = TypeVar("T")
ANSWER_SECONDS = 10.0
"""Time for one request."""
OFFSETS_SECONDS = 3.0
"""Time for one request for offsets, which every decision waits for: one to a broker that died is not answered."""
AWAY_SECONDS = 60.0
"""Time for which a request is repeated while brokers are away or elect leaders."""
MOST_BYTES = 8 << 20
"""Most bytes of a record, with its key and headers."""
REPLICAS = 3
IDENTITY = "workflows.log"
"""Topic of the log's own id, epoch and number of partitions; compacted, with one partition."""
_TOMBSTONES_MS = 400 * 24 * 3600 * 1000
_COMMON = {
    # Times of the brokers: what expires must not depend on a writer's clock.
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(MOST_BYTES + 4096),
    # A replica that lacks confirmed records must never lead, even if no other one is left.
    "unclean.leader.election.enable": "false",
}
LAG = "max.compaction.lag.ms"
_COMPACT = {
    "cleanup.policy": "compact",
    # A consumer that was away for this long has to read everything again. The reaper says so far earlier (`HORIZON`).
    "delete.retention.ms": str(_TOMBSTONES_MS),
    "min.cleanable.dirty.ratio": "0.2",
    "segment.ms": str(24 * 3600 * 1000),
    # What a forgotten entity held is not to stay in the brokers' files until enough else was written.
    LAG: str(24 * 3600 * 1000),
}
_KEEP = {
    "cleanup.policy": "delete",
    # The reaper removes what is old and was read by every group. Kafka itself would remove what no group has read.
    "retention.ms": "-1",
    "retention.bytes": "-1",
}


def list_required_settings(topic: str) -> Mapping[str, str]:
    """Return the settings without which a topic could lose records."""
    names = ("cleanup.policy", "unclean.leader.election.enable")
    more = ("delete.retention.ms",) if is_compacted(topic) else ("retention.ms", "retention.bytes")
    settings = _COMMON | _kind(topic)
    return {name: settings[name] for name in (*names, *more)}


def is_compacted(topic: str) -> bool:
    return topic in COMPACTED or topic == IDENTITY


def _kind(topic: str) -> dict[str, str]:
    return _COMPACT if is_compacted(topic) else _KEEP


def is_compacted_late(topic: str, settings: Mapping[str, str]) -> bool:
    """Return whether replaced records may stay in the brokers' files for more than a day: earlier versions made such
    topics.
    """
    return is_compacted(topic) and int(settings[LAG]) > int(_COMPACT[LAG])


def reason(error: KafkaException | KafkaError) -> str:
    """Return what an error of the client says, in a line."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    return cause.str() or cause.name() if isinstance(cause, KafkaError) else str(cause)


def code(error: KafkaException) -> int:
    cause = error.args[0]
    return int(cause.code()) if isinstance(cause, KafkaError) else KafkaError._FAIL


TRANSIENT = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_CONTROLLER,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._DESTROY,
    KafkaError._DESTROY_BROKER,
}
"""Codes of requests that may succeed later, while brokers are away, elect leaders or learn of topics."""


UNANSWERED = {KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}
"""Codes of requests to which no broker has answered."""


class Cluster:
    """One client of the cluster's administration. Belongs to one event loop."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._heard = ""
        """The client's last error of a connection: an answer that does not come has no reason of its own."""
        self._admin = AdminClient(address.client() | {"error_cb": self._hear})  # type: ignore[arg-type]
        self._ends: dict[str, asyncio.Task[Mapping[int, int]]] = {}

    async def topics(self) -> dict[str, int]:
        """Names of the topics of this log, with their numbers of partitions. Raises LogError."""
        listed = await self._blocking(lambda: self._admin.list_topics(timeout=ANSWER_SECONDS))
        prefix = self.address.prefix
        return {
            name.removeprefix(prefix): len(topic.partitions)
            for name, topic in listed.topics.items()
            if name.startswith(prefix)
        }

    async def make(self, names: Sequence[str], partitions: int, replicas: int) -> None:
        """Make topics that are not there. Raises LogError."""
        config = _COMMON | {"min.insync.replicas": str(min(2, replicas))}
        new = [
            NewTopic(
                self.address.topic(name),
                num_partitions=partitions,
                replication_factor=replicas,
                config=config | _kind(name),
            )
            for name in names
        ]
        try:
            await _all(self._admin.create_topics(new, operation_timeout=ANSWER_SECONDS).values())
        except KafkaException as error:
            if code(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self.error(error) from error
        await self._until_there(names)

    async def compact_in_time(self, topics: Iterable[str]) -> bool:
        """Alter topics that are compacted late; return whether there were some. Raises LogError."""
        late = [topic for topic in topics if is_compacted_late(topic, await self.settings(topic))]
        change = ConfigEntry(LAG, _COMPACT[LAG], incremental_operation=AlterConfigOpType.SET)
        altered = [
            ConfigResource(ResourceType.TOPIC, self.address.topic(topic), incremental_configs=[change])
            for topic in late
        ]
        if altered:
            await self._repeat(lambda: _all(self._admin.incremental_alter_configs(altered).values()))
        return bool(altered)

    async def _until_there(self, names: Sequence[str]) -> None:
        """Wait until the brokers know the topics: the one that makes them answers before the others have heard."""
        async with asyncio.timeout(AWAY_SECONDS):
            while not set(names) <= (await self.topics()).keys():  # noqa: ASYNC110 - the brokers tell nobody
                await asyncio.sleep(0.05)

    async def replicas(self) -> int:
        """The number of copies that a new topic gets: three, or as many as there are brokers."""
        listed = await self._blocking(lambda: self._admin.list_topics(timeout=ANSWER_SECONDS))
        return min(REPLICAS, len(listed.brokers))

    async def ends(self, topic: str, partitions: int) -> Mapping[int, int]:
        """Return the end of every partition, open transactions included. Raises LogError.

        Calls of one turn of the event loop share a request; a request that was sent earlier answers no later call.
        """
        task = self._ends.get(topic)
        if task is None:
            task = self._ends[topic] = asyncio.ensure_future(self._ask_ends(topic, partitions))
        return await asyncio.shield(task)

    async def _ask_ends(self, topic: str, partitions: int) -> Mapping[int, int]:
        try:
            await asyncio.sleep(0)
        finally:
            del self._ends[topic]
        return await self._offsets(topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    async def starts(self, topic: str, partitions: int) -> Mapping[int, int]:
        """Return the offset of the oldest record of every partition. Raises LogError."""
        return await self._offsets(topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    async def at_time(self, topic: str, partitions: int, time: datetime) -> Mapping[int, int]:
        """Return the offset of the first record since a time of every partition; -1 where there is none."""
        return await self._offsets(topic, partitions, OffsetSpec.for_timestamp(int(time.timestamp() * 1000)))

    async def _offsets(self, topic: str, partitions: int, spec: OffsetSpec) -> Mapping[int, int]:
        name = self.address.topic(topic)

        async def ask() -> Mapping[int, int]:
            asked = {TopicPartition(name, number): spec for number in range(partitions)}
            futures = self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=OFFSETS_SECONDS
            )
            results = await _all(futures.values())
            return {
                partition.partition: result.offset for partition, result in zip(futures, results, strict=True)
            }

        return await self._repeat(ask)

    async def positions(self, group: str, topic: str) -> Mapping[int, int]:
        """Return the positions of a group in a topic; empty for an unknown group. Raises LogError."""
        return await self._read_committed(self.address.topic(group), self.address.topic(topic))

    async def lowest_positions(self, topic: str) -> Mapping[int, int]:
        """Return the lowest position in every partition of a topic that any group has. Raises LogError."""
        listed = await self._repeat(
            lambda: asyncio.wrap_future(self._admin.list_consumer_groups(request_timeout=ANSWER_SECONDS))
        )
        lowest: dict[int, int] = {}
        for group in listed.valid:
            if group.group_id.startswith(self.address.prefix):
                for partition, at in (
                    await self._read_committed(group.group_id, self.address.topic(topic))
                ).items():
                    lowest[partition] = min(at, lowest.get(partition, at))
        return lowest

    async def _read_committed(self, group: str, topic: str) -> Mapping[int, int]:
        async def ask() -> Mapping[int, int]:
            # Stable: positions of a transaction whose end the brokers are still writing down are waited for.
            futures = self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], require_stable=True, request_timeout=ANSWER_SECONDS
            )
            (known,) = await _all(futures.values())
            for place in known.topic_partitions:
                if place.error is not None:
                    raise KafkaException(place.error)
            return {
                place.partition: place.offset
                for place in known.topic_partitions
                if place.topic == topic and place.offset >= 0
            }

        return await self._repeat(ask)

    async def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Remove the records before these offsets. Raises LogError."""
        name = self.address.topic(topic)
        places = [TopicPartition(name, partition, offset) for partition, offset in offsets.items()]
        if places:
            await self._repeat(
                lambda: _all(self._admin.delete_records(places, request_timeout=ANSWER_SECONDS).values())
            )

    async def settings(self, topic: str) -> Mapping[str, str]:
        """Return the settings of a topic in the cluster. Raises LogError."""
        resource = ConfigResource(ResourceType.TOPIC, self.address.topic(topic))
        (entries,) = await self._repeat(lambda: _all(self._admin.describe_configs([resource]).values()))
        return {name: str(entry.value) for name, entry in entries.items()}

    async def check_versions(self) -> None:
        """Return if the brokers are new enough. Raises LogError."""
        await self.topics()  # this client hears why there is no answer; the one below does not
        await self._blocking(lambda: check_versions(self.address, ANSWER_SECONDS))

    async def check_rights(self, topics: Sequence[str]) -> None:
        """Return if the user may do all that the platform does. Raises LogError."""
        await self._repeat(lambda: check_rights(self.address, self._admin, topics))

    async def copies(self, topic: str) -> tuple[int, int, int]:
        """Return the brokers, and the fewest replicas and replicas in sync of a topic's partitions."""
        listed = await self._blocking(lambda: self._admin.list_topics(timeout=ANSWER_SECONDS))
        partitions = listed.topics[self.address.topic(topic)].partitions.values()
        return (
            len(listed.brokers),
            min(len(partition.replicas) for partition in partitions),
            min(len(partition.isrs) for partition in partitions),
        )

    async def _blocking(self, ask: Callable[[], Any]) -> Any:
        return await self._repeat(lambda: asyncio.to_thread(ask), seconds=ANSWER_SECONDS)

    async def _repeat(self, ask: Callable[[], Awaitable[T]], seconds: float = AWAY_SECONDS) -> T:
        """Ask again while brokers are away or elect leaders. Raises LogError."""
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while True:
            try:
                return await ask()
            except KafkaException as error:
                if code(error) not in TRANSIENT or clock() > end:
                    await asyncio.to_thread(self._admin.poll, 0)  # calls `_hear`
                    raise self.error(error) from error
            await asyncio.sleep(0.1)

    def _hear(self, error: KafkaError) -> None:
        logger.info("%s", error.str())
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._heard = error.str()

    def error(self, error: KafkaException) -> LogError:
        heard = self._heard if code(error) in UNANSWERED else ""
        return LogError(
            f"log {self.address.url}: {f'no broker answers: {heard}' if heard else reason(error)}"
        )


async def _all(futures: Iterable["Future[Any]"]) -> list[Any]:
    return list(await asyncio.gather(*(asyncio.wrap_future(future) for future in futures)))
