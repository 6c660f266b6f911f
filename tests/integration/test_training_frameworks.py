"""Frameworks on one machine: one that is data, as its example stands; and MPI with the files that `mpirun` reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from steelyard_common.types import Json
from steelyard_kube.resource import CONFIG_MAPS, DL_JOBS, FRAMEWORKS, MPI_JOBS, PODS
from tests.integration.conftest import Machine, machine_at

pytestmark = pytest.mark.e2e
EXAMPLE = Path(__file__).parents[2] / "examples/training/frameworks/parameter-server.yaml"
SECONDS = 300.0
"""Time for a job on a busy machine."""
RESOURCES = {resource.kind: resource for resource in (FRAMEWORKS, CONFIG_MAPS, DL_JOBS)}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine without the platform, which all tests share."""
    with machine_at(tmp_path_factory.mktemp("frameworks") / "state") as machine:
        machine.up("platform")
        yield machine


def state(job: Json) -> str:
    conditions = (job.get("status") or {}).get("conditions") or [{"type": ""}]
    return str(conditions[-1]["type"])


async def test_a_parameter_server_of_ones_own_trains(machine: Machine) -> None:
    objects = list(yaml.safe_load_all(EXAMPLE.read_text()))
    for manifest in reversed(objects):  # the job first: it waits for its framework
        namespace = {} if manifest["kind"] == "Framework" else {"namespace": "default"}
        manifest["metadata"] |= namespace
        await machine.create(RESOURCES[manifest["kind"]], manifest)
    job = await machine.until(DL_JOBS, "line", lambda job: state(job) in ("Succeeded", "Failed"), SECONDS)
    assert state(job) == "Succeeded", job["status"]
    assert job["status"]["framework"]["port"] == 7070
    assert {role["type"]: role["phase"] for role in job["status"]["replicas"]}["worker"] == "Succeeded"
    async with machine.cluster() as cluster:
        pods = [pod["metadata"]["name"] for pod in (await cluster.list(PODS, "default")).items]
    assert sorted(pod for pod in pods if pod.startswith("line-worker")) == [
        "line-worker-0",
        "line-worker-1",
    ]


async def test_a_launcher_of_mpi_finds_the_hosts_and_the_way_to_them(machine: Machine) -> None:
    looks = (
        "set -ex; test -x $OMPI_MCA_plm_rsh_agent; test $(grep -c worker $OMPI_MCA_orte_default_hostfile) = 2"
    )
    image = {"name": "mpi", "image": "localhost/steelyard/steps"}
    specs = {
        "Launcher": {"template": {"spec": {"containers": [{**image, "command": ["sh", "-c", looks]}]}}},
        "Worker": {"replicas": 2, "template": {"spec": {"containers": [image]}}},
    }
    metadata = {"name": "hosts", "namespace": "default"}
    spec = {"mpiReplicaSpecs": specs, "runPolicy": {"cleanPodPolicy": "All"}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": metadata, "spec": spec}
    await machine.create(MPI_JOBS, job)
    job = await machine.until(MPI_JOBS, "hosts", lambda job: state(job) in ("Succeeded", "Failed"), SECONDS)
    assert state(job) == "Succeeded", job["status"]
