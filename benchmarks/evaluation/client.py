"""One measured run, in a process of its own: `python -m benchmarks.evaluation.client WHAT URL FOLDER IN_FLIGHT`.

Prints one JSON line. WHAT is `engine` (Parquet in, durable parts out) or `bare` (an aiohttp loop that keeps nothing).
"""

import asyncio
import json
import random
import resource
import sys
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.discovery import FileDiscovery
from steelyard.evaluation.attempt import World
from steelyard.evaluation.doubles import SilentLog, make_spec
from steelyard.evaluation.engine import Stores, evaluate
from steelyard.evaluation.plan import plan_of
from steelyard.storage.store import open_store

TEXT = pa.schema({"text": pa.string()})
PROMPT = "Steelyard weighs one thing against another, by a sliding weight on a long arm. " * 6


def write_prompts(folder: Path, rows: int) -> None:
    """A dataset of prompts of about 490 characters, in row groups of 10,000."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([pa.field("_index_", pa.int64()), pa.field("prompt", pa.string())])  # type: ignore[arg-type]
    with pq.ParquetWriter(folder / "prompts.parquet", schema) as writer:
        for start in range(0, rows, 10_000):
            numbers = range(start, min(rows, start + 10_000))
            prompts = [f"{PROMPT} {number}" for number in numbers]
            writer.write_table(pa.table({"_index_": list(numbers), "prompt": prompts}, schema=schema))


async def engine(url: str, folder: Path, in_flight: int) -> None:
    replicas = folder / "replicas"
    await asyncio.to_thread(replicas.write_text, url)
    spec = make_spec(schema=TEXT, workersPerReplica=in_flight)
    world = World(lambda: datetime.now(UTC), random.random, SilentLog(), identity_port=None)
    output = folder / f"output-{time.time_ns()}"
    stores = Stores(open_store(f"file://{folder}/dataset"), open_store(f"file://{output}"))
    await evaluate(plan_of(spec), stores, FileDiscovery(replicas), "0000000001-00000000-0001", world)


async def bare(url: str, folder: Path, in_flight: int) -> None:
    table = await asyncio.to_thread(pq.read_table, folder / "dataset")
    bodies = iter([orjson.dumps({"prompt": prompt}) for prompt in table.column("prompt").to_pylist()])
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:

        async def work() -> None:
            for body in bodies:
                async with session.post(f"{url}/generate", data=body) as response:
                    orjson.loads(await response.read())["text"]

        await asyncio.gather(*(work() for _ in range(in_flight)))


def measure(run: Coroutine[Any, Any, None]) -> dict[str, float]:
    began, cpu = time.monotonic(), time.process_time()
    try:
        import uvloop

        uvloop.run(run)
    except ImportError:
        asyncio.run(run)
    return {
        "seconds": time.monotonic() - began,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    what, address, place, flights = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    chosen = {"engine": engine, "bare": bare}[what]
    print(json.dumps(measure(chosen(address, place, flights))))
