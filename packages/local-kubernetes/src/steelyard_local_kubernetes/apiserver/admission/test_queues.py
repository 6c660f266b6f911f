"""New jobs begin suspended in the queue that they name, or in the queue `default` of their namespace."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_kube.objects import read_labels
from steelyard_kube.resource import APP_WRAPPERS, JOBS, PODS, PYTORCH_JOBS, RAY_CLUSTERS, RAY_JOBS, Resource
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, Parts, make_parts
from steelyard_local_kubernetes.definitions.embedded import list_definitions
from steelyard_schema.definitions import load_definitions

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUEUES = "/apis/kueue.x-k8s.io/v1beta1/namespaces/{}/localqueues"
LABEL = "kueue.x-k8s.io/queue-name"
POD: Json = {"spec": {"restartPolicy": "Never", "containers": [{"name": "pytorch", "image": "x"}]}}
GROUP: Json = {
    "groupName": "g",
    "replicas": 1,
    "minReplicas": 0,
    "maxReplicas": 2,
    "template": POD,
    "rayStartParams": {},
}
CLUSTER: Json = {"headGroupSpec": {"template": POD, "rayStartParams": {}}, "workerGroupSpecs": [GROUP]}
JOB: Json = {"template": POD}
SPECS: dict[Resource, Json] = {
    JOBS: JOB,
    RAY_CLUSTERS: CLUSTER,
    RAY_JOBS: {"entrypoint": "true", "rayClusterSpec": CLUSTER},
    APP_WRAPPERS: {
        "components": [{"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **POD}}]
    },
    PYTORCH_JOBS: {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": POD}}},
}


class Server:
    """An API server with the queues of the namespaces `default` (one named so) and `other`."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    async def create(self, path: str, body: object) -> Json:
        headers = {"content-type": "application/json"}
        request = Request("POST", path, {}, headers, orjson.dumps(body), administrator("tester"))
        response = await self.parts.core.handle(request)
        assert isinstance(response.body, bytes)
        assert response.status == 201, response.body
        answer: Json = orjson.loads(response.body)
        return answer

    async def job(
        self, resource: Resource, namespace: str = "default", spec: Json | None = None, **metadata: Any
    ) -> Json:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec or SPECS[resource]}
        return await self.create(resource.path(namespace), {**body, "metadata": {"name": "j", **metadata}})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    made = Server(await make_parts(ApiServerConfig(None, tmp_path / "pki", {}), Clock()))
    jobs = {resource.kind for resource in SPECS}
    for definition in (*load_definitions(), *list_definitions()):
        if definition["spec"]["group"] == "kueue.x-k8s.io" or definition["spec"]["names"]["kind"] in jobs:
            await made.create(DEFINITIONS, definition)
    await made.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    for namespace, name in (("default", "default"), ("other", "team")):
        queue = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": name}}
        await made.create(QUEUES.format(namespace), {**queue, "spec": {"clusterQueue": "all"}})
    yield made
    made.parts.store.close()


def queue_of(obj: Json) -> object:
    return read_labels(obj).get(LABEL)


def suspended(obj: Json) -> bool:
    spec = obj["spec"]
    return bool(spec.get("suspend") or spec.get("runPolicy", {}).get("suspend"))


@pytest.mark.parametrize("resource", SPECS, ids=lambda resource: resource.kind)
async def test_a_job_without_a_queue_gets_the_one_named_default(server: Server, resource: Resource) -> None:
    job = await server.job(resource)
    assert (queue_of(job), suspended(job)) == ("default", True)
    elsewhere = await server.job(resource, "other")
    assert (queue_of(elsewhere), suspended(elsewhere)) == (None, False)
    named = await server.job(resource, "other", name="k", labels={LABEL: "team"})
    assert (queue_of(named), suspended(named)) == ("team", True)


@pytest.mark.parametrize("owner", SPECS, ids=lambda resource: resource.kind)
async def test_a_job_of_a_job_is_admitted_with_it(server: Server, owner: Resource) -> None:
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": "o",
        "uid": "u",
        "controller": True,
    }
    job = await server.job(JOBS, ownerReferences=[reference])
    assert (queue_of(job), suspended(job)) == (None, False)


async def test_what_queues_do_not_manage_gets_none(server: Server) -> None:
    pod = await server.job(PODS, spec=POD["spec"])
    assert "labels" not in pod["metadata"]
