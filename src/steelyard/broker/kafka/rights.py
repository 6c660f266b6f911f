"""Check of the rights that the address's user has in a Kafka cluster with access control.

Brokers without an authorizer grant everything.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation

from steelyard.broker.kafka.address import Address
from steelyard.broker.log import AGGREGATOR, COMPACTED, LogError

ANSWER_SECONDS = 10.0
_PROBE = "config-check"


async def check_rights(address: Address, admin: AdminClient, topics: Sequence[str]) -> None:
    """Return if the user may do all that the platform does. Raises LogError, which names all missing rights."""
    missing = [
        *await _missing_on_topics(address, admin, topics),
        *await _missing_on_group(address, admin),
        *await asyncio.to_thread(_missing_on_transactions, address),
    ]
    if missing:
        raise deny(address, missing)


def deny(address: Address, rights: Sequence[str]) -> LogError:
    """Return the error that names the missing rights."""
    return LogError(f"log {address.url}: the user lacks the rights {', '.join(rights)}")


def read_on_groups(address: Address) -> str:
    """Return the right without which no client of the log can begin."""
    return f"READ on groups {_names(address)}"


def _names(address: Address) -> str:
    """Describe the names of the log's groups and transactional ids."""
    return f"that begin with {address.prefix}" if address.prefix else "of any name"


def _list_operations(topic: str) -> Iterable[AclOperation]:
    yield from (AclOperation.READ, AclOperation.WRITE)
    if topic not in COMPACTED:
        yield AclOperation.DELETE  # of records that have expired


async def _missing_on_topics(address: Address, admin: AdminClient, topics: Sequence[str]) -> Iterable[str]:
    names = TopicCollection([address.topic(topic) for topic in topics])
    futures = admin.describe_topics(names, include_authorized_operations=True, request_timeout=ANSWER_SECONDS)
    described = await asyncio.gather(*(asyncio.wrap_future(future) for future in futures.values()))
    return [
        f"{operation.name} on the topic {topic.name}"
        for name, topic in zip(topics, described, strict=True)
        for operation in _list_operations(name)
        if operation not in topic.authorized_operations
    ]


async def _missing_on_group(address: Address, admin: AdminClient) -> Iterable[str]:
    group = address.topic(AGGREGATOR)
    futures = admin.describe_consumer_groups(
        [group], include_authorized_operations=True, request_timeout=ANSWER_SECONDS
    )
    try:
        described: Any = await asyncio.wrap_future(futures[group])
        allowed = AclOperation.READ in described.authorized_operations
    except KafkaException as error:
        if error.args[0].code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise
        allowed = False
    return () if allowed else (read_on_groups(address),)


def _missing_on_transactions(address: Address) -> Iterable[str]:
    """Return the right on transactional ids if it is missing: only the use of an id shows whether it may be used."""
    name = address.topic(_PROBE)
    producer = Producer(address.client(transactional_id=name))
    try:
        producer.init_transactions(ANSWER_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise
        return (f"WRITE on transactional ids {_names(address)}",)
    return ()
