"""`steelyard eval run` with a cap, killed again and again: what the endpoint answered never exceeds the budget."""

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest

from tests.integration.eval_command import RunFolder, endpoint, kill

A_CALL = 15
"""Tokens of one call of the endpoint."""
WORKERS = 8


@pytest.mark.parametrize(
    ("kills", "rows"), [(3, 400), pytest.param(20, 3000, marks=pytest.mark.soak)], ids=["3 kills", "20 kills"]
)
async def test_a_budget_survives_kills(tmp_path: Path, kills: int, rows: int) -> None:
    seed = int(os.environ.get("STEELYARD_SEED", "0")) or random.randrange(1 << 30)
    rng, place = random.Random(seed), RunFolder(tmp_path / "place", rows).write()
    cap = rows // 2 * A_CALL
    limits = ("--concurrency", str(WORKERS), "--max-tokens-total", str(cap))
    async with endpoint(seconds=0.01) as server:
        for number in range(kills):
            process = await place.start(server, *limits)
            goal = rows // 2 * (number + 1) // (kills + 2) + rng.randrange(rows // 20)
            reached = asyncio.create_task(server.until_asked(goal))
            ended = asyncio.create_task(process.wait())
            await asyncio.wait([reached, ended], return_when=asyncio.FIRST_COMPLETED)
            reached.cancel()
            await kill(process, signal.SIGKILL)
            await ended
        capped = await place.go(server, *limits)
        assert capped.status == 4, f"seed {seed}: {capped.said}"
        paid = server.answered.total() * A_CALL
        said = capped.events[-1]["spending"]
        assert paid <= cap, f"seed {seed}: {paid} tokens were paid"
        # Calls in flight at a kill may or may not have been answered: they count as if they were.
        assert paid <= said["tokens"] <= cap + WORKERS * A_CALL
        assert said["tokens"] - paid <= kills * WORKERS * A_CALL
        assert (await place.go(server, "--max-tokens-total", str(100 * cap))).status == 0
    place.check()
