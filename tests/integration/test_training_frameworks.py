"""A framework that is data, applied and run on one machine: the example as it stands."""

from pathlib import Path

import pytest
import yaml

from steelyard.kube.resource import CONFIG_MAPS, DL_JOBS, FRAMEWORKS, PODS, Json
from tests.integration.conftest import Machine

pytestmark = pytest.mark.e2e
EXAMPLE = Path(__file__).parents[2] / "examples/training/frameworks/parameter-server.yaml"
RESOURCES = {each.kind: each for each in (FRAMEWORKS, CONFIG_MAPS, DL_JOBS)}


def state(job: Json) -> str:
    conditions = (job.get("status") or {}).get("conditions") or [{"type": ""}]
    return str(conditions[-1]["type"])


async def test_a_parameter_server_of_ones_own_trains(machine: Machine) -> None:
    machine.up("platform")
    objects = list(yaml.safe_load_all(EXAMPLE.read_text()))
    for each in reversed(objects):  # the job first: it waits for its framework
        namespace = {} if each["kind"] == "Framework" else {"namespace": "default"}
        each["metadata"] |= namespace
        await machine.create(RESOURCES[each["kind"]], each)
    job = await machine.until(DL_JOBS, "line", lambda job: state(job) in ("Succeeded", "Failed"), 90)
    assert state(job) == "Succeeded", job["status"]
    assert job["status"]["framework"]["port"] == 7070
    assert {each["type"]: each["phase"] for each in job["status"]["replicas"]}["worker"] == "Succeeded"
    async with machine.cluster() as cluster:
        pods = [each["metadata"]["name"] for each in (await cluster.list(PODS, "default")).items]
    assert sorted(each for each in pods if each.startswith("line-worker")) == [
        "line-worker-0",
        "line-worker-1",
    ]
