"""Owners: how a controller takes an orphan, lets go of its own objects, and is kept from those of others."""

import asyncio

import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import JSON_PATCH, Api, config_map, owned_by, pod
from tests.kubernetes_api.conftest import REAL, widget

CONTROLLER = {"controller": True, "blockOwnerDeletion": True}


async def owner_of(api: Api, widgets: str, name: str = "owner") -> Json:
    stored: Json = (await api.post(widgets, widget(widgets, name))).ok(201).json
    return stored


async def orphan(api: Api, core: str, name: str = "orphan") -> Json:
    body = pod(name)
    body["metadata"]["labels"] = {"job": "j"}
    stored: Json = (await api.post(f"{core}/pods", body)).ok(201).json
    return stored


async def stays(api: Api, path: str) -> None:
    """Wait longer than either server's garbage collection takes here."""
    await asyncio.sleep(2.0 if REAL else 0.2)
    assert (await api.get(path)).status == 200


async def test_an_orphan_is_adopted_by_its_uid_and_goes_with_its_owner(
    api: Api, core: str, widgets: str
) -> None:
    owner, pod = await owner_of(api, widgets), await orphan(api, core)
    uid = pod["metadata"]["uid"]
    adopt = {"metadata": {"uid": uid, "ownerReferences": owned_by(owner, **CONTROLLER)}}
    adopted = (await api.merge(f"{core}/pods/orphan", adopt)).ok(200).json["metadata"]
    assert adopted["ownerReferences"] == owned_by(owner, **CONTROLLER)
    assert (adopted["uid"], adopted["generation"]) == (uid, 1)
    (await api.delete(f"{widgets}/owner")).ok(200)
    await api.gone(f"{core}/pods/orphan")


async def test_another_by_the_same_name_is_not_adopted(api: Api, core: str, widgets: str) -> None:
    owner, pod = await owner_of(api, widgets), await orphan(api, core)
    references = owned_by(owner, **CONTROLLER)
    other = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000", "ownerReferences": references}}
    assert (await api.merge(f"{core}/pods/orphan", other)).status in (409, 422)
    version = pod["metadata"]["resourceVersion"]
    (await api.merge(f"{core}/pods/orphan", {"metadata": {"labels": {"a": "b"}}})).ok(200)
    stale = {"metadata": {"resourceVersion": version, "ownerReferences": references}}
    answer = await api.merge(f"{core}/pods/orphan", stale)
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    test = [
        {"op": "test", "path": "/metadata/uid", "value": "another"},
        {"op": "add", "path": "/metadata/ownerReferences", "value": references},
    ]
    assert (await api.request("PATCH", f"{core}/pods/orphan", test, type=JSON_PATCH)).status == 422
    assert "ownerReferences" not in (await api.get(f"{core}/pods/orphan")).json["metadata"]


async def test_there_is_one_controller(api: Api, core: str, widgets: str) -> None:
    first, second = await owner_of(api, widgets), await owner_of(api, widgets, "second")
    await orphan(api, core)
    both = owned_by(first, **CONTROLLER) + owned_by(second, **CONTROLLER)
    answer = await api.merge(f"{core}/pods/orphan", {"metadata": {"ownerReferences": both}})
    assert answer.status == 422
    assert "Only one reference can have Controller set to true" in answer.causes()["metadata.ownerReferences"]
    shared = owned_by(first, **CONTROLLER) + owned_by(second)
    (await api.merge(f"{core}/pods/orphan", {"metadata": {"ownerReferences": shared}})).ok(200)


@pytest.mark.parametrize("empty", [None, []], ids=["null", "empty"])
async def test_what_was_released_stays(api: Api, core: str, widgets: str, empty: object) -> None:
    owner = await owner_of(api, widgets)
    body = pod("own")
    body["metadata"]["ownerReferences"] = owned_by(owner, **CONTROLLER)
    uid = (await api.post(f"{core}/pods", body)).ok(201).json["metadata"]["uid"]
    release = {"metadata": {"uid": uid, "ownerReferences": empty}}
    assert "ownerReferences" not in (await api.merge(f"{core}/pods/own", release)).ok(200).json["metadata"]
    (await api.delete(f"{widgets}/owner", {"propagationPolicy": "Foreground"})).ok(200)
    await api.gone(f"{widgets}/owner")
    await stays(api, f"{core}/pods/own")


async def test_one_of_two_owners_lets_go(api: Api, core: str, widgets: str) -> None:
    first, second = await owner_of(api, widgets), await owner_of(api, widgets, "second")
    references = owned_by(first, **CONTROLLER) + owned_by(second)
    (await api.post(f"{core}/configmaps", config_map("c", ownerReferences=references))).ok(201)
    (await api.delete(f"{widgets}/owner")).ok(200)

    async def forgotten() -> bool:
        metadata = (await api.get(f"{core}/configmaps/c")).ok(200).json["metadata"]
        return bool(metadata["ownerReferences"] == owned_by(second))

    await api.eventually(forgotten, "the reference to what is gone")
    (await api.delete(f"{widgets}/second")).ok(200)
    await api.gone(f"{core}/configmaps/c")


async def test_a_recreated_owner_does_not_inherit(api: Api, core: str, widgets: str) -> None:
    old = await owner_of(api, widgets)
    (await api.delete(f"{widgets}/owner", {"propagationPolicy": "Orphan"})).ok(200)
    await api.gone(f"{widgets}/owner")
    new = await owner_of(api, widgets)
    body = config_map("c", ownerReferences=owned_by(old, **CONTROLLER))
    (await api.post(f"{core}/configmaps", body)).ok(201)
    await api.gone(f"{core}/configmaps/c")
    assert (await api.get(f"{widgets}/owner")).json["metadata"]["uid"] == new["metadata"]["uid"]


async def test_an_adoption_is_reported_to_those_who_watch(api: Api, core: str, widgets: str) -> None:
    owner = await owner_of(api, widgets)
    made = await orphan(api, core)
    version = made["metadata"]["resourceVersion"]
    query = f"watch=1&labelSelector=job%3Dj&resourceVersion={version}"
    async with api.watch(f"{core}/pods?{query}") as events:
        adopt = {"metadata": {"ownerReferences": owned_by(owner, **CONTROLLER)}}
        (await api.merge(f"{core}/pods/orphan", adopt)).ok(200)
        event = await events.next()
        assert (event["type"], event["object"]["metadata"]["ownerReferences"][0]["name"]) == (
            "MODIFIED",
            "owner",
        )
        released = {"metadata": {"ownerReferences": None, "labels": {"job": None}}}
        (await api.merge(f"{core}/pods/orphan", released)).ok(200)
        assert (await events.next())["type"] == "DELETED"  # it is not selected any more


@pytest.mark.parametrize("field", ["apiVersion", "kind", "name", "uid"])
async def test_references_are_whole(api: Api, core: str, widgets: str, field: str) -> None:
    reference = owned_by(await owner_of(api, widgets))[0] | {field: ""}
    body = config_map("c", ownerReferences=[reference])
    answer = await api.post(f"{core}/configmaps", body)
    assert answer.status == 422
    assert f"metadata.ownerReferences.{field}" in answer.causes()


async def test_deletions_are_of_one_uid_and_one_version(api: Api, core: str) -> None:
    made = (await orphan(api, core))["metadata"]
    wrong: list[Json] = [{"uid": "another"}, {"resourceVersion": "1"}]
    wrong.append({"uid": made["uid"], "resourceVersion": "1"})
    for conditions in wrong:
        answer = await api.delete(f"{core}/pods/orphan", {"preconditions": conditions})
        assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    right = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    (await api.delete(f"{core}/pods/orphan", {"preconditions": right, "gracePeriodSeconds": 0})).ok(200)
    await api.gone(f"{core}/pods/orphan")
