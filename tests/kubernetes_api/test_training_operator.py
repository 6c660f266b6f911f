"""The operator on the server under test, the real one as well: a job of every kind is made, followed and ended.

There is no kubelet: the test says of the Pods what one would.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from steelyard.local.identity import process_candidate
from steelyard.operator.main import run_operator
from steelyard.operator.settings import OperatorSettings
from steelyard_common.types import Json
from steelyard_kube.client import RestCluster
from steelyard_kube.errors import AlreadyExists
from steelyard_kube.resource import CRDS, DL_JOBS, FRAMEWORKS, PODS, SERVICES, TRAINING
from steelyard_schema.crd import custom_resource_definitions
from tests.kubernetes_api.api import Api
from tests.kubernetes_api.test_training import served, training_job

__all__ = ["served"]  # a fixture

REPLICAS = {
    "TFJob": {"PS": 1, "Worker": 2},
    "PyTorchJob": {"Master": 1, "Worker": 2},
    "MXJob": {"Scheduler": 1, "Server": 1, "Worker": 1},
    "JAXJob": {"Worker": 2},
    "XGBoostJob": {"Master": 1, "Worker": 1},
    "PaddleJob": {"Worker": 2},
    "MPIJob": {"Launcher": 1, "Worker": 1},
    "DLJob": {"worker": 2},
}
RESOURCES = {resource.kind: resource for resource in TRAINING}


@pytest.fixture
async def operator(cluster: RestCluster, served: str) -> AsyncIterator[str]:
    """The operator at work in a namespace of the test's own."""
    for crd in custom_resource_definitions():
        with suppress(AlreadyExists):
            await cluster.create(CRDS, crd)
    stop = asyncio.Event()
    settings = OperatorSettings(namespace=served, lease_namespace=served, storage="file:///storage")
    running = asyncio.create_task(run_operator(cluster, settings, candidate=process_candidate(), stop=stop))
    yield served
    stop.set()
    await running


def ended(pod: Json) -> Json:
    main = pod["spec"]["containers"][0]
    terminated = {"exitCode": 0, "reason": "Completed"}
    container = {
        "name": main["name"],
        "image": main["image"],
        "imageID": "",
        "ready": False,
        "restartCount": 0,
    }
    return {"phase": "Succeeded", "containerStatuses": [{**container, "state": {"terminated": terminated}}]}


def job_of(kind: str) -> Json:
    job = training_job(
        kind, kind.lower(), **({"framework": None, "frameworkSpec": {}} if kind == "DLJob" else {})
    )
    field, (replica,) = next((name, specs.values()) for name, specs in job["spec"].items() if name in FIELDS)
    job["spec"][field] = {role: {**replica, "replicas": count} for role, count in REPLICAS[kind].items()}
    return job


FIELDS = {
    "roles",
    *(f"{prefix}ReplicaSpecs" for prefix in ("tf", "pytorch", "mx", "jax", "xgb", "paddle", "mpi")),
}


async def test_a_job_of_every_kind_is_made_and_comes_to_its_end(
    api: Api, cluster: RestCluster, operator: str
) -> None:
    for kind in REPLICAS:
        await cluster.create(
            RESOURCES[kind], {**job_of(kind), "metadata": {"name": kind.lower(), "namespace": operator}}
        )
    wanted = sum(sum(counts.values()) for counts in REPLICAS.values())

    async def all_there() -> bool:
        return len((await cluster.list(PODS, operator)).items) == wanted

    await api.eventually(all_there, "all Pods")
    services = {service["metadata"]["name"] for service in (await cluster.list(SERVICES, operator)).items}
    assert services >= {"dljob", "mxjob-scheduler-0", "pytorchjob-master-0", "tfjob-ps-0"}
    for pod in (await cluster.list(PODS, operator)).items:
        name = pod["metadata"]["name"]
        await cluster.patch(PODS, name, {"status": ended(pod)}, operator, subresource="status")
    for kind in REPLICAS:

        async def succeeded(kind: str = kind) -> bool:
            job = await cluster.get(RESOURCES[kind], kind.lower(), operator)
            conditions = (job.get("status") or {}).get("conditions") or [{"type": ""}]
            return bool(conditions[-1]["type"] == "Succeeded")

        await api.eventually(succeeded, kind)


async def test_a_job_whose_framework_comes_later_begins_then(
    api: Api, cluster: RestCluster, operator: str
) -> None:
    job = job_of("DLJob")
    job["spec"] |= {"framework": operator}
    del job["spec"]["frameworkSpec"]
    await cluster.create(DL_JOBS, {**job, "metadata": {"name": "later", "namespace": operator}})
    await asyncio.sleep(0.5)
    assert not (await cluster.list(PODS, operator)).items
    body = {"apiVersion": "dyff.io/v1alpha1", "kind": "Framework", "metadata": {"name": operator}, "spec": {}}
    await cluster.create(FRAMEWORKS, body)

    async def begun() -> bool:
        return len((await cluster.list(PODS, operator)).items) == 2

    await api.eventually(begun, "its Pods")
    await cluster.delete(FRAMEWORKS, operator)
