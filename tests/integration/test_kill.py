"""`kill -9` of `steelyard up` and of each of its processes while an Evaluation of 5,000 rows runs.

Kills come when the client says that it has done a chosen share of the rows, so they are spread over the run however
fast the machine is. STEELYARD_KILL_SEED repeats a run's choices.
"""

import asyncio
import os
import random
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from steelyard.local.state import read_record
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError
from steelyard_kube.resource import EVALUATIONS, JOBS
from tests.integration.conftest import Machine, is_true, processes_of
from tests.integration.manifests import check_output, make_evaluation, output_folder, rows_done, write_dataset

ROWS, REPLICATIONS = 2500, 2
TOTAL = ROWS * REPLICATIONS
FIRST, LAST = 0.05, 0.9  # shares of the rows at the first and the last kill that are aimed at
SPREAD = 0.75  # at least so much of the run must lie between them
VICTIMS = ("supervisor", "kubernetes", "operator", "platform")

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Kill:
    """Victim of a kill, and the share of the rows at which it is killed."""

    victim: str
    share: float


def choose(count: int, rng: random.Random) -> list[Kill]:
    """Every victim in turn, in an order drawn anew each time; moments drawn around even distances."""
    victims: list[str] = []
    while len(victims) < count:
        victims += rng.sample(VICTIMS, len(VICTIMS))
    step = (LAST - FIRST) / (count - 1)
    shares = [FIRST + step * (number + rng.uniform(-0.3, 0.3)) for number in range(1, count - 1)]
    return [Kill(*choice) for choice in zip(victims, [FIRST, *shares, LAST], strict=False)]


async def run_with_kills(machine: Machine, count: int, rows_per_second: float) -> None:
    seed = int(os.environ.get("STEELYARD_KILL_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"\nSTEELYARD_KILL_SEED={seed}")
    write_dataset(machine.state.storage, ROWS)
    evaluation = make_evaluation(
        "killed",
        replications=REPLICATIONS,
        workers=4,
        client={"batchSize": 100},
        runner=["--latency-ms", str(8 / rows_per_second * 1000)],  # 2 replicas, 4 calls each
    )
    output = output_folder(machine.state.storage, evaluation)
    machine.up()
    await machine.create(EVALUATIONS, evaluation)
    watching = asyncio.create_task(watch_jobs(machine))
    shares = []
    for kill in choose(count, random.Random(seed)):
        done = await until_done(output, kill.share, watching)
        strike(machine, kill.victim)
        shares.append(done / TOTAL)
        print(f"killed {kill.victim} at {shares[-1]:.1%} of the rows")
        if kill.victim == "supervisor":
            await asyncio.to_thread(machine.up)
    assert shares[-1] - shares[0] >= SPREAD, f"the kills cover too little of the run: {shares}"
    ended = await machine.until(EVALUATIONS, "killed", is_true("Finished"), 180)
    watching.cancel()
    assert is_true("Complete")(ended), ended["status"]
    await check_jobs(machine)
    check_output(machine.state.storage, evaluation, ROWS)
    machine.down()
    assert processes_of(machine.state.path) == []


async def until_done(output: Path, share: float, watching: "asyncio.Task[None]") -> int:
    async with asyncio.timeout(240):
        while (done := rows_done(output)) < share * TOTAL:
            if watching.done():
                watching.result()
            await asyncio.sleep(0.02)
    return done


def strike(machine: Machine, victim: str) -> None:
    """SIGKILL; a child that is just being started again is the supervisor's misfortune, and is killed later."""
    record = read_record(machine.state)
    children = {name: pid for name, (pid, _) in record.children.items()}
    pid = record.pid if victim == "supervisor" else children.get(victim, record.pid)
    os.kill(pid, signal.SIGKILL)


async def watch_jobs(machine: Machine) -> None:
    """No step's Job may ever be read as failed: nothing but our processes is killed, and Pods outlive them."""
    async with machine.cluster() as cluster:
        while True:
            for job in await jobs(cluster):
                assert not is_true("Failed")(job), (
                    f"{job['metadata']['name']} is read as failed: {job['status']}"
                )
                assert job["metadata"]["name"].endswith("-a1"), f"a second attempt: {job['metadata']['name']}"
            await asyncio.sleep(0.2)


async def jobs(cluster: Cluster) -> list[Json]:
    try:
        return (await cluster.list(JOBS, "default")).items
    except ApiError:
        return []


async def check_jobs(machine: Machine) -> None:
    """One Job per step, each complete, each with one Pod that succeeded."""
    async with machine.cluster() as cluster:
        succeeded = {job["metadata"]["name"]: job["status"].get("succeeded") for job in await jobs(cluster)}
    assert succeeded == {"killed-client-a1": 1, "killed-verify-a1": 1}


async def test_three_kills_during_an_evaluation(machine: Machine) -> None:
    await run_with_kills(machine, 3, rows_per_second=250)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_twenty_kills_during_an_evaluation(machine: Machine) -> None:
    await run_with_kills(machine, 20, rows_per_second=40)
