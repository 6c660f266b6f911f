"""One measured loop, in a process of its own: `python -m benchmarks.evaluation.client WHAT FOLDER IN_FLIGHT URL…`.

WHAT names the loop: `engine` (the dataset in, durable parts out: what a step and the command line have in common) or
`bare` (an aiohttp loop that keeps nothing). Prints one JSON line: the time and the processor time of the loop itself.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


async def engine(folder: Path, in_flight: int, urls: Sequence[str]) -> None:
    from steelyard_common.discovery import UrlDiscovery
    from steelyard_evaluation.engine.attempt import Environment
    from steelyard_evaluation.engine.doubles import SilentLog
    from steelyard_evaluation.engine.engine import Stores, evaluate
    from steelyard_evaluation.runs.plan import make_plan
    from steelyard_evaluation.runs.request import Limits, RunRequest, SourceSpec
    from steelyard_evaluation.storage.store import open_store

    limits = Limits(concurrency=in_flight // len(urls))
    request = RunRequest(
        SourceSpec(str(folder / "dataset")), "mock", tuple(f"{url}/v1" for url in urls), limits=limits
    )
    plan = make_plan(request, {"benchmark": 1}, ("prompt",), key=None)
    stores = Stores(
        open_store(f"file://{folder}/dataset"), open_store(f"file://{folder}/output-{time.time_ns()}")
    )
    environment = Environment(lambda: datetime.now(UTC), random.random, SilentLog(), identity_port=None)
    await evaluate(plan, stores, UrlDiscovery(request.urls), "0000000001-00000000-0001", environment)


async def bare(folder: Path, in_flight: int, urls: Sequence[str]) -> None:
    import aiohttp
    import orjson
    import pyarrow.parquet as pq

    table = await asyncio.to_thread(pq.read_table, folder / "dataset")
    bodies = iter(
        [
            orjson.dumps({"model": "mock", "messages": [{"role": "user", "content": prompt}]})
            for prompt in table.column("prompt").to_pylist()
        ]
    )
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:

        async def work(url: str) -> None:
            for body in bodies:
                async with session.post(f"{url}/v1/chat/completions", data=body) as response:
                    answer = orjson.loads(await response.read())
                    if response.status == 200:
                        answer["choices"][0]["message"]["content"]

        await asyncio.gather(*(work(urls[number % len(urls)]) for number in range(in_flight)))


def measure(run: Coroutine[Any, Any, None]) -> dict[str, float]:
    began, cpu = time.monotonic(), time.process_time()
    try:
        import uvloop

        uvloop.run(run)
    except ImportError:
        asyncio.run(run)
    return {"seconds": time.monotonic() - began, "loop_cpu": time.process_time() - cpu}


if __name__ == "__main__":
    what, place, flights, *addresses = sys.argv[1:]
    chosen = {"engine": engine, "bare": bare}[what]
    print(json.dumps(measure(chosen(Path(place), int(flights), addresses))))
