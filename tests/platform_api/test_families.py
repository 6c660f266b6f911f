"""Families: tags for entities of one kind, and `family@tag` in requests."""

import pytest

from steelyard.types import Json
from tests.platform_api.test_collection import a_method, a_service
from tests.platform_api.world import World, dataset, grant


async def test_tags_are_given_and_taken_and_stand_for_entities(world: World) -> None:
    family = await world.created("families", memberKind="Method")
    method, served = await a_method(world), await a_service(world)
    data = await world.created("datasets", **dataset())
    path = f"/families/{family['id']}/members"
    member = {"entity": {"id": method["id"], "kind": "Method"}, "description": "the first"}
    answer = await world.admin.patch(path, json={"members": {"v1": member}})
    assert answer.status_code == 200, answer.text
    stored = (await world.admin.get(f"/families/{family['id']}")).json()["members"]["v1"]
    assert stored == answer.json()["members"]["v1"]
    assert stored.items() >= {**member, "name": "v1", "family": family["id"]}.items()

    analysis = await world.created(
        "safetycases",
        method=f"{family['id']}@v1",
        scope={"inferenceService": served["id"]},
        inputs=[{"keyword": "data", "entity": data["id"]}],
    )
    assert analysis["method"]["id"] == method["id"]

    # A tag that goes to another entity does not keep the description of the one before.
    plain = {"entity": {"id": (await a_method(world))["id"], "kind": "Method"}}
    answer = await world.admin.patch(path, json={"members": {"v1": plain, "v2": member}})
    assert "description" not in answer.json()["members"]["v1"]
    answer = await world.admin.patch(path, json={"members": {"v1": None}})
    assert list(answer.json()["members"]) == ["v2"]


@pytest.mark.parametrize(
    ("reference", "named"),
    [("{family}@v9", "no tag 'v9'"), ("{stranger}@v1", "there is no Family"), ("{other}@v1", "is a Dataset")],
)
async def test_a_reference_that_leads_nowhere_is_refused(world: World, reference: str, named: str) -> None:
    family = await world.created("families", memberKind="Method")
    other = await world.created("families", memberKind="Dataset")
    data = await world.created("datasets", **dataset())
    member = {"entity": {"id": data["id"], "kind": "Dataset"}}
    await world.admin.patch(f"/families/{other['id']}/members", json={"members": {"v1": member}})
    method = reference.format(family=family["id"], other=other["id"], stranger="0" * 32)
    refused = await world.admin.post("/safetycases", json={"account": "acme", "method": method})
    assert (refused.status_code, refused.json()["field"]) == (422, "method")
    assert named in refused.json()["detail"]


BAD: dict[str, tuple[Json, str]] = {
    "another kind": ({"v1": {"entity": {"id": "{data}", "kind": "Model"}}}, "members.v1.entity.kind"),
    "no such entity": ({"v1": {"entity": {"id": "0" * 32, "kind": "Dataset"}}}, "members.v1.entity"),
    "a tag that is none": ({"-v1": None}, "members.-v1"),
}


@pytest.mark.parametrize(("members", "field"), BAD.values(), ids=BAD)
async def test_members_that_cannot_be_are_refused(world: World, members: Json, field: str) -> None:
    family = await world.created("families", memberKind="Dataset")
    refused = await world.admin.patch(f"/families/{family['id']}/members", json={"members": members})
    assert refused.status_code == 422
    assert refused.json()["field"].startswith(field)


async def test_a_tag_gives_no_right_to_what_it_names(world: World) -> None:
    family = await world.created("families", memberKind="Method")
    method = await a_method(world)
    member = {"entity": {"id": method["id"], "kind": "Method"}}
    await world.admin.patch(f"/families/{family['id']}/members", json={"members": {"v1": member}})
    asking = await world.holder(
        grant("safetycases", ["create"], ["acme"]), grant("families", ["*"], ["acme"])
    )
    refused = await asking.post("/safetycases", json={"account": "acme", "method": f"{family['id']}@v1"})
    assert (refused.status_code, refused.json()["field"]) == (422, "method")
