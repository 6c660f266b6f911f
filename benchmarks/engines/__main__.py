"""Measures accounts, view and storage on files and on servers: `python -m benchmarks.engines [--only PART]`.

Beside the figures of a server, in the same run, stand those of its bare driver with the same durability. The servers
are those of the tests, on this machine, so that they and their clients share its cores. `benchmarks.logs` does the same
for the log. `services` gives the memory of each service in a process of its own, on servers. `--growth N [N …]` asks
servers that hold so many entities.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import obstore
import psycopg
from obstore.store import S3Store
from pymongo import AsyncMongoClient
from pymongo.write_concern import WriteConcern

from benchmarks.engines import growth
from benchmarks.machine.__main__ import memory
from benchmarks.views.__main__ import BATCH, changes, hexadecimal
from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.outbox import Outbox, OutboxRow
from steelyard.accounts.postgresql.database import parse
from steelyard.accounts.postgresql.schema import migrate
from steelyard.views.open import open_view
from steelyard.views.view import Query, View
from steelyard_evaluation.storage.store import Store, open_store
from steelyard_schema.ids import random_id
from tests.engines.services import together
from tests.engines.services.mongodb import mongodb
from tests.engines.services.postgresql import postgresql
from tests.engines.services.s3 import client_environment, s3

TIMES = 300
WORKERS = 10
"""Callers side by side, as many as the pool has connections."""
VALUE = b"x" * 2000
OBJECT = os.urandom(100_000)
LEASE_SECONDS = 3600.0


@dataclass(frozen=True)
class Row:
    """Figures of one kind of request on one engine: milliseconds of a single one (median, 99th percentile), and how
    many a second complete by `WORKERS` callers.
    """

    what: str
    engine: str
    p50: float
    p99: float
    per_second: float


Call = Callable[[int], Awaitable[object]]


async def measured(what: str, engine: str, call: Call, times: int = TIMES, together: int = WORKERS) -> Row:
    took = []
    for number in range(times):
        began = time.perf_counter()
        await call(number)
        took.append(time.perf_counter() - began)
    took.sort()
    numbers = iter(range(times, 4 * times))

    async def work() -> None:
        for number in numbers:
            await call(number)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(together)))
    rate = 3 * times / (time.perf_counter() - began)
    return Row(what, engine, statistics.median(took) * 1e3, took[int(len(took) * 0.99)] * 1e3, rate)


def command(number: int) -> OutboxRow:
    id = random_id()
    return OutboxRow(
        command=id, account=f"a{number % 100}", kind="Evaluation", entity=random_id(), created=datetime.now(UTC),
        topic_key=id, value=VALUE, headers={"id": id, "source": "api"}, request=id, ends=1, server="bench",
    )  # fmt: skip


async def accepted(outbox: Outbox, number: int) -> None:
    await outbox.add(command(number))


async def accounts_rows() -> list[Row]:
    rows = []
    with postgresql() as service, tempfile.TemporaryDirectory() as folder:
        migrate(parse(service.address))
        for engine, url in (("file", f"sqlite:{folder}/accounts.db"), ("PostgreSQL", service.address)):
            opened = await open_accounts_database(url)
            outbox = opened.outbox
            await outbox.begin("bench", LEASE_SECONDS)
            rows.append(await measured("accept a command", engine, lambda n, o=outbox: accepted(o, n)))  # type: ignore[misc]
            await opened.close()
        async with bare_postgresql(service.address) as insert:
            rows.append(await measured("insert and commit a row", "bare psycopg", insert))
    return rows


@contextlib.asynccontextmanager
async def bare_postgresql(url: str) -> AsyncIterator[Call]:
    """Insert one row of the same size and commit it, by as many connections."""
    connections = [await psycopg.AsyncConnection.connect(url) for _ in range(WORKERS)]
    await connections[0].execute("CREATE TABLE bare (id text PRIMARY KEY, value bytea)")
    await connections[0].commit()
    free: asyncio.Queue[psycopg.AsyncConnection] = asyncio.Queue()
    for connection in connections:
        free.put_nowait(connection)

    async def insert(_: int) -> None:
        connection = await free.get()
        await connection.execute("INSERT INTO bare VALUES (%s, %s)", (random_id(), VALUE))
        await connection.commit()
        free.put_nowait(connection)

    yield insert
    for connection in connections:
        await connection.close()


async def view_rows(counts: Sequence[int]) -> list[Row]:
    rows = []
    with mongodb() as service, tempfile.TemporaryDirectory() as folder:
        for count in counts:
            database = service.address.replace("/steelyard?", f"/view{count}?")
            for engine, url in (
                ("file", f"sqlite:{folder}/view{count}.db"),
                ("MongoDB's protocol", database),
            ):
                view = await open_view(url)
                rows += await rows_of_view(view, engine, count)
                await view.close()
        async with AsyncMongoClient[dict[str, object]](service.address) as client:
            rows += await bare_mongodb(client, counts[0])
    return rows


async def rows_of_view(view: View, engine: str, count: int) -> list[Row]:
    began, size = time.perf_counter(), f"{count:,} entities"
    for batch in changes(count):
        await view.apply(batch, 1, {0: batch[-1].position.offset + 1})
    rate = count / (time.perf_counter() - began)
    page = Query("Evaluation", order_by="creationTime", order="descending", limit=100)
    get = await measured(
        f"get, {size}", engine, lambda n: view.get("Evaluation", hexadecimal("e", n * 7907 % count))
    )
    query = await measured(f"query of 100, {size}", engine, lambda _: view.query(page), TIMES // 3)
    return [Row(f"write, {size}, by {BATCH:,}", engine, 0, 0, rate), get, query]


async def bare_mongodb(client: AsyncMongoClient[dict[str, object]], count: int) -> list[Row]:
    collection = client.get_default_database().get_collection(
        "bare", write_concern=WriteConcern("majority", j=True)
    )
    await collection.create_index([("creationTime", -1)])
    began = time.perf_counter()
    for batch in changes(count):
        documents = [json.loads(change.json or b"") for change in batch]
        await collection.insert_many([{"_id": document["id"], **document} for document in documents])
    rate = count / (time.perf_counter() - began)
    size, engine = f"{count:,} entities", "bare pymongo"
    get = await measured(
        f"get, {size}", engine, lambda n: collection.find_one({"_id": hexadecimal("e", n * 7907 % count)})
    )
    query = await measured(
        f"query of 100, {size}",
        engine,
        lambda _: collection.find({}).sort("creationTime", -1).limit(100).to_list(),
        TIMES // 3,
    )
    return [Row(f"write, {size}, by {BATCH:,}", engine, 0, 0, rate), get, query]


async def storage_rows() -> list[Row]:
    rows = []
    with s3() as service, tempfile.TemporaryDirectory() as folder:
        os.environ |= client_environment(service)
        for engine, url in (("file", f"file://{folder}"), ("S3", "s3://steelyard/bench")):
            store: Store = open_store(url)
            rows.append(await measured("write 100 KB", engine, lambda n, s=store: s.put(f"o/{n}", OBJECT)))  # type: ignore[misc]
            rows.append(await measured("read 100 KB", engine, lambda n, s=store: s.get(f"o/{n}")))  # type: ignore[misc]
        bare = S3Store("steelyard", endpoint=service.address, client_options={"allow_http": True})
        rows.append(
            await measured(
                "write 100 KB", "bare obstore", lambda n: obstore.put_async(bare, f"bare/{n}", OBJECT)
            )
        )
        rows.append(await measured("read 100 KB", "bare obstore", lambda n: read(bare, n)))
    return rows


async def read(store: S3Store, number: int) -> object:
    return await (await obstore.get_async(store, f"bare/{number}")).bytes_async()


def show(rows: Sequence[Row]) -> None:
    print("| what | engine | one at a time: p50 | p99 | ten callers, /s |\n|---|---|---|---|---|")
    for row in rows:
        alone = f"{row.p50:.2f} ms | {row.p99:.2f} ms" if row.p50 else "|"
        print(f"| {row.what} | {row.engine} | {alone} | {row.per_second:,.0f} |", flush=True)


SERVICES = ("api", "aggregator", "view-sink", "backup-sink", "reaper")
"""Services that need no Kubernetes; each runs alone."""


def service_memory() -> dict[str, float]:
    """Return the memory, in MB (proportional set size), of each service that runs alone on servers and is idle."""
    sizes = {}
    with together.services() as services, tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "steelyard.toml")
        os.environ |= together.write_settings(settings, services)
        steelyard = [sys.executable, "-m", "steelyard.cli.main"]
        subprocess.run(
            [*steelyard, "config", "init", "--settings", str(settings)], check=True, stdout=subprocess.DEVNULL
        )
        for name in SERVICES:
            options = ["--settings", str(settings), "--state-dir", f"{folder}/{name}"]
            with started([*steelyard, "service", name, *options]) as process:
                time.sleep(10)
                sizes[name] = memory([process.pid])
    return sizes


@contextlib.contextmanager
def started(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process
        if process.poll() is not None:
            raise RuntimeError(f"{' '.join(command)} has ended")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


GROWING = ("accounts", "log", "view")


async def grow(sizes: Sequence[int], parts: Sequence[str], seconds: float, pause: growth.Pause) -> None:
    parts_by_name = {
        "accounts": lambda: growth.grow_accounts(sizes, accepted, pause),
        "log": lambda: growth.grow_log(sizes, seconds, pause),
        "view": lambda: growth.grow_view(sizes, seconds, pause),
    }
    print("| what | entities | | load average |\n|---|---|---|---|")
    for part in parts:
        async for figure in parts_by_name[part]():
            cells = (figure.what, f"{figure.size:,}", f"{figure.value:,.2f}", f"{os.getloadavg()[0]:.1f}")
            print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=__doc__)
    parser.add_argument("--only", choices=("accounts", "view", "storage", "services"))
    parser.add_argument(
        "--entities", type=int, nargs="+", default=[2000], metavar="N", help="sizes of the views"
    )
    parser.add_argument(
        "--growth",
        type=int,
        nargs="+",
        metavar="N",
        help="measure servers that hold so many entities, and no more",
    )
    parser.add_argument(
        "--grow", nargs="+", choices=GROWING, default=GROWING, help="the servers that grow; by default all"
    )
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="longest time for filling a server up to the next size"
    )
    parser.add_argument(
        "--pause", action="store_true",
        help="tell what comes next and wait for a line on standard input, before a server is filled or measured",
    )  # fmt: skip
    arguments = parser.parse_args()
    if arguments.growth:
        pause = growth.wait_for_line if arguments.pause else growth.go_on
        asyncio.run(grow(sorted(arguments.growth), arguments.grow, arguments.seconds, pause))
        return
    figures: dict[str, object] = {"load average before": os.getloadavg()[0]}
    parts: dict[str, Callable[[], Awaitable[list[Row]]]] = {
        "accounts": accounts_rows,
        "view": lambda: view_rows(arguments.entities),
        "storage": storage_rows,
    }
    for name, part in parts.items():
        if arguments.only in (None, name):
            rows = asyncio.run(_awaited(part))
            show(rows)
            figures[name] = [asdict(row) for row in rows]
    if arguments.only in (None, "services"):
        sizes = service_memory()
        print("| service | idle |\n|---|---|")
        for name, size in sizes.items():
            print(f"| {name} | {size:.0f} MB |")
        figures["services"] = sizes
    print(json.dumps(figures))


async def _awaited(part: Callable[[], Awaitable[list[Row]]]) -> list[Row]:
    return await part()


if __name__ == "__main__":
    main()
