"""A Kubernetes process restarts in place: no connection is refused, no work lost, and its supervisor sees no end."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from steelyard.local.state import read_record
from steelyard_kube.resource import JOBS
from tests.integration.conftest import Machine, is_true, processes_of
from tests.integration.manifests import make_job

pytestmark = pytest.mark.e2e


async def _connect_again_and_again(port: int, refused: list[str], stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
        except ConnectionRefusedError as error:
            refused.append(str(error))
        except OSError:
            pass  # one that the old program had accepted is closed by its end
        await asyncio.sleep(0.005)


def _restarts(machine: Machine) -> int:
    return machine.state.log("kubernetes").read_text().count("restarts in the same process")


async def test_kubernetes_restarts_in_place_without_being_missed(machine: Machine, tmp_path: Path) -> None:
    machine.up()
    trace = tmp_path / "trace"
    await machine.create(JOBS, make_job("first", f"echo ran >> {trace}"))
    await machine.until(JOBS, "first", is_true("Complete"))
    record, refused, stop = read_record(machine.state), list[str](), asyncio.Event()
    pid = record.children["kubernetes"][0]
    connecting = asyncio.create_task(_connect_again_and_again(record.port, refused, stop))
    for times, name in enumerate(("second", "third"), 1):
        os.kill(pid, signal.SIGUSR2)
        async with asyncio.timeout(60):
            while _restarts(machine) < times:  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.05)
        await machine.until(JOBS, "first", is_true("Complete"))
        await machine.create(JOBS, make_job(name, f"echo ran >> {trace}"))
        await machine.until(JOBS, name, is_true("Complete"))
    stop.set()
    await connecting
    assert refused == []
    assert trace.read_text() == "ran\n" * 3
    after = read_record(machine.state)
    # The operator may have lost its lease meanwhile, on a busy machine, and is then another process.
    assert after.children["kubernetes"] == record.children["kubernetes"]
    assert after.restarts["kubernetes"] == 0
    machine.down()
    assert processes_of(machine.state.path) == []
