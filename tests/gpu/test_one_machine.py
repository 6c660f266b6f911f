"""Two Pods and one GPU on `steelyard up`: the second waits and then runs, whatever is killed meanwhile."""

import json
import os
import signal
from pathlib import Path

import pytest

from steelyard.local.overview import read_overview, to_table
from steelyard.local.state import read_record
from steelyard_common.types import Json
from steelyard_kube.resource import NODES, PODS
from steelyard_local_kubernetes.config import NODE
from steelyard_local_kubernetes.gpus.gpus import ANNOTATION
from steelyard_local_kubernetes.gpus.testing import FAKE, FakeGpus
from steelyard_local_kubernetes.kubelet.testing import is_running, make_container, make_pod, phase
from tests.gpu import holder
from tests.integration.conftest import Machine

pytestmark = pytest.mark.e2e
REAL = os.environ.get("TEST_GPU") == "real"
ONE: Json = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
MARK = "TEST_HOLDER"


@pytest.fixture
def gpus(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with GPUs: its own, or one that is a double's, which a killed process holds for a second longer."""
    if not REAL:
        monkeypatch.setenv("STEELYARD_GPUS__LIBRARY", FAKE)
        FakeGpus(tmp_path / "nvml.json", monkeypatch).write({"uuid": "GPU-a", "held_by": MARK, "late": 1.0})
    machine.up("platform")
    return machine


def make_holder(name: str, end: Path, **fields: Json) -> Json:
    """A Pod that holds its GPU until the file is there."""
    environment = [{"name": "TEST_GPU", "value": "real" if REAL else ""}, {"name": MARK, "value": name}]
    command = ["python", holder.__file__, str(end)]
    return make_pod(make_container(**{**ONE, **fields}, command=command, env=environment), name=name)


async def all_gpus(machine: Machine) -> list[Json]:
    def known(node: Json) -> bool:
        return ANNOTATION in (node["metadata"].get("annotations") or {})

    node = await machine.until(NODES, NODE, known)
    gpus: list[Json] = json.loads(node["metadata"]["annotations"][ANNOTATION])
    return gpus


def waits_for(text: str, pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(text in entry.get("message", "") for entry in conditions if entry["type"] == "PodScheduled")


def log(machine: Machine, pod: Json) -> list[str]:
    text = (machine.state.pods / pod["metadata"]["uid"] / "main" / "0.log").read_text()
    return [line.split(" ", 3)[3] for line in text.splitlines()]


async def fill(machine: Machine, end: Path) -> list[Json]:
    """Give every GPU of the machine to a Pod; the Pods."""
    pods = []
    for number, _ in enumerate(await all_gpus(machine)):
        await machine.create(PODS, make_holder(f"first-{number}", end))
        pods.append(await machine.until(PODS, f"first-{number}", is_running))
    return pods


async def test_the_second_pod_waits_and_then_runs(gpus: Machine, tmp_path: Path) -> None:
    end, later = tmp_path / "end", tmp_path / "later"
    pods = await fill(gpus, end)
    await gpus.create(PODS, make_holder("second", later))
    await gpus.until(PODS, "second", lambda pod: waits_for("is held by default/first-", pod))
    assert "held by default/first-0" in to_table(await read_overview(gpus.state))
    end.touch()
    for pod in pods:
        done = await gpus.until(PODS, pod["metadata"]["name"], lambda pod: phase(pod) == "Succeeded")
        assert log(gpus, done) == [done["metadata"]["annotations"][ANNOTATION]], (
            "CUDA sees the GPU that was given"
        )
    second = await gpus.until(PODS, "second", is_running)
    later.touch()
    second = await gpus.until(PODS, "second", lambda pod: phase(pod) == "Succeeded")
    assert log(gpus, second) == [second["metadata"]["annotations"][ANNOTATION]]


async def test_kill_9_of_the_kubelet_and_of_the_pod_gives_no_gpu_away_too_early(
    gpus: Machine, tmp_path: Path
) -> None:
    end, later = tmp_path / "end", tmp_path / "later"
    pods = await fill(gpus, end)
    kubelet, _ = read_record(gpus.state).children["kubernetes"]
    os.kill(kubelet, signal.SIGKILL)
    await gpus.create(PODS, make_holder("second", later))
    await gpus.until(PODS, "second", lambda pod: waits_for("is held by default/first-", pod))
    kubelet, _ = read_record(gpus.state).children["kubernetes"]
    os.kill(kubelet, signal.SIGKILL)
    for pod in pods:
        started = json.loads((gpus.state.pods / pod["metadata"]["uid"] / "main" / "0.started").read_text())
        os.kill(started["shim"], signal.SIGKILL)
        os.kill(started["pid"], signal.SIGKILL)
    for pod in pods:
        await gpus.until(PODS, pod["metadata"]["name"], lambda pod: phase(pod) == "Failed")
    # On a real GPU this fails where the memory of the killed process has not come back.
    await gpus.until(PODS, "second", is_running)
    later.touch()
    await gpus.until(PODS, "second", lambda pod: phase(pod) == "Succeeded")


async def test_who_asks_for_none_sees_none(gpus: Machine, tmp_path: Path) -> None:
    await all_gpus(gpus)
    await gpus.create(PODS, make_holder("none", tmp_path / "end", resources={}))
    (tmp_path / "end").touch()
    ended = await gpus.until(PODS, "none", lambda pod: phase(pod) in ("Succeeded", "Failed"))
    if REAL:
        assert "CUDA error 100" in "".join(log(gpus, ended)), "no device"
    else:
        assert log(gpus, ended) == ["void"]
