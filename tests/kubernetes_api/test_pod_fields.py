"""A field that Pods do not have is refused with its path in every kind that holds a Pod, as kubectl sends it."""

import re
from copy import deepcopy
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.resource import APP_WRAPPERS, RAY_CLUSTERS, RAY_JOBS, Resource
from steelyard_local_kubernetes.definitions.embedded import list_definitions
from steelyard_schema.training.kinds import TRAINING
from tests.kubernetes_api.api import Api
from tests.kubernetes_api.conftest import CRDS, Server, established
from tests.kubernetes_api.test_training import CONTAINERS, path, served, training_job

__all__ = ["served"]  # a fixture

CONTAINER: Json = {
    "name": "ray",
    "image": "localhost/none:1",
    "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
}
TEMPLATE: Json = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [CONTAINER], "volumes": [{"name": "v", "emptyDir": {}}]},
}
GROUP: Json = {"groupName": "g", "minReplicas": 0, "maxReplicas": 1, "template": TEMPLATE}
CLUSTER: Json = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [GROUP]}
POD: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **TEMPLATE}
JOB: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"template": TEMPLATE},
}
HELD: dict[str, tuple[Resource, str, Json]] = {
    "the head of a RayCluster": (RAY_CLUSTERS, "spec.headGroupSpec.template", CLUSTER),
    "workers of a RayCluster": (RAY_CLUSTERS, "spec.workerGroupSpecs.0.template", CLUSTER),
    "the cluster of a RayJob": (
        RAY_JOBS,
        "spec.rayClusterSpec.headGroupSpec.template",
        {"entrypoint": "true", "rayClusterSpec": CLUSTER},
    ),
    "the submitter of a RayJob": (
        RAY_JOBS,
        "spec.submitterPodTemplate",
        {"entrypoint": "true", "rayClusterSpec": CLUSTER, "submitterPodTemplate": TEMPLATE},
    ),
    "a Pod of an AppWrapper": (
        APP_WRAPPERS,
        "spec.components.0.template",
        {"components": [{"template": POD}]},
    ),
    "a Job of an AppWrapper": (
        APP_WRAPPERS,
        "spec.components.0.template.spec.template",
        {"components": [{"template": JOB}]},
    ),
}
TYPOS = (
    "metadta",
    "metadata.lables",
    "spec.nodeSelecter",
    "spec.containers.0.comand",
    "spec.containers.0.resorces",
    "spec.containers.0.env.0.valueFrom.secretRef",
    "spec.volumes.0.emptyDirectory",
)
"""Paths of fields in a template that do not exist."""


def with_field(obj: Json, where: str, value: object) -> Json:
    changed = deepcopy(obj)
    *steps, last = where.split(".")
    inner: Any = changed
    for step in steps:
        inner = inner[int(step) if step.isdigit() else step]
    inner[last] = value
    return changed


async def assert_refused(api: Api, where: str, obj: Json, field: str) -> None:
    (await api.post(f"{where}?fieldValidation=Strict&dryRun=All", obj)).ok(201)
    answer = await api.post(f"{where}?fieldValidation=Strict", with_field(obj, field, {}))
    assert answer.status in (400, 422), answer.raw
    assert re.sub(r"[.]([0-9]+)", r"[\1]", field) in answer.json["message"]


@pytest.mark.parametrize("typo", TYPOS)
@pytest.mark.parametrize("kind", CONTAINERS)
async def test_a_training_job_is_refused(api: Api, served: str, kind: str, typo: str) -> None:
    container, role = CONTAINERS[kind]
    where = f"spec.{TRAINING[kind].replicas}.{role}.template"
    job = with_field(training_job(kind), where, TEMPLATE)
    job = with_field(job, f"{where}.spec.containers.0.name", container)
    await assert_refused(api, path(kind, served), job, f"{where}.{typo}")


@pytest.fixture
async def kinds(api: Api, embedded: Server) -> None:
    for definition in list_definitions():
        await api.post(CRDS, definition)
        await established(api, definition["metadata"]["name"])


@pytest.mark.parametrize("typo", TYPOS)
@pytest.mark.parametrize("held", HELD)
async def test_another_kind_is_refused(api: Api, namespace: str, kinds: None, held: str, typo: str) -> None:
    resource, template, spec = HELD[held]
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}, "spec": spec}
    await assert_refused(api, resource.path(namespace), obj, f"{template}.{typo}")
