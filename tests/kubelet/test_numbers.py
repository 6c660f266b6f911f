"""Process numbers of a container's own: what it sees, what it can reach, and how it ends."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.kubelet.shim_processes import program
from steelyard_local_kubernetes.kubelet.testing import (
    Machine,
    is_running,
    make_config,
    make_container,
    make_pod,
    phase,
    termination,
)
from tests.kubelet.conftest import nothing_left_of

IGNORANT = "import os, time; print('number', os.getpid(), flush=True); time.sleep(300)"


pytestmark = pytest.mark.pids


async def test_a_container_sees_its_own_processes_alone(machine: Machine) -> None:
    pod = await machine.run(
        make_pod(make_container("cat /proc/1/comm; ls -d /proc/[0-9]* | wc -l; echo $$$$"))
    )
    _, seen, number = machine.log(pod)
    assert (int(seen) < 6, number) == (True, "2")


async def test_the_machines_numbers_are_there_for_who_asks_for_them(machine: Machine) -> None:
    for name, asks in (("host", {"hostPID": True}), ("shared", {"shareProcessNamespace": True})):
        pod = await machine.run(make_pod(make_container("echo $$$$"), name=name, **asks))
        assert int(machine.log(pod)[0]) > 5


async def test_a_pod_that_kills_what_it_sees_ends_itself_alone(machine: Machine) -> None:
    await machine.cluster.create(PODS, make_pod(make_container("sleep 300"), name="other"))
    await machine.until(is_running, "other")
    only_here = "test $$$$ -lt 6 || exit 99; "
    pod = await machine.run(make_pod(make_container(only_here + "kill 1; sleep 300"), name="kills-init"))
    assert termination(pod)["signal"] == 15
    pod = await machine.run(make_pod(make_container(only_here + "kill -9 -1; exit 3"), name="kills-all"))
    assert termination(pod)["exitCode"] in (3, 137)
    assert is_running(await machine.pod("other"))


async def test_a_program_without_a_handler_ends_at_the_first_signal(machine: Machine) -> None:
    container = make_container("", command=["python", "-c", IGNORANT])
    await machine.cluster.create(
        PODS, make_pod(container, terminationGracePeriodSeconds=300, restartPolicy="Never")
    )
    pod = await machine.until(is_running)
    log = machine.folder(pod).base("main", 0).with_suffix(".log")
    await machine.until(lambda _: "number 2" in log.read_text())
    await machine.cluster.delete(PODS, "pod", "default")
    await machine.until_gone()


async def test_status_and_signal_are_the_programs(machine: Machine) -> None:
    for name, script, wanted in (
        ("code", "exit 7", (7, None)),
        ("signal", "kill -9 $$$$", (137, 9)),
        ("orphan", "(sleep 0.05; exit 1) & exit 4", (4, None)),
    ):
        pod = await machine.run(make_pod(make_container(script), name=name))
        assert (termination(pod)["exitCode"], termination(pod).get("signal")) == wanted, name


async def test_a_program_that_does_not_start_says_why(machine: Machine) -> None:
    pod = await machine.run(make_pod(make_container("", command=["/no/such/program"])))
    assert termination(pod)["reason"] == "StartError"
    assert termination(pod)["message"] == "/no/such/program: No such file or directory '/no/such/program'"


async def test_nothing_outlives_a_killed_shim(machine: Machine, tmp_path: Path) -> None:
    script = "(setsid sleep 301 &) ; sleep 302"
    await machine.cluster.create(PODS, make_pod(make_container(script)))
    pod = await machine.until(is_running)
    run = machine.folder(pod).run("main")
    assert run is not None

    os.kill(run.shim, signal.SIGKILL)
    pod = await machine.until(lambda pod: phase(pod) == "Failed")
    await nothing_left_of(machine.folder(pod).path)


async def test_a_command_runs_among_the_containers_processes(machine: Machine) -> None:
    await machine.cluster.create(PODS, make_pod(make_container("sleep 303")))
    pod = await machine.until(is_running)
    folder = machine.folder(pod)
    run = folder.run("main")
    assert run is not None
    intent = folder.base("main", 0).with_suffix(".json")

    async def execute(script: str, parent: int = os.getpid()) -> asyncio.subprocess.Process:
        inside = (str(intent), str(run.pid), str(parent))
        command = (sys.executable, "-I", "-S", "-c", program("exec_main"), *inside, "sh", "-c", script)
        return await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, start_new_session=True
        )

    process = await execute("tr '\\0' ' ' < /proc/2/cmdline; exit 5")
    said, _ = await process.communicate()
    assert (said.decode().strip(), process.returncode) == ("sh -c sleep 303", 5)
    process = await execute("kill -9 $$")
    assert await process.wait() == -9
    process = await execute("echo up; exec sleep 304")
    assert process.stdout is not None
    await process.stdout.readline()
    os.killpg(process.pid, signal.SIGKILL)  # as the server does when the caller is gone
    assert await process.stdout.read() == b"", "the command has ended with it"
    await process.wait()
    process = await execute("echo up", parent=run.shim)
    said, _ = await process.communicate()
    assert (said, process.returncode) == (b"", 1), "who started it has died before it could go with it"


async def test_without_them_containers_run_all_the_same(tmp_path: Path, machine: Machine) -> None:
    await machine.stop()
    machine.config = make_config(tmp_path / "state", pids="never")
    machine.start()
    pod = await machine.run(make_pod(make_container("echo $$$$; exit 3")))
    assert (int(machine.log(pod)[0]) > 5, termination(pod)["exitCode"]) == (True, 3)
