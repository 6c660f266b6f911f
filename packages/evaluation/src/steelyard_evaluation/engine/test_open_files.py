"""Runs in processes that may open few files."""

import subprocess
import sys

import pytest

from steelyard_evaluation.engine.attempt import RESERVED

ROOM = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
from steelyard_evaluation.engine.attempt import connection_room
print(connection_room(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""

MORE_CALLS_THAN_FILES = """
import asyncio, resource
from aiohttp import web
resource.setrlimit(resource.RLIMIT_NOFILE, (200, {hard}))
from steelyard_evaluation.engine.doubles import (
    FixedDiscovery, epoch, good_answer, make_spec, make_stores, make_environment, replica, write_dataset)
from steelyard_evaluation.engine.engine import evaluate
from steelyard_evaluation.engine.plan import compile_plan

async def slow(row):
    await asyncio.sleep(0.2)
    return await good_answer(row)

async def main():
    stores = make_stores()
    await write_dataset(stores.dataset, 600)
    async with replica(slow) as server:
        plan = compile_plan(make_spec(workersPerReplica=300))
        discovery = FixedDiscovery({{server.address}})
        print((await evaluate(plan, stores, discovery, epoch(1), make_environment())).retries)

asyncio.run(main())
"""


def output(program: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize(("soft", "hard"), [(256, 1000), (512, 512)], ids=["it may be raised", "it may not"])
def test_the_limit_is_raised_and_some_files_are_reserved(soft: int, hard: int) -> None:
    assert output(ROOM.format(soft=soft, hard=hard)) == [hard - RESERVED, hard]


def test_a_run_of_more_calls_than_files_raises_the_limit() -> None:
    assert output(MORE_CALLS_THAN_FILES.format(hard=2000)) == [0]
