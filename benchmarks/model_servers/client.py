"""One measured loop, in a process of its own: `python -m benchmarks.model_servers.client WHAT FOLDER CALLS URL TOKENS`.

WHAT names the loop: `engine` or `bare` (an aiohttp loop that keeps nothing); CALLS is the number of calls in flight,
or `auto`. A bearer token comes from OPENAI_API_KEY. Prints one JSON line: seconds and processor seconds of the loop
itself.
"""

import json
import os
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.evaluation.client import measure

MODEL = "tiny"


async def engine(folder: Path, calls: int | None, url: str, tokens: int) -> None:
    from steelyard_common.discovery import UrlDiscovery
    from steelyard_evaluation.engine.attempt import Environment
    from steelyard_evaluation.engine.doubles import SilentLog
    from steelyard_evaluation.engine.engine import Stores, evaluate
    from steelyard_evaluation.runs.plan import make_plan
    from steelyard_evaluation.runs.request import Limits, PromptSpec, RunRequest, SourceSpec
    from steelyard_evaluation.storage.store import open_store

    request = RunRequest(
        SourceSpec(str(folder / "dataset")),
        MODEL,
        (url,),
        PromptSpec(sampling={"max_tokens": tokens, "temperature": 0}),
        limits=Limits(concurrency=calls),
    )
    plan = make_plan(request, {"benchmark": 1}, ("prompt",), key=os.environ.get("OPENAI_API_KEY"))
    stores = Stores(
        open_store(f"file://{folder}/dataset"), open_store(f"file://{folder}/output-{time.time_ns()}")
    )
    environment = Environment(lambda: datetime.now(UTC), random.random, SilentLog(), identity_port=None)
    summary = await evaluate(
        plan, stores, UrlDiscovery(request.urls), "0000000001-00000000-0001", environment
    )
    assert summary.row_errors == 0, summary


async def bare(folder: Path, calls: int, url: str, tokens: int) -> None:
    import asyncio

    import aiohttp
    import orjson
    import pyarrow.parquet as pq

    table = await asyncio.to_thread(pq.read_table, folder / "dataset")
    bodies = iter(
        [
            orjson.dumps(
                {
                    "model": MODEL,
                    "messages": [{"role": "user", "content": prompt}],
                    "max_tokens": tokens,
                    "temperature": 0,
                }
            )
            for prompt in table.column("prompt").to_pylist()
        ]
    )
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    timeout = aiohttp.ClientTimeout(total=600)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:

        async def work() -> None:
            for body in bodies:
                async with session.post(f"{url}/chat/completions", data=body) as response:
                    answer = orjson.loads(await response.read())
                    assert response.status == 200, answer
                    assert answer["choices"][0]["finish_reason"] in ("stop", "length")

        await asyncio.gather(*(work() for _ in range(calls)))


if __name__ == "__main__":
    what, place, flights, address, most = sys.argv[1:]
    given = None if flights == "auto" else int(flights)
    if what == "bare":
        assert given is not None
        print(json.dumps(measure(bare(Path(place), given, address, int(most)))))
    else:
        print(json.dumps(measure(engine(Path(place), given, address, int(most)))))
