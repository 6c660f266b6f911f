"""Clients of an engine whose packets are lost for a while: each works again soon afterwards, and confirmed writes are
there.

`test_lost_packets.py` tells the README's story meanwhile. Without root these are left out.
"""

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.outbox import OutboxRow
from steelyard.accounts.postgresql.database import parse
from steelyard.accounts.postgresql.schema import migrate
from steelyard.broker.log import EVENTS, STATE, Message
from steelyard.broker.open import open_log, prepare_log
from steelyard.broker.scan import partition_records
from steelyard.testing.engines.view import change, dataset
from steelyard.views.open import open_view
from steelyard_common.errors import EngineError
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.ids import random_id
from tests.engines.build import Missing
from tests.engines.services.kafka import kafka
from tests.engines.services.mongodb import mongodb
from tests.engines.services.network import Network, network, require
from tests.engines.services.postgresql import postgresql
from tests.engines.services.s3 import client_environment, s3

SOON_SECONDS = 60.0
"""Longest time after the network is whole until every kind of request was answered again, on busy cores, too."""
Request = Callable[[str], Awaitable[object]]
"""One request of a client, with a name that no other has."""


@dataclass
class Client:
    """Kinds of requests of one engine, which are made side by side, and `confirmed`, which reads the written data."""

    requests: dict[str, Request]
    confirmed: Callable[[], Awaitable[set[str]]]


Connect = Callable[[Network], contextlib.AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def of_postgresql(made: Network) -> AsyncIterator[Client]:
    with postgresql(made.place) as service:
        migrate(parse(service.address))
        opened = await open_accounts_database(service.address)
        await opened.outbox.begin("server", 3600)

        async def accept(name: str) -> None:
            await opened.outbox.add(
                OutboxRow(
                    command=name, account="a", kind="Evaluation", entity=name, created=datetime.now(UTC),
                    topic_key=name, value=b"x", headers={}, request=name, ends=1, server="server",
                )
            )  # fmt: skip

        async def kept() -> set[str]:
            return {row.command for row in await opened.outbox.unsent()}

        yield Client({"accept": accept}, kept)
        await opened.close()


@asynccontextmanager
async def of_mongodb(made: Network) -> AsyncIterator[Client]:
    with mongodb(made.place) as service:
        sink, reader = await open_view(service.address), await open_view(service.address)
        names: list[str] = []

        async def write(name: str) -> None:
            names.append(name)
            await sink.apply([change(dataset(name), len(names))], 1, {0: len(names) + 1})

        async def read(_name: str) -> None:
            await reader.get("Dataset", "any")

        async def kept() -> set[str]:
            return {name for name in names if await reader.get("Dataset", name) is not None}

        yield Client({"write": write, "read": read}, kept)
        await sink.close()
        await reader.close()


@asynccontextmanager
async def of_s3(made: Network) -> AsyncIterator[Client]:
    with s3(made.place) as service:
        environment = client_environment(service)
        before = {name: os.environ.get(name) for name in environment}
        os.environ |= environment
        try:
            store = open_store("s3://steelyard/test")
            await store.put("there", b"")

            async def create(name: str) -> None:
                await store.create(name, b"x")

            async def read(_name: str) -> None:
                await store.get("there")

            async def kept() -> set[str]:
                return {info.key async for info in store.list()}

            yield Client({"create": create, "read": read}, kept)
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                os.environ |= {} if value is None else {name: value}


@asynccontextmanager
async def of_kafka(made: Network) -> AsyncIterator[Client]:
    with kafka(place=made.place) as cluster:
        await prepare_log(cluster.address, 2)
        log, other = await open_log(cluster.address, 2), await open_log(cluster.address, 2)
        inbox = await other.inbox("group", EVENTS)

        async def publish(name: str) -> None:
            await log.publish([Message(EVENTS, name, b"x")])

        async def work(_name: str) -> None:
            batch = await inbox.batch(wait=0.2)
            await inbox.transact(batch, [Message(STATE, record.key, b"x") for record in batch.records])

        async def look(_name: str) -> None:
            await log.latest(STATE, "any")

        async def kept() -> set[str]:
            return {
                record.key
                for partition in range(2)
                async for record in partition_records(log, EVENTS, partition)
            }

        yield Client({"publish": publish, "work": work, "look": look}, kept)
        await inbox.close()
        await other.close()
        await log.close()


ENGINES: dict[str, Connect] = {
    "postgresql": of_postgresql,
    "mongodb": of_mongodb,
    "s3": of_s3,
    "kafka": of_kafka,
}


@dataclass
class Asking:
    """Makes one kind of request again and again; `answered` is set by each answer."""

    what: str
    request: Request
    confirmed: set[str] = field(default_factory=set)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        for number in itertools.count():
            name = random_id()
            try:
                await self.request(name)
            except EngineError as error:
                print(f"{self.what} {number}: {str(error)[:150]}")
                await asyncio.sleep(0.1)
            else:
                self.confirmed.add(name)
                self.answered.set()
                await asyncio.sleep(0.02)


@pytest.fixture(params=[True, False], ids=["silent", "no route"])
def made(request: pytest.FixtureRequest) -> Iterator[Network]:
    try:
        require()
    except Missing as missing:
        pytest.skip(str(missing))
    with network(silent=request.param) as made:
        yield made


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seconds", [12.0, pytest.param(60.0, marks=pytest.mark.soak)])
@pytest.mark.parametrize("connect", ENGINES.values(), ids=ENGINES)
async def test_every_kind_of_request_is_answered_again_soon(
    made: Network, connect: Connect, seconds: float
) -> None:
    async with connect(made) as client:
        asking = [Asking(what, request) for what, request in client.requests.items()]
        tasks = [asyncio.create_task(one.run()) for one in asking]
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(one.answered.wait() for one in asking))
        made.cut()
        await asyncio.sleep(seconds)
        made.heal()
        healed = loop.time()
        for one in asking:
            one.answered.clear()
        late = []
        for one in asking:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(4 * SOON_SECONDS):
                    await one.answered.wait()
            took = loop.time() - healed
            print(f"{one.what}: answered {took:.1f} s after the network was whole")
            if took > SOON_SECONDS:
                late.append(f"{one.what}: {took:.1f} s")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer = asking[0]
        assert writer.confirmed <= await client.confirmed(), "a confirmed write was lost"
        assert late == []
