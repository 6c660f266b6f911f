"""Policies of `deploy/policies`: what of Ray's kinds they refuse, and with which words."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard_common.types import Json
from steelyard_local_kubernetes.definitions.embedded import list_definitions
from tests.kubernetes_api.api import MERGE, Answer, Api
from tests.kubernetes_api.conftest import CRDS, established

POLICIES = Path(__file__).parents[2] / "deploy" / "policies" / "ray.yaml"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
PATHS = {
    "RayCluster": ("ray.io/v1", "rayclusters"),
    "RayJob": ("ray.io/v1", "rayjobs"),
    "AppWrapper": ("workload.codeflare.dev/v1beta2", "appwrappers"),
}
TEMPLATE = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray"}]}}


def group(name: str = "g", **fields: Any) -> Json:
    return {"groupName": name, "minReplicas": 0, "maxReplicas": 2, "template": TEMPLATE, **fields}


def cluster(*groups: Json) -> Json:
    return {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": list(groups)}


def wrapped(kind: str = "Job", api_version: str = "batch/v1", **metadata: str) -> Json:
    template = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", **metadata}}
    return {"components": [{"template": template}]}


@pytest.fixture
async def policies(api: Api, namespace: str) -> AsyncIterator[Api]:
    """The definitions and the policies; the namespace takes only what names a queue."""
    definitions = [obj for obj in list_definitions() if obj["spec"]["names"]["kind"] in PATHS]
    for definition in definitions:
        (await api.post(CRDS, definition)).ok(201, 409)  # other tests leave theirs
        await established(api, definition["metadata"]["name"])
    labels = {"metadata": {"labels": {"steelyard/queues": "required"}}}
    (await api.request("PATCH", f"/api/v1/namespaces/{namespace}", labels, type=MERGE)).ok()
    made = []
    for obj in yaml.safe_load_all(POLICIES.read_text()):
        plural = "policies" if obj["kind"].endswith("Policy") else "policybindings"
        path = f"{HOOKS}/validatingadmission{plural}"
        (await api.post(path, obj)).ok(201)
        made.append(f"{path}/{obj['metadata']['name']}")

    async def holds() -> bool:
        # A real server takes up one policy after the other.
        refused = [(kind, spec) for kind, spec, message in CASES if message]
        return all([(await create(api, namespace, kind, spec)).status == 422 for kind, spec in refused])

    await api.eventually(holds, "the policies held")
    yield api
    for path in (*made, *(f"{CRDS}/{definition['metadata']['name']}" for definition in definitions)):
        await api.delete(path)
    for definition in definitions:
        # A real server takes its time, and the next test would take a definition that goes for one that is there.
        await api.gone(f"{CRDS}/{definition['metadata']['name']}")


async def create(
    api: Api, namespace: str, kind: str, spec: Json, name: str = "n", labels: Json | None = None
) -> Answer:
    version, plural = PATHS[kind]
    labels = {"kueue.x-k8s.io/queue-name": "team"} if labels is None else labels
    obj = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}
    return await api.post(f"/apis/{version}/namespaces/{namespace}/{plural}?dryRun=All", obj)


CASES: list[tuple[str, Json, str]] = [
    ("RayCluster", cluster(group()), ""),
    ("RayCluster", cluster(group(), group()), "each group needs a groupName of its own"),
    ("RayCluster", cluster(group(minReplicas=3)), "minReplicas must be between 0 and maxReplicas"),
    ("RayCluster", cluster(group(replicas=3)), "replicas must be between minReplicas and maxReplicas"),
    ("RayCluster", cluster(group(template={})), "the template of each group needs a container"),
    ("RayCluster", {"headGroupSpec": {"template": {}}}, "spec.headGroupSpec: the template needs a container"),
    ("RayJob", {"rayClusterSpec": cluster()}, ""),
    ("RayJob", {"entrypoint": "true"}, "give either rayClusterSpec"),
    ("RayJob", {"rayClusterSpec": cluster(), "ttlSecondsAfterFinished": 5}, "has no effect without"),
    ("AppWrapper", wrapped(), ""),
    (
        "AppWrapper",
        wrapped("ClusterRole", "rbac.authorization.k8s.io/v1"),
        "of a kind that AppWrappers may not make",
    ),
    ("AppWrapper", wrapped(namespace="other"), "must be in the namespace of its AppWrapper"),
]


async def test_what_the_policies_refuse(policies: Api, namespace: str) -> None:
    for kind, spec, message in CASES:
        answer = await create(policies, namespace, kind, spec)
        assert answer.status == (422 if message else 201), (kind, spec, answer.raw)
        assert message in answer.message, (kind, spec)
    answer = await create(policies, namespace, "RayCluster", cluster(), labels={})
    assert "set the label kueue.x-k8s.io/queue-name" in answer.message
