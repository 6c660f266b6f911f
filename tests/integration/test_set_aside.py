"""A Pod that ends the Kubernetes process twice is set aside; all else goes on, and its users can release it."""

import asyncio
import os
import signal

import pytest

from steelyard.local.state import read_record
from steelyard_common.types import Json
from steelyard_kube.resource import EVENTS, JOBS, PODS
from steelyard_local_kubernetes.at_work import RELEASE, set_aside_in
from tests.integration.conftest import Machine, is_true
from tests.integration.manifests import make_job

pytestmark = pytest.mark.e2e


def make_pod(name: str) -> Json:
    container = {"name": "main", "image": "localhost/steelyard/steps", "command": ["true"]}
    metadata = {"name": name, "namespace": "default"}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def kill_at_work(machine: Machine, name: str, *, suspected: bool) -> None:
    """Kill the Kubernetes process while it works on a Pod, which the one before may have died of."""
    marks = machine.state.at_work
    async with asyncio.timeout(60):
        # In this order: a new process first takes what the last one has left for suspects.
        while (  # noqa: ASYNC110 - the process writes both
            name in marks.with_suffix(".json").read_text()
        ) != suspected or name.encode() not in marks.read_bytes():
            await asyncio.sleep(0.02)
    os.kill(read_record(machine.state).children["kubernetes"][0], signal.SIGKILL)


def waits_aside(pod: Json) -> bool:
    states = [status.get("state", {}) for status in pod.get("status", {}).get("containerStatuses", ())]
    return any(state.get("waiting", {}).get("reason") == "SetAside" for state in states)


async def test_a_pod_that_ends_the_process_twice_is_set_aside(machine: Machine) -> None:
    machine.up("platform", "operator")
    images = machine.state.images
    kept = images.read_text()
    # Work on a Pod that never ends: the programs of images are read from a pipe that nobody writes to.
    images.unlink()
    os.mkfifo(images)
    await machine.create(PODS, make_pod("killer"))
    await kill_at_work(machine, "killer", suspected=False)
    await kill_at_work(machine, "killer", suspected=True)
    pod = await machine.until(PODS, "killer", waits_aside)
    assert [mark.name for mark in set_aside_in(machine.state.at_work)] == ["killer"]
    os.unlink(images)
    images.write_text(kept)
    await machine.create(JOBS, make_job("other"))
    await machine.until(JOBS, "other", is_true("Complete"))
    async with machine.cluster() as cluster:
        events = [
            event for event in (await cluster.list(EVENTS, "default")).items if event["reason"] == "SetAside"
        ]
        assert any(event["involvedObject"]["uid"] == pod["metadata"]["uid"] for event in events)
        assert any(RELEASE in event["message"] for event in events)
        await cluster.patch(PODS, "killer", {"metadata": {"annotations": {RELEASE: "now"}}}, "default")
    await machine.until(PODS, "killer", lambda obj: obj["status"].get("phase") == "Succeeded")
