"""The operator is killed after each API call of a real Evaluation in turn, and restarted: always Complete.

The whole sequence runs in `make soak`; here a seeded few of the calls (STEELYARD_KILL_SEED repeats the choice).
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard_kube.resource import EVALUATIONS, JOBS, PODS
from tests.integration.conftest import Machine, is_true
from tests.integration.manifests import check_output, make_evaluation, write_dataset

ROWS = 50
ROOT = Path(__file__).parent.parent.parent

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]


@contextmanager
def process(*command: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Ended by SIGTERM, or killed when it does not listen."""
    with log.open("ab") as out:
        started = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


@contextmanager
def operator(machine: Machine, last: int) -> Iterator[subprocess.Popen[bytes]]:
    """The operator that dies after `last` calls; 0: never."""
    counted = str(machine.state.path / "calls")
    arguments = ("tests.integration.killing_operator", str(machine.state.path), str(last), counted)
    with process(*arguments, log=machine.state.path / "operator.log") as started:
        yield started


async def finished(machine: Machine, name: str, seconds: float = 120) -> None:
    ended = await machine.until(EVALUATIONS, name, is_true("Finished"), seconds)
    assert is_true("Complete")(ended), ended["status"]


async def count_calls(machine: Machine) -> int:
    """Count the calls of an undisturbed Evaluation."""
    await machine.create(EVALUATIONS, make_evaluation("undisturbed", replicas=1))
    with operator(machine, 0):
        await finished(machine, "undisturbed")
    return int((machine.state.path / "calls").read_text())


async def killed_after(machine: Machine, call: int) -> bool:
    """Kill the operator after a call; whether it needed that many: changes that come together take fewer."""
    name = f"killed-{call}"
    evaluation = make_evaluation(name, replicas=1)
    await machine.create(EVALUATIONS, evaluation)
    with operator(machine, call) as dying:
        ended = is_true("Finished")
        await machine.until(EVALUATIONS, name, lambda seen: dying.poll() is not None or ended(seen), 120)
        killed = dying.poll() == -signal.SIGKILL
    with operator(machine, 0):
        await finished(machine, name)
    check_output(machine.state.storage, evaluation, ROWS)
    await check_run_once(machine, name)
    return killed


async def check_run_once(machine: Machine, name: str) -> None:
    """One Job per step, and one Pod below each."""
    async with machine.cluster() as cluster:
        jobs = [
            job
            for job in (await cluster.list(JOBS, "default")).items
            if job["metadata"]["name"].startswith(f"{name}-")
        ]
        pods = (await cluster.list(PODS, "default")).items
    assert sorted(job["metadata"]["name"] for job in jobs) == [f"{name}-client-a1", f"{name}-verify-a1"]
    for job in jobs:
        owners = [owner["uid"] for pod in pods for owner in pod["metadata"].get("ownerReferences") or ()]
        assert owners.count(job["metadata"]["uid"]) == 1, job["metadata"]["name"]


async def run_kills(machine: Machine, share: int | None) -> None:
    """Kill after every call, or after `share` of them drawn by the seed."""
    seed = int(os.environ.get("STEELYARD_KILL_SEED") or random.SystemRandom().randrange(1 << 32))
    machine.up()  # makes the state; the operator that it starts is stopped for ours
    machine.down()
    machine.state.kubeconfig.unlink()  # its port was another
    write_dataset(machine.state.storage, ROWS)
    arguments = ("steelyard.cli.main", "service", "kubernetes", "--state-dir", str(machine.state.path))
    with process(*arguments, log=machine.state.path / "kubernetes.log"):
        async with asyncio.timeout(60):
            while not machine.state.kubeconfig.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.1)
        total = await count_calls(machine)
        calls = list(range(1, total))
        chosen = calls if share is None else sorted(random.Random(seed).sample(calls, share))
        print(f"\nSTEELYARD_KILL_SEED={seed}: {total} calls; killed after {chosen}")
        killed = [await killed_after(machine, call) for call in chosen]
        assert any(killed), "no operator lived long enough to be killed"


async def test_the_operator_killed_after_some_calls_completes(machine: Machine) -> None:
    await run_kills(machine, 2)


@pytest.mark.soak
async def test_the_operator_killed_after_every_call_completes(machine: Machine) -> None:
    await run_kills(machine, None)
