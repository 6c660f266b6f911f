"""Creating, reading and changing objects."""

import asyncio

from steelyard_common.types import Json
from tests.kubernetes_api.api import JSON_PATCH, Api, config_map, job, pod


async def test_what_the_server_sets_cannot_be_set(api: Api, core: str) -> None:
    sent = config_map("own", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", deletionTimestamp=None)
    made = (await api.post(f"{core}/configmaps", sent)).ok(201).json["metadata"]
    assert made["uid"] != "mine"
    assert not made["creationTimestamp"].startswith("2001")


async def test_names_are_generated_until_one_is_free(api: Api, core: str) -> None:
    body = {"metadata": {"generateName": "gen-"}}
    answers = await asyncio.gather(*(api.post(f"{core}/configmaps", body) for _ in range(40)))
    names = {answer.ok(201).json["metadata"]["name"] for answer in answers}
    assert len(names) == 40
    assert all(name.startswith("gen-") and len(name) == 9 for name in names)


async def test_a_dry_run_changes_nothing(api: Api, core: str) -> None:
    dry = (await api.post(f"{core}/configmaps?dryRun=All", config_map("dry", {"a": "1"}))).ok(201)
    assert "resourceVersion" not in dry.json["metadata"]
    assert (await api.get(f"{core}/configmaps/dry")).status == 404
    made = (await api.post(f"{core}/configmaps", config_map("dry", {"a": "1"}))).ok(201)
    (await api.merge(f"{core}/configmaps/dry?dryRun=All", {"data": {"a": "2"}})).ok(200)
    (await api.delete(f"{core}/configmaps/dry?dryRun=All")).ok(200)
    assert (await api.get(f"{core}/configmaps/dry")).json == made.json


async def test_a_replacement_without_a_version_wins(api: Api, core: str) -> None:
    first = (await api.post(f"{core}/configmaps", config_map("last", {"a": "1"}))).ok(201)
    second = (await api.put(f"{core}/configmaps/last", config_map("last", {"b": "2"}))).ok(200)
    assert second.json["data"] == {"b": "2"}
    assert int(second.version) > int(first.version)
    assert second.json["metadata"]["uid"] == first.json["metadata"]["uid"]


async def test_versions_grow_with_every_write(api: Api, core: str) -> None:
    versions = []
    for index in range(5):
        made = (await api.post(f"{core}/configmaps", config_map(f"v{index}"))).ok(201)
        versions.append(int(made.version))
    listed = (await api.get(f"{core}/configmaps")).json["metadata"]["resourceVersion"]
    assert versions == sorted(set(versions))
    assert int(listed) >= versions[-1]


async def test_a_json_patch_that_fails_changes_nothing(api: Api, core: str) -> None:
    made = (await api.post(f"{core}/configmaps", config_map("p", {"a": "1"}))).ok(201)
    path = f"{core}/configmaps/p"
    ops: list[Json] = [
        {"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "test", "path": "/data/a", "value": "1"},
    ]
    answer = await api.request("PATCH", path, ops, type=JSON_PATCH)
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert (await api.get(path)).json == made.json
    ops = [
        {"op": "add", "path": "/metadata/labels", "value": {"x": "y"}},
        {"op": "remove", "path": "/data/a"},
    ]
    patched = (await api.request("PATCH", path, ops, type=JSON_PATCH)).ok(200).json
    assert patched["metadata"]["labels"] == {"x": "y"}
    assert not patched.get("data")


async def test_a_patch_with_an_old_version_is_a_conflict(api: Api, core: str) -> None:
    old = (await api.post(f"{core}/configmaps", config_map("c", {"a": "1"}))).ok(201)
    (await api.merge(f"{core}/configmaps/c", {"data": {"a": "2"}})).ok(200)
    stale = {"metadata": {"resourceVersion": old.version}, "data": {"a": "3"}}
    answer = await api.merge(f"{core}/configmaps/c", stale)
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    assert "the object has been modified" in answer.message


async def test_of_concurrent_replacements_of_one_version_one_wins(api: Api, core: str) -> None:
    made = (await api.post(f"{core}/configmaps", config_map("race", {"a": "0"}))).ok(201).json
    tries = [api.put(f"{core}/configmaps/race", {**made, "data": {"a": str(i)}}) for i in range(1, 17)]
    statuses = sorted(answer.status for answer in await asyncio.gather(*tries))
    assert statuses == [200] + [409] * 15


async def test_status_and_spec_are_written_apart(api: Api, namespace: str) -> None:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    made = (await api.post(path, job("apart") | {"status": {"succeeded": 3}})).ok(201).json
    assert not made["status"].get("succeeded")
    assert made["metadata"]["generation"] == 1
    status = {"status": {"succeeded": 1}, "spec": {"parallelism": 7}, "metadata": {"labels": {"no": "no"}}}
    written = (await api.merge(f"{path}/apart/status", status)).ok(200).json
    assert written["status"]["succeeded"] == 1
    assert written["spec"]["parallelism"] == 1
    assert written["metadata"]["generation"] == 1
    changed = (await api.merge(f"{path}/apart", {"spec": {"parallelism": 2}, "status": {"succeeded": 9}})).ok(
        200
    )
    assert changed.json["status"]["succeeded"] == 1
    assert changed.json["metadata"]["generation"] == 2
    (await api.get(f"{path}/apart/status")).ok(200)


async def test_a_pod_is_bound_once(api: Api, core: str) -> None:
    (await api.post(f"{core}/pods", pod("b"))).ok(201)
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "b"}}
    target = {"target": {"kind": "Node", "name": "some-node"}}
    assert (await api.post(f"{core}/pods/b/binding", binding | target)).ok(201).json["status"] == "Success"
    bound = (await api.get(f"{core}/pods/b")).json
    assert bound["spec"]["nodeName"] == "some-node"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    assert (await api.post(f"{core}/pods/b/binding", binding | target)).status == 409
    (await api.delete(f"{core}/pods/b?gracePeriodSeconds=0")).ok(200)


async def test_immutable_data_stays(api: Api, core: str) -> None:
    (await api.post(f"{core}/configmaps", config_map("i", {"a": "1"}) | {"immutable": True})).ok(201)
    answer = await api.merge(f"{core}/configmaps/i", {"data": {"a": "2"}})
    assert answer.status == 422
    assert answer.causes()["data"] == "Forbidden: field is immutable when `immutable` is set"


async def test_plain_secrets_are_encoded(api: Api, core: str) -> None:
    body = {"metadata": {"name": "s"}, "stringData": {"user": "me"}, "data": {"k": "eA=="}}
    made = (await api.post(f"{core}/secrets", body)).ok(201).json
    assert made["data"] == {"user": "bWU=", "k": "eA=="}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


async def test_reviews_say_yes(api: Api) -> None:
    body = {"spec": {"resourceAttributes": {"verb": "delete", "resource": "pods"}}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    answer = await api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review | body)
    assert answer.ok(201).json["status"]["allowed"] is True
    who = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", who)
    assert answer.ok(201).json["status"]["userInfo"]["username"]


async def test_annotations_of_a_deployment_begin_a_generation_unless_its_status_brings_them(
    api: Api, namespace: str
) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    (await api.post(path, {"metadata": {"name": "d"}, "spec": spec})).ok(201)
    first = await api.merge(f"{path}/d", {"metadata": {"annotations": {"a": "b"}}})
    assert first.json["metadata"]["generation"] == 2
    written = {"metadata": {"annotations": {"c": "d"}, "labels": {"e": "f"}}}
    metadata = (await api.merge(f"{path}/d/status", written)).ok(200).json["metadata"]
    assert metadata["generation"] == 2
    assert {"a": "b", "c": "d"}.items() <= metadata["annotations"].items()
    assert "labels" not in metadata
