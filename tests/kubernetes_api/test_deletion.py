"""Deleting: finalizers, grace, owners, collections, namespaces."""

from typing import Any

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import Api, config_map, job, owned_by, pod


async def made(api: Api, core: str, name: str, **metadata: Any) -> Json:
    return (await api.post(f"{core}/configmaps", config_map(name, **metadata))).ok(201).json


async def names(api: Api, core: str) -> set[str]:
    content = (await api.get(f"{core}/configmaps")).json
    return {item["metadata"]["name"] for item in content["items"]} - {"kube-root-ca.crt"}


async def test_what_is_gone_at_once_answers_with_its_uid(api: Api, core: str) -> None:
    obj = await made(api, core, "a")
    answer = (await api.delete(f"{core}/configmaps/a")).ok(200).json
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": obj["metadata"]["uid"]}


async def test_a_finalizer_keeps_an_object_until_it_is_taken_away(api: Api, core: str) -> None:
    await made(api, core, "f", finalizers=["example.dev/keep"])
    path = f"{core}/configmaps/f"
    answer = (await api.delete(path)).ok(200).json
    assert answer["kind"] == "ConfigMap"
    assert answer["metadata"]["deletionTimestamp"]
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 0
    again = (await api.delete(path)).ok(200).json
    assert again["metadata"]["resourceVersion"] == answer["metadata"]["resourceVersion"]
    more = await api.merge(path, {"metadata": {"finalizers": ["example.dev/keep", "example.dev/more"]}})
    assert more.status == 422
    assert "no new finalizers can be added if the object is being deleted" in more.message
    (await api.merge(path, {"data": {"still": "writable"}})).ok(200)
    (await api.merge(path, {"metadata": {"finalizers": None}})).ok(200)
    assert (await api.get(path)).status == 404


async def test_a_deletion_time_cannot_be_taken_back(api: Api, core: str) -> None:
    await made(api, core, "f", finalizers=["example.dev/keep"])
    path = f"{core}/configmaps/f"
    (await api.delete(path)).ok(200)
    kept = (await api.merge(path, {"metadata": {"deletionTimestamp": None}, "data": {"a": "b"}})).ok(200, 422)
    assert (await api.get(path)).json["metadata"]["deletionTimestamp"], kept.raw
    (await api.merge(path, {"metadata": {"finalizers": None}})).ok(200)


async def test_a_bound_pod_goes_with_grace(api: Api, core: str) -> None:
    (await api.post(f"{core}/pods", pod("g", nodeName="nowhere", terminationGracePeriodSeconds=20))).ok(201)
    path = f"{core}/pods/g"
    first = (await api.delete(path)).ok(200).json["metadata"]
    assert first["deletionGracePeriodSeconds"] == 20
    assert first["generation"] == 2
    shorter = (await api.delete(path, {"gracePeriodSeconds": 5})).ok(200).json["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert shorter["deletionTimestamp"] < first["deletionTimestamp"]
    longer = (await api.delete(path, {"gracePeriodSeconds": 60})).ok(200).json["metadata"]
    assert longer["deletionGracePeriodSeconds"] == 5
    (await api.delete(path, {"gracePeriodSeconds": 0})).ok(200)
    assert (await api.get(path)).status == 404


@pytest.mark.parametrize("spec", [{}, {"nodeName": "nowhere"}], ids=["without a node", "on a node"])
async def test_a_watch_sees_that_a_pod_ends_before_it_is_gone(api: Api, core: str, spec: Json) -> None:
    path = f"{core}/pods"
    start = (await api.post(path, pod("p", **spec))).ok(201).version
    (await api.delete(f"{path}/p", {"gracePeriodSeconds": 0})).ok(200)
    async with api.watch(f"{path}?watch=1&resourceVersion={start}") as events:
        ending, gone = [await events.next() for _ in range(2)]
    assert (ending["type"], gone["type"]) == ("MODIFIED", "DELETED")
    for event in (ending, gone):
        metadata = event["object"]["metadata"]
        assert (metadata["deletionGracePeriodSeconds"], metadata["generation"]) == (0, 2)
        assert metadata["deletionTimestamp"]


async def test_a_finished_pod_goes_at_once(api: Api, core: str) -> None:
    (await api.post(f"{core}/pods", pod("done", nodeName="nowhere"))).ok(201)
    (await api.merge(f"{core}/pods/done/status", {"status": {"phase": "Succeeded"}})).ok(200)
    (await api.delete(f"{core}/pods/done")).ok(200)
    assert (await api.get(f"{core}/pods/done")).status == 404


async def test_a_collection_is_deleted_by_selector(api: Api, core: str) -> None:
    for index in range(4):
        await made(api, core, f"c{index}", labels={"even": str(index % 2 == 0).lower()})
    answer = (await api.delete(f"{core}/configmaps?labelSelector=even%3Dtrue")).ok(200).json
    assert answer["kind"] == "ConfigMapList"
    assert await names(api, core) == {"c1", "c3"}


# ---- owners


async def test_dependents_go_after_their_owner(api: Api, core: str) -> None:
    owner = await made(api, core, "owner")
    child = await made(api, core, "child", ownerReferences=owned_by(owner))
    await made(api, core, "grandchild", ownerReferences=owned_by(child))
    await made(api, core, "other")
    (await api.delete(f"{core}/configmaps/owner", {"propagationPolicy": "Background"})).ok(200)
    await api.gone(f"{core}/configmaps/child")
    await api.gone(f"{core}/configmaps/grandchild")
    assert await names(api, core) == {"other"}


async def test_an_owner_of_another_uid_is_no_owner(api: Api, core: str) -> None:
    owner = await made(api, core, "owner")
    reference = owned_by(owner)[0] | {"uid": "00000000-0000-4000-8000-000000000000"}
    await made(api, core, "child", ownerReferences=[reference])
    await api.gone(f"{core}/configmaps/child")
    assert await names(api, core) == {"owner"}


async def test_a_dependent_of_two_stays_with_the_other(api: Api, core: str) -> None:
    one, two = await made(api, core, "one"), await made(api, core, "two")
    await made(api, core, "child", ownerReferences=owned_by(one) + owned_by(two))
    (await api.delete(f"{core}/configmaps/one")).ok(200)

    async def forgotten() -> bool:
        child = (await api.get(f"{core}/configmaps/child")).ok(200).json
        return [reference["name"] for reference in child["metadata"]["ownerReferences"]] == ["two"]

    await api.eventually(forgotten, "the reference to the owner that is gone")


async def test_in_the_foreground_dependents_go_first(api: Api, core: str) -> None:
    owner = await made(api, core, "owner")
    references = owned_by(owner, blockOwnerDeletion=True)
    await made(api, core, "child", ownerReferences=references, finalizers=["example.dev/keep"])
    (await api.delete(f"{core}/configmaps/owner", {"propagationPolicy": "Foreground"})).ok(200)

    async def child_is_deleted() -> bool:
        child = (await api.get(f"{core}/configmaps/child")).ok(200).json
        return "deletionTimestamp" in child["metadata"]

    await api.eventually(child_is_deleted, "the child's deletion")
    waiting = (await api.get(f"{core}/configmaps/owner")).ok(200).json
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    (await api.merge(f"{core}/configmaps/child", {"metadata": {"finalizers": None}})).ok(200)
    await api.gone(f"{core}/configmaps/child")
    await api.gone(f"{core}/configmaps/owner")


async def test_orphans_stay(api: Api, core: str) -> None:
    owner = await made(api, core, "owner")
    await made(api, core, "child", ownerReferences=owned_by(owner))
    (await api.delete(f"{core}/configmaps/owner", {"propagationPolicy": "Orphan"})).ok(200)
    await api.gone(f"{core}/configmaps/owner")
    child = (await api.get(f"{core}/configmaps/child")).ok(200).json
    assert "ownerReferences" not in child["metadata"]


@pytest.mark.parametrize(("policy", "kept"), [(None, True), ("Background", False)])
async def test_a_jobs_dependents_stay_unless_asked(
    api: Api, core: str, namespace: str, policy: str | None, kept: bool
) -> None:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    owner = (await api.post(path, job("j"))).ok(201).json
    await made(api, core, "child", ownerReferences=owned_by(owner))
    answer = (await api.delete(f"{path}/j", {"propagationPolicy": policy} if policy else None)).ok(200)
    assert bool(answer.warnings) is kept
    await api.gone(f"{path}/j")
    if kept:
        assert await names(api, core) == {"child"}
    else:
        await api.gone(f"{core}/configmaps/child")


async def test_an_owner_of_an_unknown_kind_keeps_its_dependent(api: Api, core: str) -> None:
    reference = {"apiVersion": "foreign.example.dev/v1", "kind": "Foreign", "name": "f", "uid": "u"}
    await made(api, core, "kept", ownerReferences=[reference])
    owner = await made(api, core, "owner")
    await made(api, core, "child", ownerReferences=owned_by(owner))
    (await api.delete(f"{core}/configmaps/owner")).ok(200)
    await api.gone(f"{core}/configmaps/child")  # by then the other was looked at, too
    assert await names(api, core) == {"kept"}


# ---- namespaces


async def test_a_namespace_goes_with_all_that_is_in_it(api: Api, namespace: str, core: str) -> None:
    await made(api, core, "a")
    await made(api, core, "held", finalizers=["example.dev/keep"])
    (await api.post(f"{core}/pods", pod("p"))).ok(201)
    path = f"/api/v1/namespaces/{namespace}"
    answer = (await api.delete(path)).ok(200).json
    assert answer["status"]["phase"] == "Terminating"
    refused = await api.post(f"{core}/configmaps", config_map("late"))
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
    assert (
        f"unable to create new content in namespace {namespace} because it is being terminated"
        in refused.message
    )
    await api.gone(f"{core}/configmaps/a")
    await api.gone(f"{core}/pods/p")
    (await api.get(path)).ok(200)
    (await api.merge(f"{core}/configmaps/held", {"metadata": {"finalizers": None}})).ok(200)
    await api.gone(path)
    (await api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})).ok(201)
    assert await names(api, core) == set()


async def test_an_evicted_pod_says_so_before_it_goes(api: Api, core: str) -> None:
    made = (await api.post(f"{core}/pods", pod("p"))).ok(201).json["metadata"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    other = {"deleteOptions": {"preconditions": {"uid": "another"}}}
    assert (await api.post(f"{core}/pods/p/eviction", eviction | other)).status == 409
    version = made["resourceVersion"]
    async with api.watch(f"{core}/pods?watch=1&resourceVersion={version}") as events:
        answer = (await api.post(f"{core}/pods/p/eviction", eviction)).ok(201).json
        assert (answer["kind"], answer["status"]) == ("Status", "Success")
        first = await events.next()
        conditions = {condition["type"]: condition for condition in first["object"]["status"]["conditions"]}
        target = conditions["DisruptionTarget"]
        assert (first["type"], target["status"], target["reason"]) == (
            "MODIFIED",
            "True",
            "EvictionByEvictionAPI",
        )
        while first["type"] != "DELETED":
            first = await events.next()
    assert (await api.post(f"{core}/pods/p/eviction", eviction)).status == 404
