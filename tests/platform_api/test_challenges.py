"""Challenges: tasks, content and rules, teams that ask to enter, and what each role sees."""

from typing import Any

import pytest

from steelyard_common.types import Json
from tests.platform_api.memory_platform import MemoryPlatform, dataset, grant
from tests.platform_api.test_collection import a_method, a_pipeline, a_team

CHOICES = {"choices": {"small": {"cpu": "1", "memory": "1Gi"}}}
STRUCTURE = {"submissionKind": "InferenceService", "pipelineKeyword": "service"}
PERSON = {"name": "Rusty", "isCorrespondingMember": True}


def task(challenge: Json, pipeline: Json, **more: Any) -> Json:
    """Return the request for a task."""
    return {
        "account": "acme",
        "challenge": challenge["id"],
        "name": "easy",
        "assessment": pipeline["id"],
        "submissionStructure": STRUCTURE,
        "rules": {"executionEnvironment": CHOICES},
        **more,
    }


async def a_challenge(platform: MemoryPlatform, **rules: Any) -> tuple[Json, Json]:
    """Create a challenge with a task, and return both."""
    challenge, pipeline = await platform.created("challenges"), await a_pipeline(platform)
    request = task(challenge, pipeline)
    request["rules"] = {**request["rules"], **rules}
    answer = await platform.admin.post(f"/challenges/{challenge['id']}/tasks", json=request)
    assert answer.status_code == 200, answer.text
    return (await platform.admin.get(f"/challenges/{challenge['id']}")).json(), answer.json()


async def test_a_task_is_stored_as_it_was_answered(platform: MemoryPlatform) -> None:
    challenge, made = await a_challenge(platform)
    assert challenge["tasks"] == {made["id"]: made}
    assert (made["status"], made["account"], made["challenge"]) == ("Ready", "acme", challenge["id"])


async def test_a_repeated_task_is_the_same_and_another_of_its_name_is_refused(
    platform: MemoryPlatform,
) -> None:
    challenge, made = await a_challenge(platform)
    path = f"/challenges/{challenge['id']}/tasks"
    request = {name: made[name] for name in task(challenge, {"id": ""}) if name in made}
    assert (await platform.admin.post(path, json=request)).json() == made
    refused = await platform.admin.post(
        path, json={**request, "submissionStructure": {**STRUCTURE, "submissionKind": "Model"}}
    )
    assert (refused.status_code, refused.json()["field"]) == (409, "name")


BAD: dict[str, tuple[Json, str]] = {
    "another challenge": ({"challenge": "0" * 32}, "challenge"),
    "no such pipeline": ({"assessment": "0" * 32}, "assessment"),
    "no such parameter": ({"submissionStructure": {}}, "submissionStructure.pipelineKeyword"),
    "a name with capitals": ({"name": "Easy"}, "name"),
    "no environment": ({"rules": {"executionEnvironment": {"choices": {}}}}, "rules"),
    "an order of times": (
        {
            "rules": {
                "executionEnvironment": CHOICES,
                "schedule": {"openingTime": "2030-01-02T00:00:00Z", "closingTime": "2030-01-01T00:00:00Z"},
            }
        },
        "rules.schedule",
    ),
}


@pytest.mark.parametrize(("changes", "field"), BAD.values(), ids=BAD)
async def test_a_task_that_cannot_be_is_refused(platform: MemoryPlatform, changes: Json, field: str) -> None:
    challenge, pipeline = await platform.created("challenges"), await a_pipeline(platform)
    path = f"/challenges/{challenge['id']}"
    refused = await platform.admin.post(f"{path}/tasks", json={**task(challenge, pipeline), **changes})
    assert refused.status_code == 422, refused.text
    assert refused.json()["field"].startswith(field)
    assert (await platform.admin.get(path)).json().get("tasks", {}) == {}


async def test_a_pipeline_with_another_parameter_assesses_nothing(platform: MemoryPlatform) -> None:
    challenge, method = await platform.created("challenges"), await a_method(platform)
    data = await platform.created("datasets", **dataset())
    request = {
        "kind": "PipelineSafetyCaseRequest",
        "method": method["id"],
        "scope": {"inferenceService": "$(service)"},
        "inputs": [{"keyword": "$(word)", "entity": data["id"]}],
    }
    keywords = {name: {"keyword": name} for name in ("service", "word")}
    nodes = {"case": {"name": "case", "request": request}}
    pipeline = await platform.created("pipelines", name="p", nodes=nodes, parameters=keywords)
    path = f"/challenges/{challenge['id']}/tasks"
    refused = await platform.admin.post(path, json=task(challenge, pipeline))
    assert (refused.status_code, refused.json()["field"]) == (422, "assessment")
    assert "'word'" in refused.json()["detail"]


async def test_content_and_rules_are_merge_patches(platform: MemoryPlatform) -> None:
    challenge, made = await a_challenge(platform)
    path = f"/challenges/{challenge['id']}"

    async def patch(below: str, **body: Any) -> Json:
        answer = await platform.admin.patch(f"{path}/{below}", json=body)
        assert answer.status_code == 200, answer.text
        kept: Json = (await platform.admin.get(path)).json()
        return kept

    page = (await patch("content", content={"page": {"summary": "", "body": "body"}}))["content"]["page"]
    assert page == {"title": "Untitled Challenge", "summary": "", "body": "body"}
    teams = {"visibility": {"teams": {"nobody": None, "t": "public"}, "submissions": {"*": "hidden"}}}
    rules = (await patch("rules", rules=teams))["rules"]["visibility"]
    assert rules == {"teams": {"t": "public"}, "submissions": {"*": "hidden"}}
    below = f"tasks/{made['id']}"
    page = (await patch(f"{below}/content", content={"page": {"title": "Task"}}))["tasks"][made["id"]]
    assert page["content"]["page"]["title"] == "Task"
    changes = {
        "executionEnvironment": {"choices": {"small": None, "big": {"cpu": "8", "memory": "9Gi"}}},
        "schedule": {"openingTime": None, "submissionLimitPerCycle": 5},
        "visibility": {"scores": {"*": None, "m": {"a": "public", "b": None}}},
    }
    other = await a_pipeline(platform)
    after = (await patch(f"{below}/rules", rules=changes, assessment=other["id"]))["tasks"][made["id"]]
    assert after["assessment"] == other["id"]
    after = (await patch(f"{below}/rules", assessment="test"))["tasks"][made["id"]]
    assert after["assessment"] == "test"
    assert after["rules"]["executionEnvironment"]["choices"].keys() == {"big"}
    assert after["rules"]["schedule"]["submissionLimitPerCycle"] == 5
    assert after["rules"]["visibility"]["scores"] == {"m": {"a": "public"}}
    none = {"executionEnvironment": {"choices": {"big": None}}}
    refused = await platform.admin.patch(f"{path}/{below}/rules", json={"rules": none})
    assert (refused.status_code, "choices" in refused.json()["detail"]) == (409, True)
    refused = await platform.admin.patch(f"{path}/tasks/nothing/content", json={"content": {}})
    assert refused.status_code == 404
    news = {"n": {"id": "n", "title": "t", "summary": "s", "postingTime": "2030-01-01T00:00:00Z"}}
    refused = await platform.admin.patch(f"{path}/{below}/content", json={"content": {"news": news}})
    assert (refused.status_code, refused.json()["field"]) == (422, "content.news")
    assert (await patch("content", content={"news": news}))["content"]["news"] == news


async def test_a_team_waits_for_the_organiser_who_may_change_the_decision(platform: MemoryPlatform) -> None:
    team = await a_team(platform)
    path = f"/challenges/{team['challenge']}/teams"
    assert (team["status"], (await platform.admin.get(path)).json()) == ("WaitingForApproval", [team])
    for decision, status in (("approve", "Active"), ("deny", "EntryDenied"), ("approve", "Active")):
        for _ in range(2):  # the answer of the first may have been lost
            answer = await platform.admin.post(f"{path}/{team['id']}/{decision}")
            assert answer.json()["status"] == status
        assert (await platform.admin.get(f"/teams/{team['id']}")).json()["status"] == status


async def test_an_organiser_decides_about_the_own_challenge_alone(platform: MemoryPlatform) -> None:
    team, other = await a_team(platform), await platform.created("challenges")
    organiser = await platform.holder(grant("challenges", ["*"], [], [other["id"]]))
    refused = await organiser.post(f"/challenges/{other['id']}/teams/{team['id']}/approve")
    assert refused.status_code == 404
    captain = await platform.holder(grant("teams", ["*"], ["acme"]), grant("challenges", ["get"], ["acme"]))
    refused = await captain.post(f"/challenges/{team['challenge']}/teams/{team['id']}/approve")
    assert refused.status_code == 403
    assert (await platform.admin.get(f"/teams/{team['id']}")).json()["status"] == "WaitingForApproval"


async def test_members_of_a_team_are_edited_one_by_one(platform: MemoryPlatform) -> None:
    team = await a_team(platform)
    for patch, members in (
        ({"members": {"rusty": PERSON, "hank": PERSON}}, {"rusty", "hank"}),
        ({"members": {"rusty": None}, "affiliations": {"venture": {"name": "Venture"}}}, {"hank"}),
        ({"name": "Team Venture"}, {"hank"}),
    ):
        answer = await platform.admin.patch(f"/teams/{team['id']}", json=patch)
        assert answer.status_code == 200, answer.text
        kept = (await platform.admin.get(f"/teams/{team['id']}")).json()
        assert kept["members"].keys() == members
    assert (kept["name"], kept["affiliations"]["venture"]["name"]) == ("Team Venture", "Venture")
    assert (await platform.admin.patch(f"/teams/{team['id']}", json={})).status_code == 422


async def test_who_does_not_see_a_challenge_cannot_enter_it(platform: MemoryPlatform) -> None:
    challenge = await platform.created("challenges")
    body = {"account": "crew", "members": {}, "affiliations": {}}
    path = f"/challenges/{challenge['id']}/teams"
    blind = await platform.holder(grant("teams", ["*"], ["crew"]))
    assert (await blind.post(path, json=body)).status_code == 404
    guest = await platform.holder(grant("teams", ["*"], ["crew"]), grant("challenges", ["get"], ["acme"]))
    assert (await guest.post(path, json={**body, "account": "acme"})).status_code == 403
    assert (await guest.post(path, json=body)).json()["account"] == "crew"
    await platform.admin.put(f"/challenges/{challenge['id']}/delete")
    assert (await guest.post(path, json=body)).status_code == 409


async def a_participant(platform: MemoryPlatform, challenge: Json, account: str) -> tuple[Any, Json]:
    """Return a client of the account, and the account's approved team in the challenge."""
    client = await platform.holder(
        grant("teams", ["*"], [account]), grant("challenges", ["get", "query"], ["acme"])
    )
    body = {"account": account, "members": {}, "affiliations": {}}
    team = (await client.post(f"/challenges/{challenge['id']}/teams", json=body)).json()
    await platform.admin.post(f"/challenges/{challenge['id']}/teams/{team['id']}/approve")
    return client, team


@pytest.mark.parametrize(
    ("rules", "public", "participant"),
    [
        ({}, 0, 1),
        ({"*": "public"}, 2, 2),
        ({"*": "submitter"}, 0, 2),
        ({"*": "reviewer"}, 0, 1),
        ({"*": "reviewer", "{other}": "public"}, 1, 2),
    ],
)
async def test_rules_say_who_sees_a_team(
    platform: MemoryPlatform, rules: Json, public: int, participant: int
) -> None:
    challenge = await platform.created("challenges")
    (one, _), (_, other) = (
        await a_participant(platform, challenge, "one"),
        await a_participant(platform, challenge, "two"),
    )
    named = {key.format(other=other["id"]): value for key, value in rules.items()}
    await platform.admin.patch(
        f"/challenges/{challenge['id']}/rules", json={"rules": {"visibility": {"teams": named}}}
    )
    guest = await platform.holder(grant("challenges", ["get"], ["acme"]))
    for client, seen in ((guest, public), (one, participant), (platform.admin, 2)):
        assert len((await client.get(f"/challenges/{challenge['id']}/teams")).json()) == seen


@pytest.mark.parametrize(
    ("view", "guest_sees", "participant_sees", "reviewer_sees"),
    [
        ("public", True, True, True),
        ("submitter", False, True, True),
        ("reviewer", False, False, True),
        ("hidden", False, False, False),
    ],
)
async def test_rules_say_who_sees_a_task(
    platform: MemoryPlatform, view: str, guest_sees: bool, participant_sees: bool, reviewer_sees: bool
) -> None:
    challenge, made = await a_challenge(platform, visibility={"view": view})
    participant, _ = await a_participant(platform, challenge, "crew")
    guest = await platform.holder(grant("challenges", ["get", "query"], ["acme"]))
    reviewer = await platform.holder(grant("challenges", ["get", "query", "data"], ["acme"]))
    for client, sees in (
        (guest, guest_sees),
        (participant, participant_sees),
        (reviewer, reviewer_sees),
        (platform.admin, True),
    ):
        one = (await client.get(f"/challenges/{challenge['id']}")).json()
        (listed,) = (await client.get("/challenges")).json()
        assert (made["id"] in one["tasks"], made["id"] in listed["tasks"]) == (sees, sees)


async def test_a_team_that_waits_is_no_participant(platform: MemoryPlatform) -> None:
    challenge, made = await a_challenge(platform, visibility={"view": "submitter"})
    client = await platform.holder(grant("teams", ["*"], ["crew"]), grant("challenges", ["get"], ["acme"]))
    body = {"account": "crew", "members": {}, "affiliations": {}}
    await client.post(f"/challenges/{challenge['id']}/teams", json=body)
    assert made["id"] not in (await client.get(f"/challenges/{challenge['id']}")).json()["tasks"]


async def test_an_organiser_cannot_give_a_task_rights_that_they_lack(platform: MemoryPlatform) -> None:
    challenge, pipeline = await platform.created("challenges"), await a_pipeline(platform)
    organiser = await platform.holder(
        grant("challenges", ["*"], ["acme"]),
        grant("pipelines", ["consume", "get"], ["acme"]),
        grant("safetycases", ["create"], ["acme"]),
    )
    path = f"/challenges/{challenge['id']}/tasks"
    refused = await organiser.post(path, json=task(challenge, pipeline))
    assert (refused.status_code, refused.json()["field"]) == (403, "account")
    assert "datasets/consume" in refused.json()["detail"]
    complete = await platform.holder(
        grant("challenges", ["*"], ["acme"]),
        grant("*", ["consume", "get"], ["acme"]),
        grant("safetycases", ["create"], ["acme"]),
    )
    made = await complete.post(path, json=task(challenge, pipeline))
    assert made.status_code == 200
    # Whoever may not lend everything may not name a pipeline that nobody knows yet.
    later = await complete.patch(f"{path}/{made.json()['id']}/rules", json={"assessment": "0" * 32})
    assert (later.status_code, later.json()["field"]) == (403, "account")
    abroad = task(challenge, pipeline, account="other", name="hard")
    assert (await complete.post(path, json=abroad)).status_code == 403
