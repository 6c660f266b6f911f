"""The engine on storage that is not a folder: attempts that die at random lose no row, and hardly pay one twice."""

import os
import random
import secrets
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from steelyard.evaluation.crashes import Crash, CrashingStore
from steelyard.evaluation.doubles import (
    Fixed,
    epoch,
    expected_rows,
    good_answer,
    make_environment,
    make_spec,
    replica,
    rows_of,
    write_dataset,
)
from steelyard.evaluation.engine import Stores, evaluate
from steelyard.evaluation.plan import plan_of
from steelyard.evaluation.verify import verify
from steelyard.storage.store import open_store

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
        discovery = Fixed({server.address})
        for attempt in range(1, kills + 1):
            dying = CrashingStore(f"memory://{name}/output", rng.randrange(most), after=rng.random() < 0.5)
            with pytest.raises(Crash):
                await evaluate(
                    plan_of(SPEC),
                    Stores(dataset, dying),
                    discovery,
                    epoch(attempt),
                    make_environment(attempt),
                )
        await evaluate(
            plan_of(SPEC), Stores(dataset, output), discovery, epoch(kills + 1), make_environment()
        )
    assert answered.total() - rows <= kills * (IN_FLIGHT + 2 * PART), "one part is written while one fills"
    manifest = await verify(plan_of(SPEC), dataset, output, epoch(1))
    assert (rows_of(output, manifest), manifest.rows.duplicates) == (expected_rows(SPEC, rows), 0)
