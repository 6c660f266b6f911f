"""Pods that have ended: the kubelet keeps no worker for them, and finishes what their deletion asks for."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard_common.types import Json
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
from steelyard_local_kubernetes.kubelet.testing import Machine, make_config, make_container, make_pod, phase
from tests.kubelet.conftest import processes_of


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    made = Machine(make_config(tmp_path / "state", interval=0.05))
    made.start()
    yield made
    await made.stop()
    await stop_all_pods(made.config, grace=0.0)
    assert processes_of(tmp_path) == []


async def until_idle(name: str = "pod") -> None:
    """Wait until no task of this process manages the Pod."""
    async with asyncio.timeout(60):
        while any(task.get_name() == f"pod {name}" for task in asyncio.all_tasks()):  # noqa: ASYNC110 - tasks tell nobody
            await asyncio.sleep(0.005)


async def ended_pod(machine: Machine) -> Json:
    pod = await machine.run(make_pod(make_container("echo said; exit 3")))
    await until_idle()
    return pod


async def test_an_ended_pod_is_kept_with_its_log(machine: Machine) -> None:
    pod = await ended_pod(machine)
    assert phase(pod) == "Failed"
    assert machine.log(pod) == ["said"]
    await machine.cluster.patch(PODS, "pod", {"metadata": {"labels": {"a": "b"}}}, "default")
    await until_idle()
    assert (await machine.pod())["status"] == pod["status"]


async def test_a_deletion_is_confirmed_and_the_folder_removed(machine: Machine) -> None:
    await ended_pod(machine)
    await machine.cluster.delete(PODS, "pod", "default")
    await machine.until_gone()
    await until_idle()


async def test_a_forced_deletion_leaves_nothing(machine: Machine) -> None:
    pod = await ended_pod(machine)
    await machine.cluster.delete(PODS, "pod", "default", grace_seconds=0)
    await machine.until_gone()
    again = await machine.run(make_pod(make_container("true")))
    assert again["metadata"]["uid"] != pod["metadata"]["uid"]
    assert phase(again) == "Succeeded"


async def test_a_status_that_another_client_changes_is_written_again(machine: Machine) -> None:
    await ended_pod(machine)
    await machine.cluster.patch(
        PODS, "pod", {"status": {"phase": "Running"}}, "default", subresource="status"
    )
    await machine.until(lambda pod: phase(pod) == "Failed")
    await until_idle()


async def test_a_new_kubelet_keeps_it_and_removes_it(machine: Machine) -> None:
    pod = await ended_pod(machine)
    await machine.stop()
    machine.start()
    other = await machine.run(make_pod(make_container("true"), name="other"))
    assert other["status"]["podIP"] != pod["status"]["podIP"], "it is the ended Pod's until that is deleted"
    await until_idle()
    assert (await machine.pod())["status"] == pod["status"]
    for name in ("pod", "other"):
        await machine.cluster.delete(PODS, name, "default", grace_seconds=0)
    await machine.until_gone()
