"""The log in a real Kafka: its contract, histories beside the embedded one, members and brokers that are killed."""

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from random import Random

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from hypothesis import HealthCheck, given, settings

from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.kafka.address import parse
from steelyard.broker.kafka.log import KafkaLog
from steelyard.broker.log import COMPACTED, EVENTS, OUTCOMES, Log, LogError
from steelyard.broker.open import open_log, prepare_log
from steelyard.broker.scan import partition_records
from steelyard.broker.test_processes import check, until_said, work_until_killed, working
from steelyard.testing.engines import log as log_suite
from steelyard.testing.engines import log_groups
from steelyard.testing.engines.log import message
from tests.engines.control_plane import free_ports
from tests.engines.services.histories import LOG_OPERATIONS, Operation, log_outcomes
from tests.engines.services.kafka import kafka, refusal, until
from tests.engines.services.suite import KAFKA

PARTITIONS = 3
WHOLE = "3 replicas, 3 in sync, 2 confirm each record"
CASES = log_suite.CASES | log_groups.CASES


@contextmanager
def prefixed() -> Iterator[str]:
    """Address of a log of its own: a prefix that no other test has."""
    url = f"{os.environ[KAFKA]}/test-{secrets.token_hex(4)}"
    yield url
    address = parse(url)
    admin = AdminClient({"bootstrap.servers": address.brokers, "log_level": 0})
    left = [name for name in admin.list_topics(timeout=60).topics if name.startswith(address.prefix)]
    # Small brokers carry a few hundred partitions, not those of every test.
    for future in admin.delete_topics(left).values() if left else ():
        future.result()


@pytest.fixture
def url() -> Iterator[str]:
    with prefixed() as url:
        yield url


@pytest.fixture
async def log(url: str) -> AsyncIterator[Log]:
    assert await prepare_log(url, PARTITIONS) == "made"
    opened = await open_log(url, PARTITIONS)
    yield opened
    await opened.close()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_log_keeps_to_the_contract(log: Log, case: log_suite.Case) -> None:
    await case(log)


def set_of_topic(url: str, topic: str, name: str, value: str) -> None:
    """Change a setting of a topic, as an operator of the cluster may."""
    address = parse(url)
    admin = AdminClient({"bootstrap.servers": address.brokers, "log_level": 0})
    change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, address.topic(topic), incremental_configs=[change])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()


async def facts(log: KafkaLog) -> list[str]:
    """Return what the log says of its brokers, once all are in sync: on busy cores one stays behind for a while."""
    return list(await until(log.facts, lambda said: WHOLE in said))


async def test_topics_of_an_earlier_version_get_todays_settings(log: Log, url: str) -> None:
    assert isinstance(log, KafkaLog)
    (first, *_, last) = sorted(COMPACTED)
    lag = "max.compaction.lag.ms"
    prepare = partial(prepare_log, url, PARTITIONS)
    set_of_topic(url, first, lag, str(2**63 - 1))  # Kafka's own
    set_of_topic(url, last, lag, "1000")
    late = "forgotten content may stay for long: `steelyard config init`"
    await until(log.facts, lambda said: said[-1].startswith(late))
    assert await until(prepare, "up to date".__ne__) == "settings altered"
    async with asyncio.timeout(120):
        while (await log.cluster.settings(first))[lag] != str(24 * 3600 * 1000):  # noqa: ASYNC110 - brokers hear of it later
            await asyncio.sleep(0.05)
    assert (await log.cluster.settings(last))[lag] == "1000", "a shorter one is an operator's choice"
    await until(prepare, "up to date".__eq__)
    assert await facts(log) == ["3 brokers", WHOLE, "all rights"]


async def test_settings_that_could_lose_records_are_refused(log: Log, url: str) -> None:
    assert isinstance(log, KafkaLog)
    assert await facts(log) == ["3 brokers", WHOLE, "all rights"]
    set_of_topic(url, EVENTS, "retention.ms", "1000")
    wrong = "workflows.events has retention.ms=1000, which should be -1"
    await until(partial(refusal, log.facts), lambda said: wrong in said)


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(LOG_OPERATIONS)
def test_any_history_is_as_in_memory(operations: list[Operation]) -> None:
    async def compare() -> None:
        with prefixed() as url:
            await prepare_log(url, PARTITIONS)
            log = await open_log(url, PARTITIONS)
            try:
                assert await log_outcomes(log, operations) == await log_outcomes(
                    MemoryLog(PARTITIONS), operations
                )
            finally:
                await log.close()

    asyncio.run(compare())


async def test_members_that_are_killed_lose_and_double_nothing(log: Log, url: str) -> None:
    random = Random(5)
    await log.publish([message(f"k{number % 10}", str(number)) for number in range(60)])
    for batches in (1, 3, 2):
        await asyncio.to_thread(work_until_killed, url, batches, random.random() * 0.03, PARTITIONS)
    async with working(url, partitions=PARTITIONS):
        await until_said(log, 60)
    await check(log, 10, 6)


async def test_what_was_replaced_leaves_the_brokers_files_within_days(log: Log) -> None:
    assert isinstance(log, KafkaLog)
    for topic in COMPACTED:
        settings = await log.cluster.settings(topic)
        assert int(settings["max.compaction.lag.ms"]) <= 24 * 3600 * 1000


async def test_a_member_that_stalls_longer_than_its_session_doubles_nothing(log: Log, url: str) -> None:
    await log.publish([message(f"k{number % 10}", str(number)) for number in range(60)])
    async with working(url, 0.2, PARTITIONS) as stalled:
        assert stalled.stdout is not None
        await asyncio.to_thread(stalled.stdout.readline)
        os.kill(stalled.pid, signal.SIGSTOP)
        async with working(url, partitions=PARTITIONS):
            await until_said(log, 60)
            os.kill(stalled.pid, signal.SIGCONT)
            await log.publish([message(f"k{number % 10}", str(number)) for number in range(60, 80)])
            await until_said(log, 80)
    await check(log, 10, 8)


@pytest.mark.timeout(1800)
async def test_what_was_confirmed_survives_the_death_of_each_broker_in_turn(url: str) -> None:
    """Brokers of the test's own: two of three go on, and the third catches up."""
    with kafka() as cluster:
        await prepare_log(cluster.address, PARTITIONS)
        log = await open_log(cluster.address, PARTITIONS)
        numbers = count()
        confirmed: list[str] = []
        stop = asyncio.Event()

        async def publish() -> None:
            while not stop.is_set():
                number = str(next(numbers))
                await log.publish([message(f"k{int(number) % 10}", number)])
                confirmed.append(number)
                await asyncio.sleep(0.1)  # the worker takes three at a time

        async def kill_in_turn() -> None:
            for broker in cluster.brokers:
                before = len(confirmed)
                await asyncio.to_thread(broker.kill)
                async with asyncio.timeout(300):
                    while len(confirmed) < before + 20:  # noqa: ASYNC110 - the other two go on
                        await asyncio.sleep(0.05)
                await asyncio.to_thread(broker.start)
                await asyncio.to_thread(cluster.wait)
            stop.set()

        async with working(cluster.address, partitions=PARTITIONS):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(publish())
                tasks.create_task(kill_in_turn())
            async with asyncio.timeout(600):
                while len(said := await values(log, OUTCOMES)) < len(confirmed):
                    await log.wait_for_change(log.version(), 1)
        assert sorted(said) == sorted(number.encode() for number in confirmed)
        await log.close()


async def values(log: Log, topic: str) -> list[bytes]:
    return [
        record.value or b""
        for partition in range(log.partitions)
        async for record in partition_records(log, topic, partition)
    ]


async def test_brokers_that_are_away_and_topics_that_are_missing_are_one_line(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LogError, match="has no topics of Steelyard yet; `steelyard config init` makes them"):
        await open_log(url, PARTITIONS)
    monkeypatch.setattr("steelyard.broker.kafka.cluster.ANSWER_SECONDS", 1.0)
    (port,) = free_ports(1)
    with pytest.raises(LogError, match=r"127\.0\.0\.1:\d+"):
        await open_log(f"kafka://127.0.0.1:{port}", PARTITIONS)
