"""Identity of a log in Kafka, its id, epoch and shape, which a topic of its own holds."""

import time
from dataclasses import dataclass

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from steelyard.broker.kafka.address import Address
from steelyard.broker.kafka.cluster import ANSWER_SECONDS, AWAY_SECONDS, IDENTITY, TRANSIENT, code, reason
from steelyard.broker.kafka.messages import Outgoing
from steelyard.broker.kafka.rights import deny, read_on_groups
from steelyard.broker.kafka.writing import RETRY_SECONDS, Transactions
from steelyard.broker.log import LogError

MAKER = "maker"
"""Name of the one producer that writes the log's identity: a later one fences an earlier one."""


@dataclass(frozen=True)
class Identity:
    """Id, epoch and shape of the log, as its own topic holds them."""

    id: str
    epoch: int
    partitions: int
    replicas: int


def write_first_identity(address: Address, new: Identity) -> bool:
    """Write the identity unless there is one. Of two that do this at once the later one fences the earlier one."""
    maker = Transactions(address, MAKER)
    maker.begin()
    if read_identity(address) is not None:
        return False
    maker.write([identity_message(address, new)])
    return True


def read_identity(address: Address) -> Identity | None:
    """Return the newest identity; all identities lie in one partition. Raises LogError."""
    end = time.monotonic() + AWAY_SECONDS
    while True:
        try:
            return _newest_identity(address)
        except KafkaException as error:
            # A topic that was just made has no leader yet.
            if code(error) not in TRANSIENT or time.monotonic() > end:
                if code(error) == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    raise deny(address, [read_on_groups(address)]) from error
                raise LogError(f"log {address.url}: {reason(error)}") from error
        time.sleep(RETRY_SECONDS)


def _newest_identity(address: Address) -> Identity | None:
    consumer = Consumer(
        address.client(
            group_id=address.topic("steelyard-identity"),  # never joined; the client wants a name
            enable_auto_commit=False,
            enable_partition_eof=True,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_wait_max_ms=20,
        )
    )
    newest: Identity | None = None
    try:
        place = TopicPartition(address.topic(IDENTITY), 0, 0)
        end = consumer.get_watermark_offsets(place, ANSWER_SECONDS)[1]
        consumer.assign([place])
        reached = 0
        while reached < end:
            message = consumer.poll(AWAY_SECONDS)
            if message is None:
                raise LogError(f"log {address.url}: {IDENTITY} cannot be read to its end")
            error = message.error()
            if error is None:
                reached = (message.offset() or 0) + 1
                newest = Identity(**orjson.loads(message.value() or b"{}"))
            elif error.code() == KafkaError._PARTITION_EOF:
                reached = message.offset() or 0
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    return newest


def identity_message(address: Address, identity: Identity) -> Outgoing:
    value = orjson.dumps(identity)
    return Outgoing(topic=address.topic(IDENTITY), key=b"log", value=value, partition=0, headers=[])
