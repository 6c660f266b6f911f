"""Records between our form and Kafka's."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TypedDict

from confluent_kafka import Message as KafkaMessage

from steelyard.broker.kafka.address import Address
from steelyard.broker.kafka.cluster import MOST_BYTES
from steelyard.broker.log import COMPACTED, BadMessage, LogError, Message, Record
from steelyard.broker.partition import find_partition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Outgoing(TypedDict):
    """Arguments of a producer's `produce`."""

    topic: str
    key: bytes
    value: bytes | None
    partition: int
    headers: list[tuple[str, str | bytes | None]]


def outgoing(message: Message, address: Address, partitions: int) -> Outgoing:
    """Return a message as a producer takes it. Raises BadMessage, LogError."""
    own = find_partition(message.key, partitions)
    partition = own if message.partition is None else message.partition
    if message.topic in COMPACTED and partition != own:
        # Kafka compacts each partition for itself, and orders nothing between two of them.
        raise BadMessage(f"{message.topic}: {message.key!r} belongs into partition {own}, not {partition}")
    if not 0 <= partition < partitions:
        raise BadMessage(f"{message.topic}: there is no partition {partition}, but 0 to {partitions - 1}")
    try:
        key = message.key.encode()
        headers: list[tuple[str, str | bytes | None]] = [
            (name, value.encode()) for name, value in message.headers.items()
        ]
    except UnicodeEncodeError as error:
        raise BadMessage(f"{message.topic}: a key or header is not UTF-8: {error}") from error
    size = (
        len(key) + len(message.value or b"") + sum(len(name) + len(value or b"") for name, value in headers)
    )
    if size > MOST_BYTES:
        raise BadMessage(f"{message.topic}: a message of {size} bytes; at most {MOST_BYTES} are possible")
    return Outgoing(
        topic=address.topic(message.topic),
        key=key,
        value=message.value,
        partition=partition,
        headers=headers,
    )


def incoming(message: KafkaMessage, topic: str) -> Record:
    """Return a record of a topic. What other programs wrote may be no UTF-8; it is shown escaped."""
    partition, offset = message.partition(), message.offset()
    if partition is None or offset is None:
        raise LogError(f"{topic}: a record without a position")
    headers: Mapping[str, bytes | None] = dict(message.headers() or ())  # type: ignore[arg-type]
    return Record(
        topic,
        partition,
        offset,
        (message.key() or b"").decode(errors="backslashreplace"),
        message.value(),
        {name: (value or b"").decode(errors="backslashreplace") for name, value in headers.items()},
        _EPOCH + timedelta(milliseconds=message.timestamp()[1]),
    )


def confirm(message: Outgoing, report: KafkaMessage, topic: str) -> Record:
    """Return the record that a message has become; a delivery report has its place and time alone."""
    offset = report.offset()
    if offset is None:
        raise LogError(f"{topic}: a record without a position")
    return Record(
        topic,
        message["partition"],
        offset,
        message["key"].decode(),
        message["value"],
        {name: value.decode() for name, value in message["headers"] if isinstance(value, bytes)},
        _EPOCH + timedelta(milliseconds=report.timestamp()[1]),
    )
