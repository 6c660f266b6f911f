"""`steelyard up`, `down` and `status` as a user runs them: real processes, real Pods."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steelyard.local.leftovers import living
from steelyard.local.state import read_record
from steelyard_common.errors import UsageError
from steelyard_kube.resource import JOBS
from tests.integration.conftest import Machine, is_true, machine_at, processes_of
from tests.integration.manifests import make_job

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine that is up, for all tests that leave it so."""
    with machine_at(tmp_path_factory.mktemp("running") / "state") as machine:
        machine.up()
        yield machine


def steelyard(*arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    flags = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", value)]
    command = [sys.executable, "-m", "steelyard.cli.main", *arguments, *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


async def test_a_job_runs_and_all_is_there_again_after_a_restart(machine: Machine, tmp_path: Path) -> None:
    ready = machine.up()
    assert ready.kubeconfig == machine.state.kubeconfig
    assert (ready.api, bool(ready.token)) == (
        f"http://127.0.0.1:{read_record(machine.state).api_port}/v0",
        True,
    )
    trace = tmp_path / "trace"
    await machine.create(JOBS, make_job("first", f"echo ran >> {trace}"))
    await machine.until(JOBS, "first", is_true("Complete"))
    first = read_record(machine.state)
    machine.down()
    assert processes_of(machine.state.path) == []
    assert not machine.state.ready.exists()
    machine.up()
    again = read_record(machine.state)
    assert (again.port, again.api_port, again.network) == (first.port, first.api_port, first.network)
    await machine.create(JOBS, make_job("second", f"echo ran >> {trace}"))
    await machine.until(JOBS, "second", is_true("Complete"))
    await machine.until(JOBS, "first", is_true("Complete"))
    assert trace.read_text() == "ran\nran\n"


def test_status_shows_what_runs_and_what_does_not(running: Machine, tmp_path: Path) -> None:
    nothing = steelyard("status", state_dir=str(tmp_path / "nothing"))
    assert (nothing.returncode, "nothing runs" in nothing.stdout) == (1, True)
    seen = json.loads(steelyard("status", state_dir=str(running.state.path), output="json").stdout)
    assert seen["api"] == "ready"
    assert {process["name"]: process["restarts"] for process in seen["processes"]} == {
        "supervisor": 0,
        "kubernetes": 0,
        "operator": 0,
        "platform": 0,
    }
    assert [node["ready"] for node in seen["nodes"]] == [True]
    table = steelyard("status", state_dir=str(running.state.path))
    assert table.returncode == 0
    assert str(running.state.kubeconfig) in table.stdout


def test_a_second_up_on_the_folder_says_who_is_there(running: Machine) -> None:
    record = read_record(running.state)
    second = steelyard("up", state_dir=str(running.state.path))
    assert second.returncode == 2
    assert f"(pid {record.pid})" in second.stderr
    with pytest.raises(UsageError, match=f"pid {record.pid}"):
        running.up()
    assert living([(record.pid, record.started)])


def test_a_taken_port_is_named(running: Machine, tmp_path: Path) -> None:
    port = read_record(running.state).port
    other = steelyard("up", state_dir=str(tmp_path / "other"), port=str(port))
    assert (other.returncode, f"--port {port}: is taken" in other.stderr) == (2, True)


def test_the_operators_metrics_are_served_on_this_machine_alone(running: Machine) -> None:
    end = time.monotonic() + 60
    while not running.state.operator_metrics.exists():  # it is there a moment after the operator answers
        assert time.monotonic() < end
        time.sleep(0.05)
    url = running.state.operator_metrics.read_text().strip()
    assert url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert "training_operator_jobs_created_total" in answer.read().decode()
    with urllib.request.urlopen(url.replace("/metrics", "/healthz"), timeout=10) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("name", ["kubernetes", "operator", "platform"])
async def test_a_killed_child_is_started_again(running: Machine, name: str) -> None:
    first = read_record(running.state).children[name]
    os.kill(first[0], signal.SIGKILL)
    _until(lambda: read_record(running.state).children.get(name, first) != first, f"{name} stays away")
    assert read_record(running.state).restarts[name] == 1
    await running.create(JOBS, make_job(f"after-{name}"))
    await running.until(JOBS, f"after-{name}", is_true("Complete"))
    assert f"{name} was killed by signal 9" in running.state.log("up").read_text()


async def test_pods_outlive_a_killed_up_and_are_adopted(machine: Machine, tmp_path: Path) -> None:
    """`down` ends what the next one leaves that is killed."""
    trace, go = tmp_path / "trace", tmp_path / "go"
    ready = machine.up()
    script = f"echo ran >> {trace}; while [ ! -e {go} ]; do sleep 0.05; done"
    await machine.create(JOBS, make_job("long", script))
    await machine.create(JOBS, make_job("longer", "sleep 1000"))
    await machine.until(JOBS, "long", lambda job: trace.exists())
    await machine.until(JOBS, "longer", lambda job: job.get("status", {}).get("ready") == 1)
    children = list(read_record(machine.state).children.values())
    os.kill(ready.pid, signal.SIGKILL)
    _until(lambda: not living(children), "the children go on without their supervisor")
    assert processes_of(machine.state.path), "the Pods went too"
    ready = machine.up()
    go.touch()
    await machine.until(JOBS, "long", is_true("Complete"))
    assert trace.read_text() == "ran\n"
    os.kill(ready.pid, signal.SIGKILL)
    assert processes_of(machine.state.path), "nothing is left to end"
    for _ in range(2):  # the second finds nothing
        done = steelyard("down", state_dir=str(machine.state.path))
        assert done.returncode == 0
        assert processes_of(machine.state.path) == []


def test_ctrl_c_ends_all_in_order(machine: Machine, tmp_path: Path) -> None:
    file, folder = tmp_path / "ready-copy.json", str(machine.state.path)
    words = ("up", "--state-dir", folder, "--ready-file", str(file))
    command = [sys.executable, "-m", "steelyard.cli.main", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        _until(file.exists, "up is not ready")
        content = json.loads(file.read_text())
        assert content == json.loads(machine.state.ready.read_text())
        assert set(content) == {"api", "token", "kubeconfig", "pid"}
        assert content["pid"] == read_record(machine.state).pid == process.pid
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
        assert process.wait(timeout=60) == 0
    assert str(machine.state.kubeconfig) in said
    assert "stopping: the platform and the operator, then the Pods, then Kubernetes" in said
    assert not file.exists()
    assert processes_of(machine.state.path) == []
    assert read_record(machine.state).children == {}


def test_a_mistake_in_the_settings_is_said_at_once(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "steelyard.toml"
    missing = steelyard("up", state_dir=str(machine.state.path), settings=str(file))
    assert (missing.returncode, str(file) in missing.stderr) == (2, True)
    file.write_text("[operator]\nworkerz = 3\n")
    wrong = steelyard("up", state_dir=str(machine.state.path), settings=str(file))
    assert (wrong.returncode, "operator.workerz" in wrong.stderr) == (2, True)


def _until(holds: Callable[[], object], otherwise: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, otherwise
        time.sleep(0.05)
