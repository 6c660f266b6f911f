"""Measures the log in a file and in three brokers of Kafka: `python -m benchmarks.logs [KEYS]`.

Beside Kafka's figures, in the same run, stand those of the bare producer with the same settings. The brokers are those
of the tests, on this machine, so that they and their clients share its cores.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from confluent_kafka import Producer

from steelyard.broker.kafka.address import parse
from steelyard.broker.log import EVENTS, STATE, Log, Message
from steelyard.broker.open import open_log, prepare_log
from steelyard.broker.scan import topic_pieces
from tests.engines.services.kafka import kafka

VALUE = b"x" * 2000
ONE_BY_ONE = 300
AT_ONCE = 5000
BATCH = 500


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def measure(name: str, url: str, keys: int) -> None:
    await prepare_log(url)
    log = await open_log(url)
    try:
        await log.publish([Message(EVENTS, "first", VALUE)])
        single = [
            await seconds(lambda number=number: log.publish([Message(EVENTS, f"k{number}", VALUE)]))  # type: ignore[misc]
            for number in range(ONE_BY_ONE)
        ]
        together = await seconds(
            lambda: asyncio.gather(*(log.publish([Message(EVENTS, f"k{n}", VALUE)]) for n in range(AT_ONCE)))
        )
        print(f"{name}: one message {statistics.median(single) * 1000:.1f} ms, "
              f"{AT_ONCE} at once {AT_ONCE / together:,.0f}/s")  # fmt: skip
        worked = await seconds(lambda: work_off(log, AT_ONCE + ONE_BY_ONE + 1))
        print(
            f"{name}: read, process, write {(AT_ONCE + ONE_BY_ONE + 1) / worked:,.0f}/s in batches of {BATCH}"
        )
        await log.latest(STATE, "k0")
        looks = [await seconds(lambda n=n: log.latest(STATE, f"k{n}")) for n in range(ONE_BY_ONE)]  # type: ignore[misc]
        after = [await look_after_write(log, number) for number in range(50)]
        print(f"{name}: newest record of a key {statistics.median(looks) * 1000:.2f} ms, "
              f"after another process wrote {statistics.median(after) * 1000:.1f} ms")  # fmt: skip
        await fill(log, keys)
    finally:
        await log.close()
    again = await open_log(url)
    try:
        rebuilt = await seconds(lambda: again.latest(STATE, "key 0"))
        print(
            f"{name}: the newest record of one key of {keys:,} in a new process {rebuilt:.2f} s", flush=True
        )
    finally:
        await again.close()


async def work_off(log: Log, number: int) -> None:
    inbox = await log.inbox("group", EVENTS)
    left = number
    while left > 0:
        batch = await inbox.batch(BATCH, 1.0)
        await inbox.transact(batch, [Message(STATE, record.key, VALUE) for record in batch.records])
        left -= len(batch.records)
    await inbox.close()


async def look_after_write(log: Log, number: int) -> float:
    await log.publish([Message(STATE, f"k{number}", VALUE), Message(STATE, f"k{number + 1}", VALUE)])
    return await seconds(lambda: log.latest(STATE, f"k{number}"))


async def fill(log: Log, keys: int) -> None:
    for start in range(0, keys, BATCH):
        await asyncio.gather(
            *(log.publish([Message(STATE, f"key {n}", VALUE)]) for n in range(start, start + BATCH))
        )
    async for _ in topic_pieces(log, STATE):
        pass


def bare(url: str) -> None:
    """Print the figures of librdkafka's producer without anything of ours."""
    address = parse(url)
    producer = Producer(address.client(acks="all", enable_idempotence=True, linger_ms=1))
    topic = address.topic(EVENTS)
    producer.produce(topic, VALUE)
    producer.flush()
    single = []
    for number in range(ONE_BY_ONE):
        began = time.perf_counter()
        producer.produce(topic, VALUE, key=f"k{number}")
        producer.flush()
        single.append(time.perf_counter() - began)
    began = time.perf_counter()
    for number in range(AT_ONCE):
        producer.produce(topic, VALUE, key=f"k{number}")
    producer.flush()
    together = time.perf_counter() - began
    print(f"bare producer: one message {statistics.median(single) * 1000:.1f} ms, "
          f"{AT_ONCE} at once {AT_ONCE / together:,.0f}/s")  # fmt: skip


async def main(keys: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        await measure("file", f"sqlite:{Path(folder, 'log.db')}", keys)
    with kafka() as cluster:
        await measure("Kafka", f"{cluster.address}/bench", keys)
        bare(f"{cluster.address}/bench")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else 20_000))
