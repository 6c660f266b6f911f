"""The machine's disk becomes full in the middle of an evaluation: it says so, waits, and goes on when there is room."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from steelyard.client import Client
from steelyard.local.state import read_ready, read_record
from steelyard.steps.example import make_config
from steelyard.steps.test_run_report import make_spec
from steelyard_evaluation.report.example import make_verified
from steelyard_evaluation.storage.files import FileStore
from steelyard_kube.resource import JOBS, PODS
from steelyard_local_kubernetes.kubelet.testing import phase
from tests.disk import Disk, small_disk
from tests.integration import small
from tests.integration.conftest import Machine, processes_of

pytestmark = [pytest.mark.e2e, pytest.mark.root]
ROWS = 200
FULL_SECONDS = 8.0
"""Longer than the operator's first pauses between two attempts."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "state", 128) as made:
        yield made


@pytest.fixture
def full_machine(disk: Disk, machine: Machine) -> Iterator[Machine]:
    yield machine
    disk.empty()
    machine.down()
    assert processes_of(disk.folder) == []


def status(client: Client, made: small.Small) -> str:
    return client.evaluations.get(made.evaluation).status


@pytest.mark.timeout(1200)
async def test_an_evaluation_goes_on_when_there_is_room_again(
    full_machine: Machine, disk: Disk, tmp_path: Path
) -> None:
    machine = full_machine
    machine.up()
    children = read_record(machine.state).children
    with machine.client(tries=30) as client:
        arguments = ("--latency-ms", "2000")
        making = asyncio.to_thread(small.make, client, tmp_path / "rows", rows=ROWS, arguments=arguments)
        made, _ = await asyncio.gather(making, client_runs(machine))
        disk.fill()
        await said(machine, "no room is left on the disk of")
        until = asyncio.get_running_loop().time() + FULL_SECONDS
        answers = []
        while asyncio.get_running_loop().time() < until:
            disk.fill()
            answers.append(await asyncio.to_thread(ask, machine))
            await asyncio.sleep(0.5)
        assert {code for code, _ in answers} == {503}, answers
        assert all(
            answer.headers["Retry-After"] and "no room is left" in answer.text for _, answer in answers
        )
        disk.empty()
        await said(machine, "there is room again on the disk of")
        await complete(client, made)
    async with machine.cluster() as cluster:
        jobs = (await cluster.list(JOBS)).items
    assert sorted(job["metadata"]["name"].rpartition("-")[2] for job in jobs) == ["a1"] * 3, (
        "no attempt was lost"
    )
    after = read_record(machine.state).children
    stay = ("kubernetes", "platform")  # the operator may lose its lease, which nobody can write meanwhile
    assert {name: after[name] for name in stay} == {name: children[name] for name in stay}


async def test_a_step_waits_for_room_for_its_own_files(tmp_path: Path) -> None:
    """A report's scratch files lie where the Pod says, on the machine's disk; of its attempts none is used up."""
    await make_verified(FileStore(tmp_path / "dataset"), FileStore(tmp_path / "evaluation"))
    config = make_config("run_report", "Report", make_spec(tmp_path))
    (tmp_path / "config.json").write_text(config.model_dump_json())
    with small_disk(tmp_path / "scratch", 1) as scratch:
        scratch.fill()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "steelyard.steps.run_report", "--config", str(tmp_path / "config.json"),
            env={**os.environ, "TMPDIR": str(scratch.folder)},
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        while b"waiting for room" not in (line := await process.stderr.readline()):
            assert line, f"it ended with {await process.wait()}"
        scratch.empty()
        await process.communicate()
    assert process.returncode == 0
    assert (tmp_path / "report/report.html").exists()


def ask(machine: Machine) -> tuple[int, httpx.Response]:
    """One small thing to write, without a client's patience."""
    ready = read_ready(machine.state)
    assert ready is not None
    assert ready.api is not None
    headers = {"Authorization": f"Bearer {ready.token}"}
    answer = httpx.post(f"{ready.api}/accounts", json={"name": "fresh"}, headers=headers, timeout=30)
    return answer.status_code, answer


async def client_runs(machine: Machine) -> None:
    async with asyncio.timeout(120), machine.cluster() as cluster:
        while True:
            pods = (await cluster.list(PODS)).items
            if any("-client-" in pod["metadata"]["name"] and phase(pod) == "Running" for pod in pods):
                return
            await asyncio.sleep(0.05)


async def said(machine: Machine, text: str) -> None:
    async with asyncio.timeout(60):
        while text not in machine.state.log("up").read_text():  # noqa: ASYNC110 - another process says it
            await asyncio.sleep(0.05)


async def complete(client: Client, made: small.Small) -> None:
    async with asyncio.timeout(120):
        while (report := await asyncio.to_thread(client.reports.get, made.report)).status != "Complete":
            assert report.status not in ("Failed", "Error"), (report.reason, report.message)
            await asyncio.sleep(0.1)
