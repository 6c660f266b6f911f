"""The engine on storage that is not a folder: attempts that die at random lose no row, and hardly pay one twice."""

import os
import random
import secrets
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from steelyard_evaluation.engine.crashes import Crash, CrashingStore
from steelyard_evaluation.engine.doubles import (
    FixedDiscovery,
    epoch,
    good_answer,
    make_environment,
    make_expected_rows,
    make_spec,
    read_rows,
    replica,
    write_dataset,
)
from steelyard_evaluation.engine.engine import Stores, evaluate
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.verify import verify
from steelyard_evaluation.storage.store import open_store

IN_FLIGHT, PART = 8, 25
SPEC = make_spec(workersPerReplica=IN_FLIGHT, client={"batchSize": PART, "duplicateOutputPolicy": "Error"})


@pytest.mark.parametrize(
    ("kills", "rows"),
    [(5, 1_000), pytest.param(50, 10_000, marks=pytest.mark.soak)],
    ids=["5 kills", "50 kills"],
)
async def test_killed_at_random_writes(kills: int, rows: int) -> None:
    seed = int(os.environ.get("STEELYARD_SEED", "0")) or random.randrange(1 << 30)
    print(f"seed {seed}")
    rng, name = random.Random(seed), secrets.token_hex(8)
    dataset, output = open_store(f"memory://{name}/dataset"), open_store(f"memory://{name}/output")
    await write_dataset(dataset, rows)
    answered: Counter[int] = Counter()

    async def answer(row: Mapping[str, Any]) -> web.StreamResponse:
        answered[row["number"]] += 1
        return await good_answer(row)

    most = 2 * rows // PART // kills
    async with replica(answer) as server:
        discovery = FixedDiscovery({server.address})
        for attempt in range(1, kills + 1):
            dying = CrashingStore(f"memory://{name}/output", rng.randrange(most), after=rng.random() < 0.5)
            with pytest.raises(Crash):
                await evaluate(
                    compile_plan(SPEC),
                    Stores(dataset, dying),
                    discovery,
                    epoch(attempt),
                    make_environment(attempt),
                )
        await evaluate(
            compile_plan(SPEC), Stores(dataset, output), discovery, epoch(kills + 1), make_environment()
        )
    assert answered.total() - rows <= kills * (IN_FLIGHT + 2 * PART), "one part is written while one fills"
    manifest = await verify(compile_plan(SPEC), dataset, output, epoch(1))
    assert (read_rows(output, manifest), manifest.rows.duplicates) == (make_expected_rows(SPEC, rows), 0)
