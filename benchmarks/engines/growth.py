"""Measures servers while they grow: `python -m benchmarks.engines --growth N [N …]` calls it.

For each size: accepting a command beside as many earlier ones in PostgreSQL, the newest record of a key and the local
copy's rebuilding in Kafka, a get and a query of the view in MongoDB's protocol, and the memory of each server. Servers
are filled by their bare drivers in bulk, with what Steelyard would have written. Where a size would take too long, a
server is filled as far as the time allows, and the line says how far that was.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Producer
from pymongo import AsyncMongoClient
from pymongo.write_concern import WriteConcern

from benchmarks.machine.__main__ import memory
from benchmarks.views.__main__ import changes, hexadecimal
from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.postgresql.database import parse
from steelyard.accounts.postgresql.schema import migrate
from steelyard.broker.kafka.address import parse as parse_kafka
from steelyard.broker.log import STATE, Log, Message
from steelyard.broker.open import open_log, prepare_log
from steelyard.broker.partition import find_partition
from steelyard.views.fields import read
from steelyard.views.mongodb.documents import ENTITIES, document
from steelyard.views.open import open_view
from steelyard.views.view import Change, Query, View
from tests.engines.services.kafka import kafka
from tests.engines.services.mongodb import mongodb
from tests.engines.services.postgresql import postgresql
from tests.engines.services.service import Service

VALUE = b"x" * 2000
TIMES = 200
CALLERS = 10
BATCH = 1000
PUBLISHED = 5000
MOST_SECONDS = 30.0

Pause = Callable[[str], Awaitable[None]]
"""Called before each step with what comes next."""


@dataclass(frozen=True)
class GrowthFigure:
    """One figure at one size; milliseconds, MB, or as its name says."""

    what: str
    size: int
    value: float


async def go_on(_step: str) -> None:
    """Do not pause."""


async def wait_for_line(step: str) -> None:
    """Tell what comes next, and wait for a line on standard input: until then the machine can be made quiet."""
    print(f"next: {step}", file=sys.stderr, flush=True)
    if not await asyncio.to_thread(sys.stdin.readline):
        raise SystemExit("standard input has ended")


async def milliseconds(call: Callable[[int], Awaitable[object]], times: int = TIMES) -> float:
    """Return the median of `times` calls, one after the other, or of as many as begin within MOST_SECONDS."""
    took: list[float] = []
    end = time.monotonic() + MOST_SECONDS
    for number in range(times):
        if took and time.monotonic() > end:
            break
        took.append(await seconds(lambda number=number: call(number)))  # type: ignore[misc]
    return statistics.median(took) * 1e3


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


def size_of(services: Sequence[Service]) -> float:
    """Return the memory of servers with all their processes, in MB (proportional set size)."""
    pids = [service.pid for service in services]
    for pid in pids:  # grows while it is read: children of children
        for task in Path(f"/proc/{pid}/task").iterdir():
            pids += map(int, (task / "children").read_text().split())
    return memory(pids)


async def grow_accounts(
    sizes: Sequence[int], accept: Callable[..., Awaitable[None]], pause: Pause
) -> AsyncIterator[GrowthFigure]:
    """Fill the outbox with commands that were sent long ago, of 2 KB each, and accept others."""
    with postgresql() as service:
        migrate(parse(service.address))
        opened = await open_accounts_database(service.address)
        await opened.outbox.begin("bench", 36_000)
        filled = 0
        for size in sizes:
            await pause(f"fill PostgreSQL up to {size:,}")
            with psycopg.connect(service.address, autocommit=True) as connection:
                connection.execute(_FILL, {"first": filled, "last": size - 1})
                connection.execute("VACUUM ANALYZE outbox")
                connection.execute("CHECKPOINT")
            filled = size
            await pause(f"measure PostgreSQL at {size:,}")
            alone = await milliseconds(lambda number: accept(opened.outbox, number))
            numbers = iter(range(5 * TIMES))

            async def work(numbers: Iterator[int]) -> None:
                for number in numbers:
                    await accept(opened.outbox, number)

            took = await seconds(lambda: asyncio.gather(*(work(numbers) for _ in range(CALLERS))))  # noqa: B023 - called at once
            yield GrowthFigure("accept a command, p50, ms", size, alone)
            yield GrowthFigure("accept commands, ten callers, /s", size, 5 * TIMES / took)
            yield GrowthFigure("memory of PostgreSQL, MB", size, size_of([service]))
        await opened.close()


_FILL = """
INSERT INTO outbox (command, account, kind, entity, created, topic_key, value, headers, request, idempotency_key, ends,
    partition, position, delivery, visible, server)
SELECT md5('c' || n), 'a' || n %% 100, 'Evaluation', md5('e' || n), now() - interval '1 day', md5('c' || n),
    decode(repeat(md5(n::text), 63), 'hex') || decode(repeat(md5('x' || n), 62), 'hex'), '{}', md5('r' || n),
    CASE WHEN n %% 2 = 0 THEN md5('k' || n) END, 1, n %% 8, n, 'answered', true, ''
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
"""


async def grow_log(sizes: Sequence[int], most_seconds: float, pause: Pause) -> AsyncIterator[GrowthFigure]:
    """Fill the topic of states with keys, look one up, and read all of them in another log object."""
    with kafka() as cluster:
        url = f"{cluster.address}/growth"
        await prepare_log(url)
        log = await open_log(url)
        filled = 0
        for size in sizes:
            await pause(f"fill Kafka up to {size:,}")
            filled = await asyncio.to_thread(fill_log, url, log.partitions, filled, size, most_seconds)
            await log.latest(STATE, "k0")  # its copy reads to the end
            await pause(f"measure Kafka at {filled:,}")
            async for figure in log_figures(log, url, filled):
                yield figure
            yield GrowthFigure("memory of three brokers, MB", filled, size_of(cluster.brokers))
            if filled < size:
                break
        await log.close()


def fill_log(url: str, partitions: int, first: int, size: int, most_seconds: float) -> int:
    """Write states of new keys as fast as the client can; return how many there are then."""
    address = parse_kafka(url)
    producer = Producer(address.client(acks="all", enable_idempotence=True, linger_ms=20))
    topic, end = address.topic(STATE), time.monotonic() + most_seconds
    for number in range(first, size):
        key = f"k{number}"
        while True:
            try:
                producer.produce(topic, VALUE, key=key, partition=find_partition(key, partitions))
                break
            except BufferError:
                producer.poll(0.1)
        if number % BATCH == 0:
            producer.poll(0)
            if time.monotonic() > end:
                size = number + 1
                break
    producer.flush()
    return size


async def log_figures(log: Log, url: str, filled: int) -> AsyncIterator[GrowthFigure]:
    keys = [f"k{number * 7907 % filled}" for number in range(PUBLISHED)]
    took = await seconds(lambda: asyncio.gather(*(log.publish([Message(STATE, key, VALUE)]) for key in keys)))
    yield GrowthFigure("publish states, /s", filled, PUBLISHED / took)
    await log.latest(STATE, "k0")
    yield GrowthFigure(
        "the newest record of a key, p50, ms",
        filled,
        await milliseconds(lambda n: log.latest(STATE, keys[n])),
    )
    rebuilt = await asyncio.to_thread(rebuild, url)
    yield GrowthFigure("rebuild the local copy, s", filled, rebuilt["seconds"])
    yield GrowthFigure("memory of a process without a local copy, MB", filled, rebuilt["before"])
    yield GrowthFigure("memory of a process with a local copy, MB", filled, rebuilt["after"])


def rebuild(url: str) -> dict[str, float]:
    """Build a local copy in a process of its own; return what it prints."""
    command = [sys.executable, "-m", "benchmarks.engines.local_copy", url]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    printed: dict[str, float] = json.loads(done.stdout)
    return printed


async def grow_view(sizes: Sequence[int], most_seconds: float, pause: Pause) -> AsyncIterator[GrowthFigure]:
    """Fill the view, get entities and query a hundred of them."""
    with mongodb() as service:
        view = await open_view(service.address)
        filled, written = 0, 0
        batches = changes(2 * max(sizes))
        for size in sizes:
            await pause(f"fill the view up to {size:,}")
            filled = written = await fill_view(service.address, batches, written, size, most_seconds)
            await pause(f"measure the view at {filled:,}")
            batch = next(batches)
            async for figure in view_figures(view, batch, filled):
                yield figure
            written += len(batch)
            yield GrowthFigure("memory of MongoDB's protocol, MB", filled, size_of([service]))
            if filled < size:
                break
        await view.close()


async def fill_view(
    url: str, batches: Iterator[list[Change]], written: int, size: int, most_seconds: float
) -> int:
    """Insert the documents of new entities in bulk; return how many there are then."""
    end = time.monotonic() + most_seconds
    async with AsyncMongoClient[dict[str, Any]](url) as client:
        entities = client.get_default_database().get_collection(ENTITIES, write_concern=WriteConcern(1))
        while written < size and time.monotonic() < end:
            batch = next(batches)
            await entities.insert_many([document(change, read(change), 0) for change in batch], ordered=False)
            written += len(batch)
    return written


async def view_figures(view: View, batch: Sequence[Change], filled: int) -> AsyncIterator[GrowthFigure]:
    page = Query("Evaluation", order_by="creationTime", order="descending", limit=100)
    took = await seconds(lambda: view.apply(batch, 1, {0: batch[-1].position.offset + 1}))
    yield GrowthFigure("view: write entities, /s", filled, len(batch) / took)
    got = await milliseconds(lambda n: view.get("Evaluation", hexadecimal("e", n * 7907 % filled)))
    yield GrowthFigure("view: get, p50, ms", filled, got)
    yield GrowthFigure(
        "view: query of 100, p50, ms", filled, await milliseconds(lambda _: view.query(page), 10)
    )
