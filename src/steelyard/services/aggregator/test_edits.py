"""Edits of families, teams and challenges: merge patches, and what they may not bring about."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from steelyard.services.aggregator.test_apply import Entity
from steelyard.services.simulation.commands import create, status
from steelyard_common.types import Json
from steelyard_schema.commands import Command, parse_command
from steelyard_schema.entities import parse_entity
from steelyard_schema.quota import quota_id

TIME = datetime(2026, 1, 1, tzinfo=UTC).isoformat()
TASK = {
    "id": "t1",
    "account": "acme",
    "challenge": "c1",
    "name": "easy",
    "assessment": "p1",
    "rules": {"executionEnvironment": {"choices": {"small": {"cpu": "1", "memory": "1Gi"}}}},
    "status": "Ready",
    "creationTime": TIME,
}
MEMBER = {"entity": {"id": "d1", "kind": "Dataset"}, "name": "v1", "family": "f1", "creationTime": TIME}


def make(kind: str, **fields: Any) -> Entity:
    base = {
        "id": f"{kind[0].lower()}1",
        "account": "acme",
        "creationTime": TIME,
        "status": "Ready",
        "kind": kind,
    }
    return Entity(create(parse_entity({**base, **fields})))


def make_challenge() -> Entity:
    return make("Challenge", content={}, tasks={"t1": TASK})


def edit(command: str, kind: str, attributes: Json) -> Command:
    data = {"id": f"{kind[0].lower()}1", "kind": kind, "attributes": attributes}
    return parse_command(orjson.dumps({"schemaVersion": "0.1", "command": command, "data": data}))


def test_members_of_a_family_are_set_and_removed_by_their_tags() -> None:
    family = make("Family", memberKind="Dataset")
    assert family.does(edit("EditFamilyMembers", "Family", {"members": {"v1": MEMBER}})) == "applied"
    assert family.does(edit("EditFamilyMembers", "Family", {"members": {"v1": MEMBER}})) == "unchanged"
    other = {**MEMBER, "name": "v2"}
    assert (
        family.does(edit("EditFamilyMembers", "Family", {"members": {"v1": None, "v2": other}})) == "applied"
    )
    assert list(family.content["members"]) == ["v2"]


def test_a_team_keeps_the_members_that_a_patch_does_not_name() -> None:
    person = {"name": "Rusty", "isCorrespondingMember": True}
    team = make(
        "Team", challenge="c1", members={"rusty": person, "hank": person}, affiliations={}, status="Active"
    )
    assert team.does(edit("EditTeam", "Team", {"members": {"rusty": None}, "name": "New"})) == "applied"
    assert (team.content["members"].keys(), team.content["name"]) == ({"hank"}, "New")


def test_content_and_rules_of_a_challenge_are_patched() -> None:
    challenge = make_challenge()
    content = {"content": {"page": {"body": "body", "summary": ""}}}
    assert challenge.does(edit("EditChallengeContent", "Challenge", content)) == "applied"
    assert challenge.content["content"]["page"] == {
        "title": "Untitled Challenge",
        "summary": "",
        "body": "body",
    }
    rules = {"rules": {"visibility": {"teams": {"t": "public", "nobody": None}}}}
    assert challenge.does(edit("EditChallengeRules", "Challenge", rules)) == "applied"
    assert challenge.content["rules"]["visibility"]["teams"] == {"t": "public"}


def test_rules_of_a_task_are_patched_and_checked_as_a_whole() -> None:
    challenge = make_challenge()
    rules = {"executionEnvironment": {"choices": {"small": None, "big": {"cpu": "8", "memory": "64Gi"}}}}
    edits = {"tasks": {"t1": {"rules": rules, "assessment": "p2"}}}
    assert challenge.does(edit("EditChallengeTaskRules", "Challenge", edits)) == "applied"
    task = challenge.content["tasks"]["t1"]
    assert (task["rules"]["executionEnvironment"]["choices"].keys(), task["assessment"]) == ({"big"}, "p2")
    none = {"tasks": {"t1": {"rules": {"executionEnvironment": {"choices": {"big": None}}}}}}
    assert challenge.does(edit("EditChallengeTaskRules", "Challenge", none)) == "rejected"
    assert challenge.outcome["reason"] == "Invalid"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": "t2", "name": "hard"}, None),
        ({"id": "t2"}, "Conflict"),  # the name is taken
        ({"name": "hard"}, "Conflict"),  # the id is
        ({"id": "t2", "name": "hard", "challenge": "c2"}, "Conflict"),
    ],
)
def test_a_new_task_has_an_id_and_a_name_of_its_own(changes: Json, reason: str | None) -> None:
    challenge = make_challenge()
    challenge.does(edit("CreateChallengeTask", "Challenge", {"task": {**TASK, **changes}}))
    assert challenge.outcome["reason"] == reason
    assert ("t2" in challenge.content["tasks"]) == (reason is None)


def test_a_task_that_is_not_there_is_not_edited() -> None:
    edits = {"tasks": {"t9": {"content": {"page": {"title": "x"}}}}}
    challenge = make_challenge()
    assert challenge.does(edit("EditChallengeContent", "Challenge", edits)) == "rejected"
    assert challenge.outcome["reason"] == "NotFound"


def test_what_is_deleted_is_not_edited() -> None:
    family = make("Family", memberKind="Dataset")
    family.does(status(parse_entity(family.content), "Deleted"))
    assert family.does(edit("EditFamilyMembers", "Family", {"members": {"v1": MEMBER}})) == "rejected"


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        (["Active"], "applied"),
        (["EntryDenied", "Active"], "applied"),
        (["Active", "WaitingForApproval"], "rejected"),
    ],
)
def test_a_team_is_approved_or_denied(path: list[str], outcome: str) -> None:
    team = make("Team", challenge="c1", members={}, affiliations={}, status="WaitingForApproval")
    assert [team.does(status(parse_entity(team.content), step)) for step in path][-1] == outcome


QUOTA = {
    "principal": "accounts/acme",
    "resource": "cpu",
    "flavor": "Total",
    "limit": "4",
    "status": "Ready",
    "creationTime": TIME,
}
QUOTA["id"] = quota_id("accounts/acme", "cpu", "Total")


def quota(command: str = "PutQuota", **fields: Any) -> Command:
    data = (
        {**QUOTA, **fields}
        if command == "PutQuota"
        else {"id": QUOTA["id"], "kind": "Quota", "attributes": fields}
    )
    return parse_command(orjson.dumps({"schemaVersion": "0.1", "command": command, "data": data}))


def test_a_quota_is_set_raised_and_set_again_after_its_deletion() -> None:
    entity = Entity(quota())
    created = entity.content
    assert created["lastTransitionTime"] is not None
    assert entity.does(quota(creationTime="2027-01-01T00:00:00Z")) == "unchanged", "it has this limit already"
    assert entity.does(quota("EditEntityLabels", labels={"team": "blue"})) == "applied"
    assert entity.does(quota(limit="6", creationTime="2027-01-01T00:00:00Z")) == "applied"
    assert (entity.content["limit"], entity.content["creationTime"]) == ("6", created["creationTime"])
    assert entity.content["labels"] == {"team": "blue"}
    assert (
        entity.does(quota("UpdateEntityStatus", status="Deleted", reason="DeleteCommand"), source="api")
        == "applied"
    )
    assert entity.does(quota(limit="6")) == "applied"
    assert (entity.content["status"], entity.content.get("reason")) == ("Ready", None)
