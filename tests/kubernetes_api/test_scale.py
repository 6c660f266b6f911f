"""The `scale` subresource: of custom kinds by their definition's paths, of Deployments and ReplicaSets."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import JSON_PATCH, Answer, Api, definition
from tests.kubernetes_api.conftest import ANYTHING, CRDS, established, widget

COUNT = {"type": "integer", "minimum": 0, "maximum": 9}
ROLE = {"type": "object", "properties": {"n": COUNT}}
SPEC = {"roles": {"type": "object", "additionalProperties": ROLE}, "size": COUNT, "any": ANYTHING}
SCHEMA: Json = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": SPEC}, "status": ANYTHING},
}
SCALE = {
    "specReplicasPath": ".spec.roles.Worker.n",
    "statusReplicasPath": ".status.roles.Worker.active",
    "labelSelectorPath": ".status.selector",
}


@pytest.fixture
async def scaled(api: Api, namespace: str) -> AsyncIterator[str]:
    """The path of a custom kind whose Workers may be scaled."""
    group = f"{namespace}.example.dev"
    (await api.post(CRDS, definition(group, SCHEMA, subresources={"status": {}, "scale": SCALE}))).ok(201)
    await established(api, f"widgets.{group}")
    path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"

    async def served() -> bool:
        return (await api.get(path)).status == 200

    await api.eventually(served, "the new kind served")
    yield path
    await api.delete(f"{CRDS}/widgets.{group}")


async def made(api: Api, path: str, name: str = "w", replicas: int | None = 2) -> Json:
    roles = {} if replicas is None else {"roles": {"Worker": {"n": replicas}}}
    labels = {"labels": {"a": "b"}}
    body = widget(path, name, **roles)
    body["metadata"] |= labels
    stored: Json = (await api.post(path, body)).ok(201).json
    return stored


def without_managers(answer: Answer) -> Json:
    content = answer.ok(200).json
    content["metadata"].pop("managedFields", None)
    return content


async def test_a_scale_shows_the_object_and_its_numbers(api: Api, scaled: str) -> None:
    metadata = (await made(api, scaled))["metadata"]
    own = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    wanted: Json = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": own}
    wanted |= {"spec": {"replicas": 2}, "status": {"replicas": 0}}
    assert without_managers(await api.get(f"{scaled}/w/scale")) == wanted
    status = {"roles": {"Worker": {"active": 1}}, "selector": "a=b"}
    (await api.merge(f"{scaled}/w/status", {"status": status})).ok(200)
    assert (await api.get(f"{scaled}/w/scale")).json["status"] == {"replicas": 1, "selector": "a=b"}
    await made(api, scaled, "none", replicas=0)
    assert (await api.get(f"{scaled}/none/scale")).json["spec"] == {}
    assert (await api.get(f"{scaled}/other/scale")).status == 404


async def test_a_new_scale_is_a_new_generation(api: Api, scaled: str) -> None:
    await made(api, scaled)
    scale = (await api.get(f"{scaled}/w/scale")).json
    scale["spec"]["replicas"] = 5
    scale["status"] = {"replicas": 7}
    scale["metadata"]["labels"] = {"c": "d"}
    assert (await api.put(f"{scaled}/w/scale", scale)).ok(200).json["spec"] == {"replicas": 5}
    assert (await api.put(f"{scaled}/w/scale", scale)).status == 409  # by now it is old
    scaled_object = (await api.get(f"{scaled}/w")).json
    assert (scaled_object["spec"]["roles"], scaled_object["metadata"]["generation"]) == (
        {"Worker": {"n": 5}},
        2,
    )
    assert scaled_object["metadata"]["labels"] == {"a": "b"}
    assert "status" not in scaled_object
    del scale["metadata"]["resourceVersion"]
    (await api.put(f"{scaled}/w/scale", scale)).ok(200)
    scale["metadata"]["uid"] = "another"
    assert (await api.put(f"{scaled}/w/scale", scale)).status == 409


async def test_patches_of_a_scale(api: Api, scaled: str) -> None:
    await made(api, scaled)
    patched = (await api.merge(f"{scaled}/w/scale", {"spec": {"replicas": 7}})).ok(200)
    assert patched.json["spec"] == {"replicas": 7}
    operation = {"op": "replace", "path": "/spec/replicas", "value": 1}
    (await api.request("PATCH", f"{scaled}/w/scale", [operation], type=JSON_PATCH)).ok(200)
    (await api.merge(f"{scaled}/w/scale?dryRun=All", {"spec": {"replicas": 3}})).ok(200)
    assert (await api.get(f"{scaled}/w")).json["spec"]["roles"] == {"Worker": {"n": 1}}
    (await api.merge(f"{scaled}/w/scale", {"spec": {"replicas": None}})).ok(200)
    assert (await api.get(f"{scaled}/w")).json["spec"]["roles"] == {"Worker": {"n": 0}}


async def test_a_number_that_is_not_there_can_be_set_but_not_read(api: Api, scaled: str) -> None:
    await made(api, scaled, replicas=None)
    answer = await api.get(f"{scaled}/w/scale")
    assert answer.status == 500
    assert 'the spec replicas field ".spec.roles.Worker.n" does not exist' in answer.message
    (await api.merge(f"{scaled}/w/scale", {"spec": {"replicas": 3}})).ok(200)
    assert (await api.get(f"{scaled}/w")).json["spec"] == {"size": 1, "roles": {"Worker": {"n": 3}}}


@pytest.mark.parametrize(("replicas", "status"), [(-1, 422), (10, 422), ("2", 422), (True, 422)])
async def test_numbers_that_cannot_be(api: Api, scaled: str, replicas: object, status: int) -> None:
    await made(api, scaled)
    assert (await api.merge(f"{scaled}/w/scale", {"spec": {"replicas": replicas}})).status == status
    assert (await api.get(f"{scaled}/w")).json["spec"]["roles"] == {"Worker": {"n": 2}}


async def test_a_scale_of_something_else_is_refused(api: Api, scaled: str) -> None:
    await made(api, scaled)
    scale = (await api.get(f"{scaled}/w/scale")).json
    assert (await api.put(f"{scaled}/w/scale", {**scale, "kind": "Widget"})).status == 400
    assert (await api.put(f"{scaled}/w/scale", {**scale, "metadata": {"name": "x"}})).status == 400
    assert (await api.put(f"{scaled}/w/scale", {"spec": {"replicas": 1}})).status == 400
    assert (await api.post(f"{scaled}/w/scale", scale)).status == 405
    assert (await api.delete(f"{scaled}/w/scale")).status == 405


async def test_a_scale_is_discovered(api: Api, scaled: str) -> None:
    group = scaled.split("/")[2]
    for path, plural in ((f"/apis/{group}/v1", "widgets"), ("/apis/apps/v1", "deployments")):
        scale_entry = {entry["name"]: entry for entry in (await api.get(path)).json["resources"]}[
            f"{plural}/scale"
        ]
        assert (scale_entry["group"], scale_entry["version"], scale_entry["kind"]) == (
            "autoscaling",
            "v1",
            "Scale",
        )
        assert sorted(scale_entry["verbs"]) == ["get", "patch", "update"]


@pytest.mark.parametrize("plural", ["deployments", "replicasets"])
async def test_workloads_have_a_scale(api: Api, namespace: str, plural: str) -> None:
    expression = {"key": "k", "operator": "In", "values": ["v", "w"]}
    template = {"metadata": {"labels": {"a": "b", "k": "v"}}}
    template["spec"] = {"containers": [{"name": "c", "image": "localhost/none"}]}  # type: ignore[dict-item]
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [expression]}}
    path = f"/apis/apps/v1/namespaces/{namespace}/{plural}"
    (await api.post(path, {"metadata": {"name": "d"}, "spec": {**spec, "template": template}})).ok(201)
    scale = (await api.get(f"{path}/d/scale")).ok(200).json
    assert (scale["spec"], scale["status"]) == ({}, {"replicas": 0, "selector": "a=b,k in (v,w)"})
    assert (await api.merge(f"{path}/d/scale", {"spec": {"replicas": 1}})).ok(200).json["spec"] == {
        "replicas": 1
    }
    assert (await api.get(f"{path}/d")).json["spec"]["replicas"] == 1
    answer = await api.merge(f"{path}/d/scale", {"spec": {"replicas": -1}})
    assert answer.causes() == {"spec.replicas": "Invalid value: -1: must be greater than or equal to 0"}
    await api.delete(f"{path}/d")


PATHS: list[tuple[Json, dict[str, str]]] = [
    ({}, {"specReplicasPath": "Required value", "statusReplicasPath": "Required value"}),
    (
        {"specReplicasPath": "spec.n", "statusReplicasPath": ".spec.x", "labelSelectorPath": ".metadata.x"},
        {
            "specReplicasPath": 'Invalid value: "spec.n": must be a simple json path starting with .',
            "statusReplicasPath": 'Invalid value: ".spec.x": should be a json path under .status',
            "labelSelectorPath": 'Invalid value: ".metadata.x": should be a json path under either .spec or .status',
        },
    ),
]


@pytest.mark.parametrize(("scale", "wanted"), PATHS, ids=["none", "elsewhere"])
async def test_paths_lead_into_spec_and_status(
    api: Api, namespace: str, scale: Json, wanted: dict[str, str]
) -> None:
    crd = definition(f"{namespace}.example.dev", {"type": "object"}, subresources={"scale": scale})
    answer = await api.post(CRDS, crd)
    assert answer.causes() == {f"spec.subresources.scale.{name}": text for name, text in wanted.items()}


async def test_kubectl_scales(api: Api, scaled: str, kubectl: str, kubeconfig: Path) -> None:
    await made(api, scaled)
    _, _, group, _, _, namespace, plural = scaled.split("/")
    command = [kubectl, "--kubeconfig", str(kubeconfig), "-n", namespace, "scale", f"{plural}.{group}/w"]
    run = partial(subprocess.run, capture_output=True, text=True, check=False)
    done = await asyncio.to_thread(run, [*command, "--replicas=4"])
    assert done.returncode == 0, done.stderr
    assert (await api.get(f"{scaled}/w")).json["spec"]["roles"] == {"Worker": {"n": 4}}
