"""GPUs of the machine, through a double of NVIDIA's library: who sees which, who waits, what a crash leaves."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.resource import EVENTS, NODES, PODS
from steelyard_local_kubernetes.gpus import assignments
from steelyard_local_kubernetes.gpus.nvidia import Nvidia
from steelyard_local_kubernetes.gpus.rules import GpuRules
from steelyard_local_kubernetes.gpus.testing import FAKE, FakeGpus
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
)

ONE: Json = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
SEEN = 'echo "sees [$CUDA_VISIBLE_DEVICES] [$NVIDIA_VISIBLE_DEVICES]"'
HELD = {"uuid": "GPU-a", "pids": [4_000_000]}
FREE = {"uuid": "GPU-a"}


def with_gpu(name: str, script: str = "sleep 600", **spec: Any) -> Json:
    return make_pod(make_container(script, **ONE), name=name, **spec)


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    made = FakeGpus(tmp_path / "nvml.json", monkeypatch)
    made.write(FREE)
    return made


@pytest.fixture
async def machine(tmp_path: Path, gpus: FakeGpus) -> AsyncIterator[Machine]:
    fields: Json = {"interval": 0.05, "crash_backoff": 0.05, "finder": Nvidia(FAKE)}
    made = Machine(make_config(tmp_path / "state", **fields))
    made.start()
    yield made
    await made.stop()
    await stop_all_pods(made.config, grace=0.0)


async def node_with(machine: Machine, text: str) -> Json:
    """The Node once its annotation, capacity or conditions say something."""
    async with asyncio.timeout(60):
        while True:
            node = await machine.cluster.get(NODES, machine.config.node)
            if text in json.dumps([node["metadata"], node["status"]]):
                return node
            await asyncio.sleep(0.005)


def lacks(pod: Json) -> str:
    return str(condition(pod, "PodScheduled").get("message", ""))


async def until_lacks(machine: Machine, name: str, text: str) -> None:
    await machine.until(lambda pod: text in lacks(pod), name)


async def test_two_pods_and_one_gpu(machine: Machine, gpus: FakeGpus) -> None:
    """The second waits, and says for whom, until no process holds the GPU."""
    await machine.cluster.create(PODS, with_gpu("first"))
    first = await machine.until(is_running, "first")
    gpus.write(HELD)
    await machine.cluster.create(PODS, with_gpu("second", SEEN))
    second = await machine.until(lacks, "second")
    assert "0 of 1 is free: GPU-a is held by default/first" in lacks(second)
    assert first["metadata"]["annotations"]["steelyard/gpus"] == "GPU-a"
    await machine.cluster.delete(PODS, "first", "default", grace_seconds=0)
    await node_with(machine, "not yet let go by default/first")
    assert phase(await machine.pod("second")) == "Pending", "a process of the first still holds it"
    gpus.write(FREE)
    second = await machine.until(lambda pod: phase(pod) == "Succeeded", "second")
    assert machine.log(second) == ["sees [0] [GPU-a]"]


async def test_waiters_hear_when_the_gpu_changes_hands(machine: Machine) -> None:
    await machine.cluster.create(PODS, with_gpu("first"))
    await machine.until(is_running, "first")
    await machine.cluster.create(PODS, with_gpu("second"))
    await until_lacks(machine, "second", "held by default/first")
    await machine.cluster.create(PODS, with_gpu("third"))
    await until_lacks(machine, "third", "held by default/first")
    await machine.cluster.delete(PODS, "first", "default", grace_seconds=0)
    await machine.until(is_running, "second")
    await until_lacks(machine, "third", "held by default/second")


async def test_who_asks_for_none_sees_none_and_who_asks_sees_its_own(machine: Machine) -> None:
    mine: Json = {"env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1,2"}]}
    pod = make_pod(
        make_container(SEEN, "asks", **ONE, **mine), make_container(SEEN, "none", **mine), name="mixed"
    )
    ended = await machine.run(pod)
    assert machine.log(ended, "asks") == ["sees [0] [GPU-a]"]
    assert machine.log(ended, "none") == ["sees [] [void]"]


async def test_a_setting_leaves_the_gpus_open_to_who_asks_for_none(machine: Machine) -> None:
    await machine.stop()
    machine.config = make_config(
        machine.config.pods.parent, finder=Nvidia(FAKE), gpus=GpuRules(unasked="all")
    )
    machine.start()
    env: Json = {"env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1,2"}]}
    assert machine.log(await machine.run(make_pod(make_container(SEEN, **env)))) == ["sees [0,1,2] []"]


async def test_a_gpu_stays_with_its_pod_over_a_crash_of_the_kubelet(machine: Machine, gpus: FakeGpus) -> None:
    await machine.cluster.create(PODS, with_gpu("first"))
    first = await machine.until(is_running, "first")
    record = machine.folder(first).path / assignments.FILE
    assert json.loads(record.read_text())["devices"] == {"nvidia.com/gpu": ["GPU-a"]}
    await machine.crash()
    machine.start()
    await machine.cluster.create(PODS, with_gpu("second", SEEN))
    await until_lacks(machine, "second", "held by default/first")
    await machine.cluster.delete(PODS, "first", "default", grace_seconds=0)
    await machine.until(lambda pod: phase(pod) == "Succeeded", "second")


async def test_a_pod_that_went_while_no_kubelet_ran_holds_its_gpu_until_it_is_free(
    machine: Machine, gpus: FakeGpus
) -> None:
    """kill -9 of the kubelet, then of the Pod: its process is still on the GPU when the next kubelet comes."""
    await machine.cluster.create(PODS, with_gpu("first"))
    first = await machine.until(is_running, "first")
    gpus.write(HELD)
    await machine.crash()
    await stop_all_pods(machine.config, grace=0.0)
    machine.cluster.store.remove(PODS, "first", "default")
    machine.start()
    await machine.cluster.create(PODS, with_gpu("second", SEEN))
    await until_lacks(machine, "second", "GPU-a is")
    assert (machine.folder(first).path / assignments.FILE).exists()
    gpus.write(FREE)
    await machine.until(lambda pod: phase(pod) == "Succeeded", "second")
    assert not machine.folder(first).path.exists()


async def test_a_gpu_that_was_taken_out_of_the_machine_keeps_no_folder(machine: Machine) -> None:
    await machine.cluster.create(PODS, with_gpu("first"))
    first = await machine.until(is_running, "first")
    await machine.crash()
    machine.config = make_config(machine.config.pods.parent, finder=Nvidia(driver=lambda: False))
    await stop_all_pods(machine.config, grace=0.0)
    machine.cluster.store.remove(PODS, "first", "default")
    machine.start()
    async with asyncio.timeout(60):
        while machine.folder(first).path.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_damaged_record_gives_no_gpu_away(machine: Machine) -> None:
    await machine.cluster.create(PODS, with_gpu("first"))
    first = await machine.until(is_running, "first")
    await machine.crash()
    (machine.folder(first).path / assignments.FILE).write_text('{"uid": ')
    machine.start()
    await machine.cluster.create(PODS, with_gpu("second", SEEN))
    await until_lacks(machine, "second", "its record is damaged")
    assert is_running(await machine.pod("first")), "what runs goes on"
    await machine.cluster.delete(PODS, "first", "default", grace_seconds=0)
    await machine.until(lambda pod: phase(pod) == "Succeeded", "second")


async def test_a_lost_gpu_is_an_event_and_a_condition_and_is_given_to_no_pod(
    machine: Machine, gpus: FakeGpus
) -> None:
    other = {"uuid": "GPU-b"}
    gpus.write(FREE, other)
    await machine.cluster.create(PODS, with_gpu("first"))
    first = await machine.until(is_running, "first")
    first = await machine.until(
        lambda pod: (pod["metadata"].get("annotations") or {}).get("steelyard/gpus"), "first"
    )
    mine = first["metadata"]["annotations"]["steelyard/gpus"]
    gpus.write(*({**gpu, "error": 15} if gpu["uuid"] == mine else gpu for gpu in (FREE, other)))
    await machine.cluster.create(PODS, with_gpu("looks", "sleep 600"))  # a Pod's start is cause for a check
    await machine.until(is_running, "looks")
    node = await node_with(machine, "GPU is lost")
    assert (
        node["status"]["capacity"]["nvidia.com/gpu"],
        node["status"]["allocatable"]["nvidia.com/gpu"],
    ) == ("2", "1")
    assert [entry["status"] for entry in node["status"]["conditions"] if entry["type"] == "GPULost"] == [
        "True"
    ]
    await machine.cluster.create(PODS, with_gpu("third"))
    await until_lacks(machine, "third", "0 of 1 is free")
    events: list[str] = []
    async with asyncio.timeout(60):
        while len(events) < 2:
            listed = (await machine.cluster.list(EVENTS)).items
            events = [event["involvedObject"]["kind"] for event in listed if event["reason"] == "GPULost"]
            await asyncio.sleep(0.005)
    assert sorted(events) == ["Node", "Pod"]


async def test_a_container_does_not_start_again_on_a_lost_gpu(
    machine: Machine, gpus: FakeGpus, tmp_path: Path
) -> None:
    """The Pod fails by no fault of its program, so that another takes its place."""
    script = f"while ! test -e {tmp_path}/end; do sleep 0.01; done; exit 1"
    await machine.cluster.create(PODS, with_gpu("first", script, restartPolicy="OnFailure"))
    await machine.until(is_running, "first")
    gpus.write({**FREE, "error": 15})
    await machine.cluster.create(PODS, with_gpu("second"))
    await node_with(machine, "GPU is lost")
    (tmp_path / "end").touch()
    pod = await machine.until(lambda pod: phase(pod) == "Failed", "first")
    assert pod["status"]["reason"] == "GPULost"
    assert condition(pod, "DisruptionTarget")["status"] == "True"


async def test_without_a_gpu_it_is_said_what_to_do(tmp_path: Path) -> None:
    machine = Machine(make_config(tmp_path / "state", finder=Nvidia(driver=lambda: False)))
    machine.start()
    await machine.cluster.create(PODS, with_gpu("first"))
    message = lacks(await machine.until(lacks, "first"))
    assert "the Pod asks for 1: no GPU was found on this machine: it has no NVIDIA driver" in message
    env: Json = {"env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]}
    ended = await machine.run(make_pod(make_container(SEEN, **env), name="other"))
    assert machine.log(ended) == ["sees [0] []"], "there is nothing to hide"
    await machine.stop()


async def test_a_pod_that_was_bound_by_another_scheduler_waits_for_its_gpu(machine: Machine) -> None:
    await machine.cluster.create(PODS, with_gpu("first"))
    await machine.until(is_running, "first")
    await machine.cluster.create(PODS, with_gpu("second", SEEN, nodeName=machine.config.node))

    def waits(pod: Json) -> bool:
        waiting = container_status(pod).get("state", {}).get("waiting", {})
        return "held by default/first" in waiting.get("message", "")

    await machine.until(waits, "second")
    await machine.cluster.delete(PODS, "first", "default", grace_seconds=0)
    await machine.until(lambda pod: phase(pod) == "Succeeded", "second")


async def test_shares_let_two_pods_use_one_gpu(machine: Machine) -> None:
    await machine.stop()
    machine.config = make_config(machine.config.pods.parent, finder=Nvidia(FAKE), gpus=GpuRules(shares=2))
    machine.start()
    for name in ("first", "second"):
        await machine.cluster.create(PODS, with_gpu(name))
        await machine.until(is_running, name)
    await machine.cluster.create(PODS, with_gpu("third"))
    await until_lacks(machine, "third", "0 of 2 is free")


async def test_an_instance_is_asked_for_by_its_profile(machine: Machine, gpus: FakeGpus) -> None:
    part = {"uuid": "MIG-1", "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "slices": 1, "memory_mib": 9856}
    gpus.write({**FREE, "mig": [part]})
    limits: Json = {"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}
    pod = await machine.run(make_pod(make_container(SEEN, **limits)))
    assert machine.log(pod) == ["sees [MIG-1] [MIG-1]"]
    await machine.cluster.create(PODS, with_gpu("whole"))
    await until_lacks(machine, "whole", "this machine has no nvidia.com/gpu; it has nvidia.com/mig-1g.10gb")
