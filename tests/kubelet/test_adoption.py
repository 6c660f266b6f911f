"""A new kubelet goes on where the old one was, by the shims' records alone: nothing runs twice, nothing is lost."""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from steelyard_common import processes
from steelyard_common.types import Json
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.kubelet import shim, shim_processes
from steelyard_local_kubernetes.kubelet.records import LOST, PodFolder
from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
from steelyard_local_kubernetes.kubelet.testing import (
    Machine,
    condition,
    container_status,
    is_running,
    make_config,
    make_container,
    make_pod,
    phase,
    termination,
)
from tests.kubelet.conftest import nothing_left_of, processes_of

ONCE = "echo begun >> /shared/runs; while ! test -e /shared/end; do sleep 0.01; done; exit $(cat /shared/end)"
SHARED: Json = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}


def make_waiting() -> Json:
    """A Pod that notes each start, and ends with the code in its file `end`."""
    return make_pod(make_container(ONCE, **SHARED), volumes=[{"name": "shared", "emptyDir": {}}])


def shared(machine: Machine, pod: Json) -> Path:
    return machine.folder(pod).path / "volumes/shared"


async def begun(machine: Machine) -> Json:
    pod = await machine.until(is_running)
    return await machine.until(lambda _: (shared(machine, pod) / "runs").exists())


async def test_a_running_container_is_adopted(machine: Machine) -> None:
    await machine.cluster.create(PODS, make_waiting())
    pod = await begun(machine)
    await machine.crash()
    machine.start()
    await asyncio.sleep(0.2)
    (shared(machine, pod) / "end").write_text("0")
    pod = await machine.until(lambda pod: phase(pod) == "Succeeded")
    assert (shared(machine, pod) / "runs").read_text() == "begun\n"


async def test_what_ended_meanwhile_is_read_from_its_record(machine: Machine) -> None:
    await machine.cluster.create(PODS, make_waiting())
    pod = await begun(machine)
    await machine.crash()
    (shared(machine, pod) / "end").write_text("65")
    await machine.until(lambda _: machine.folder(pod).base("main", 0).with_suffix(".exited").exists())
    machine.start()
    pod = await machine.until(lambda pod: phase(pod) == "Failed")
    assert termination(pod)["exitCode"] == 65
    assert (shared(machine, pod) / "runs").read_text() == "begun\n"


async def test_a_kubelet_that_dies_at_any_moment_of_a_start_starts_once(machine: Machine) -> None:
    await machine.cluster.create(PODS, make_waiting())
    for pause in (0, 0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1):
        await asyncio.sleep(pause)
        await machine.crash()
        machine.start()
    pod = await begun(machine)
    (shared(machine, pod) / "end").write_text("0")
    pod = await machine.until(lambda pod: phase(pod) == "Succeeded")
    assert (shared(machine, pod) / "runs").read_text() == "begun\n"
    assert container_status(pod)["restartCount"] == 0


def make_intent(folder: Path, command: str) -> Path:
    """A run of a shell command, ready for a shim."""
    folder.mkdir(parents=True)
    intent = {
        "argv": ["/bin/sh", "-c", command],
        "env": {"PATH": os.defpath},
        "cwd": str(folder),
        "mounts": None,
        "keep": [],
        "scratch": "",
        "lease": str(folder),
        "leaseSeconds": 300,
        "messagePolicy": "File",
    }
    path = folder / "0.json"
    path.write_text(json.dumps(intent))
    return path


def shims_of(intent: Path, count: int) -> list[subprocess.Popen[bytes]]:
    command = [sys.executable, "-I", "-S", "-c", shim_processes.program("main"), str(intent)]
    return [subprocess.Popen(command) for _ in range(count)]


def test_of_many_shims_of_one_run_one_starts_it(tmp_path: Path) -> None:
    intent = make_intent(tmp_path / "pod" / "main", "echo begun; sleep 0.2")
    codes = [process.wait() for process in shims_of(intent, 4)]
    codes += [process.wait() for process in shims_of(intent, 1)]
    assert set(codes[:4]) <= {0, shim.BUSY}
    assert codes[4] == 0
    assert intent.with_suffix(".log").read_text().count("begun") == 1


def test_a_run_whose_lock_is_held_is_left_alone(tmp_path: Path) -> None:
    intent = make_intent(tmp_path / "pod" / "main", "echo begun")
    with intent.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        (process,) = shims_of(intent, 1)
        assert process.wait() == shim.BUSY
    assert not intent.with_suffix(".started").exists()


def test_a_shim_that_is_killed_takes_its_program_along(tmp_path: Path) -> None:
    intent = make_intent(tmp_path / "pod" / "main", "exec sleep 64")
    (process,) = shims_of(intent, 1)
    while not intent.with_suffix(".started").exists():
        assert process.poll() is None
    process.kill()
    process.wait()
    run = PodFolder(tmp_path / "pod").run("main")
    assert run is not None
    assert (run.state, run.exit_code, run.reason) == ("exited", 137, LOST)
    pid = json.loads(intent.with_suffix(".started").read_text())["pid"]
    while processes.start_time(pid) is not None:
        pass


async def test_a_killed_shim_is_a_disruption_and_leaves_nothing(machine: Machine, tmp_path: Path) -> None:
    await machine.cluster.create(PODS, make_pod(make_container("setsid sleep 65 & echo up; sleep 65")))
    pod = await machine.until(is_running)
    await machine.until(lambda _: machine.log(pod))
    run = machine.folder(pod).run("main")
    assert run is not None
    os.kill(run.shim, signal.SIGKILL)
    pod = await machine.until(lambda pod: phase(pod) == "Failed")
    assert termination(pod)["reason"] == LOST
    assert condition(pod, "DisruptionTarget")["status"] == "True"
    await nothing_left_of(tmp_path)


async def test_records_of_an_earlier_boot_speak_of_no_process(machine: Machine) -> None:
    await machine.cluster.create(PODS, make_waiting())
    pod = await begun(machine)
    await machine.crash()
    record = machine.folder(pod).base("main", 0).with_suffix(".started")
    content = json.loads(record.read_text())
    os.kill(content["shim"], signal.SIGKILL)
    with subprocess.Popen(["sleep", "30"]) as other:  # noqa: ASYNC220
        start = processes.start_time(other.pid)
        earlier = {"boot": "another", "shim": other.pid, "shimStart": start}
        record.write_text(json.dumps(content | earlier))
        machine.start()
        try:
            pod = await machine.until(lambda pod: phase(pod) == "Failed", seconds=5)
            assert termination(pod)["reason"] == LOST
            assert other.poll() is None
        finally:
            other.kill()


async def test_a_pod_deleted_while_no_kubelet_ran_leaves_nothing(machine: Machine, tmp_path: Path) -> None:
    await machine.cluster.create(PODS, make_waiting())
    await begun(machine)
    await machine.crash()
    await machine.cluster.delete(PODS, "pod", "default", grace_seconds=0)
    machine.start()
    await machine.until_gone()
    await nothing_left_of(tmp_path)


async def test_a_damaged_record_of_a_deleted_pod_hides_no_process(machine: Machine, tmp_path: Path) -> None:
    """Name and address are lost with it; which containers have run is not."""
    await machine.cluster.create(PODS, make_waiting())
    pod = await begun(machine)
    await machine.crash()
    (machine.folder(pod).path / "pod.json").write_bytes(b"")
    await machine.cluster.delete(PODS, "pod", "default", grace_seconds=0)
    machine.start()
    await machine.until_gone()
    await nothing_left_of(tmp_path)


async def test_down_ends_every_pod_and_says_it_was_a_disruption(machine: Machine, tmp_path: Path) -> None:
    await machine.cluster.create(
        PODS, make_pod(make_container("trap '' TERM; sleep 66 & sleep 66"), name="stubborn")
    )
    await machine.cluster.create(PODS, make_waiting())
    await machine.until(is_running, "stubborn")
    await begun(machine)
    await machine.stop()
    await stop_all_pods(machine.config, grace=0.1)
    assert processes_of(tmp_path) == []
    machine.start()
    pod = await machine.until(lambda pod: phase(pod) == "Failed")
    assert pod["status"]["reason"] == "NodeShutdown"
    assert condition(pod, "DisruptionTarget")["status"] == "True"


async def test_records_that_were_copied_from_another_platform_end_nothing_of_it(
    machine: Machine, tmp_path: Path
) -> None:
    await machine.cluster.create(PODS, make_pod(make_container("sleep 66"), name="theirs"))
    pod = await machine.until(is_running, "theirs")
    copy = make_config(tmp_path / "copy")
    shutil.copytree(machine.config.pods, copy.pods, symlinks=True, dirs_exist_ok=True)
    for config in (copy, machine.config):
        run = PodFolder(config.pods / pod["metadata"]["uid"]).run("main")
        assert run is not None
        assert (run.state == "running") == (config is machine.config)
    await stop_all_pods(copy, grace=0.1)
    run = PodFolder(machine.config.pods / pod["metadata"]["uid"]).run("main")
    assert run is not None
    assert run.state == "running"


ROOT = Path(__file__).parent.parent.parent
KUBELET = """
import asyncio, sys
from pathlib import Path
from steelyard_kube.resource import PODS
from tests.kubelet.test_adoption import make_waiting
from steelyard_local_kubernetes.kubelet.testing import Machine, make_config
async def main():
    machine = Machine(make_config(Path(sys.argv[1])))
    machine.start()
    await machine.cluster.create(PODS, make_waiting())
    await asyncio.sleep(60)
asyncio.run(main())
"""


async def test_a_kubelet_killed_with_its_process_is_succeeded_by_another(tmp_path: Path) -> None:
    state = tmp_path / "state"
    process = subprocess.Popen([sys.executable, "-c", KUBELET, str(state)], cwd=ROOT)  # noqa: ASYNC220
    async with asyncio.timeout(50):
        while not list(state.glob("pods/*/volumes/shared/runs")):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    process.kill()
    process.wait()
    (runs,) = state.glob("pods/*/volumes/shared/runs")
    machine = Machine(make_config(state))
    await machine.cluster.create(PODS, make_waiting())  # the double's uids are those of the first process
    machine.start()
    await machine.until(is_running)
    runs.with_name("end").write_text("0")
    pod = await machine.until(lambda pod: phase(pod) == "Succeeded")
    assert runs.read_text() == "begun\n"
    assert pod["metadata"]["uid"] == runs.parents[2].name
    await machine.stop()
    await nothing_left_of(tmp_path)
