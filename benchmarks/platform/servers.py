"""Benchmark of the API's requests on servers, beside the API on files and the bare drivers of the servers, in the same
run. Called by `__main__.py`.

A driver is asked for the documents of the view that the API reads, by its indexes, and inserts rows of the size of a
command.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient

from benchmarks.engines.__main__ import Row as BareRow
from benchmarks.engines.__main__ import bare_postgresql, measured
from benchmarks.platform import throughput
from benchmarks.platform.load import Latencies
from benchmarks.platform.throughput import ACCOUNTS, CONNECTIONS
from benchmarks.views.__main__ import hexadecimal
from steelyard.views.mongodb.documents import ENTITIES
from tests.engines.services import together
from tests.engines.services.service import Service


@dataclass(frozen=True)
class Row:
    """One case: the API by many connections and by one, on files and on servers, and the driver that it waits for."""

    what: str
    files: tuple[Latencies, Latencies]
    served: tuple[Latencies, Latencies]
    bare: BareRow | None


def measure(folder: Path, count: int, seconds: float) -> list[Row]:
    on_files = throughput.measure(folder, count, seconds)
    with together.services() as services:
        settings = folder / "servers.toml"
        os.environ |= together.write_settings(settings, services)
        command = [sys.executable, "-m", "steelyard.cli.main", "config", "init", "--settings", str(settings)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        on_servers = throughput.measure(folder, count, seconds, settings)
        bare = asyncio.run(drivers(services, count))
    return [
        Row(
            files.what,
            (files.api, files.alone),
            (served.api, served.alone),
            next((row for name, row in bare.items() if files.what.startswith(name)), None),
        )
        for files, served in zip(on_files, on_servers, strict=True)
    ]


async def drivers(services: Mapping[str, Service], count: int) -> dict[str, BareRow]:
    """Return the figures of the bare drivers, by the beginnings of the requests' names."""
    times = partial(measured, together=CONNECTIONS)
    rows = {}
    async with AsyncMongoClient[dict[str, Any]](services["mongodb"].address) as client:
        entities = client.get_default_database()[ENTITIES]

        async def get(number: int) -> object:
            return await entities.find_one({"_id": hexadecimal("e", number * 7907 % count)})

        async def query(number: int) -> object:
            account = {"kind": "Evaluation", "fields.account": hexadecimal("a", number % ACCOUNTS)}
            return await entities.find(account).sort("keys.creationTime", -1).limit(100).to_list()

        rows["get by id"] = await times("get", "bare pymongo", get)
        rows["query"] = await times("query of 100", "bare pymongo", query, 100)
    async with bare_postgresql(services["postgresql"].address) as insert:
        rows["create"] = await times("insert and commit a row", "bare psycopg", insert)
    return rows
