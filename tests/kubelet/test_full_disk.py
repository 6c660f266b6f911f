"""Pods on a disk that becomes full: none is lost, none runs twice, and all go on once there is room."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard_common.types import Json
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
from steelyard_local_kubernetes.kubelet.testing import (
    ENDED,
    Machine,
    container_status,
    is_running,
    make_config,
    make_container,
    make_pod,
    phase,
    termination,
)
from tests.disk import Disk, small_disk
from tests.kubelet.conftest import nothing_left_of

pytestmark = pytest.mark.root


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Disk]:
    with small_disk(tmp_path / "state", 4) as made:
        yield made


@pytest.fixture
async def machine(disk: Disk) -> AsyncIterator[Machine]:
    made = Machine(make_config(disk.folder, interval=0.05, crash_backoff=0.05))
    made.start()
    yield made
    disk.empty()
    await made.stop()
    await stop_all_pods(made.config, grace=0.0)
    await nothing_left_of(disk.folder)


def marks(folder: Path) -> str:
    return f"touch {folder}/begun; while test ! -e {folder}/go; do sleep 0.05; done"


def over(pod: Json) -> bool:
    return phase(pod) in ENDED


async def test_a_pod_that_ends_on_a_full_disk_says_how_once_there_is_room(
    machine: Machine, disk: Disk, tmp_path: Path
) -> None:
    await machine.cluster.create(PODS, make_pod(make_container(f"{marks(tmp_path)}; exit 7")))
    pod = await machine.until(is_running)
    disk.fill()
    (tmp_path / "go").touch()
    base = machine.folder(pod).base("main", 0)
    await machine.until(lambda _: not running(machine, pod))
    assert not base.with_suffix(".exited").exists()
    disk.empty()
    pod = await machine.until(over)
    assert termination(pod)["exitCode"] == 7


def running(machine: Machine, pod: Json) -> bool:
    """Return whether the program itself still lives."""
    run = machine.folder(pod).run("main")
    return run is not None and run.state == "running" and Path(f"/proc/{run.pid}").exists()


async def test_a_pod_made_on_a_full_disk_runs_once_there_is_room(
    machine: Machine, disk: Disk, tmp_path: Path
) -> None:
    await machine.run(make_pod(name="before"))
    disk.fill()
    await machine.cluster.create(PODS, make_pod(make_container(f"echo x >> {tmp_path}/runs"), name="after"))
    with pytest.raises(AssertionError, match="not within"):
        await machine.until(over, "after", seconds=2)
    disk.empty()
    pod = await machine.until(over, "after")
    assert phase(pod) == "Succeeded"
    assert container_status(pod)["restartCount"] == 0
    assert (tmp_path / "runs").read_text() == "x\n"


async def test_lines_lost_for_want_of_room_are_counted_in_the_log(
    machine: Machine, disk: Disk, tmp_path: Path
) -> None:
    line, count = "line $n " + "x" * 8000, tmp_path / "count"
    step = f"n=$((n + 1)); echo {line}; echo $n > {count}; sleep 0.01"
    script = f"n=0; while test ! -e {tmp_path}/go; do {step}; done; echo last $n"
    await machine.cluster.create(PODS, make_pod(make_container(script)))
    pod = await machine.until(is_running)
    log = machine.folder(pod).base("main", 0).with_suffix(".log")
    await machine.until(lambda _: written(count) > 3)
    disk.fill()
    size, before = log.stat().st_size, written(count)
    await machine.until(lambda _: written(count) > before + 10)
    disk.empty()
    await machine.until(lambda _: log.stat().st_size > size + 16_000)
    (tmp_path / "go").touch()
    pod = await machine.until(over)
    assert phase(pod) == "Succeeded"
    said = machine.log(pod)
    (notice,) = (line for line in said if line.startswith("steelyard: "))
    lost = int(notice.split()[1])
    whole = [line for line in said if line.startswith("line ") and len(line) > 8000]
    assert lost > 0
    assert len(whole) + lost == int(said[-1].split()[1])


def written(count: Path) -> int:
    """The lines that a program has written, as it says in a file that it may just be writing."""
    return int((count.read_text() if count.exists() else "").strip() or 0)
