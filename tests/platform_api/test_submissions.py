"""Submissions: limits of cycles, who may submit, the run that assesses, and its end."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from steelyard_common.types import Json
from tests.platform_api.memory_platform import MemoryPlatform, grant
from tests.platform_api.test_challenges import a_challenge, a_participant
from tests.platform_api.test_collection import a_service, a_submission


async def submit(client: Any, challenge: Json, task: Json, team: Json, service: Json, **more: Any) -> Any:
    body = {
        "account": "acme",
        "team": team["id"],
        "submission": {"id": service["id"], "kind": "InferenceService"},
        **more,
    }
    return await client.post(f"/challenges/{challenge['id']}/tasks/{task['id']}/submissions", json=body)


async def a_contest(platform: MemoryPlatform, **rules: Any) -> tuple[Json, Json, Json, Json]:
    """Create a challenge, its task, an approved team, and a service to submit."""
    challenge, task = await a_challenge(platform, **rules)
    _, team = await a_participant(platform, challenge, "acme")
    return challenge, task, team, await a_service(platform)


async def test_a_submission_and_its_run_are_created_together(platform: MemoryPlatform) -> None:
    contest = await a_contest(platform)
    made = (await submit(platform.admin, *contest)).json()
    assert made["status"] == "Created"
    run = (await platform.admin.get(f"/pipelines/runs/{made['pipelineRun']}")).json()
    assert run["arguments"] == {"service": contest[3]["id"]}
    (case,) = (await platform.admin.get("/safetycases")).json()
    assert (case["id"], case["securityContext"]["trusted"]) == (run["workflows"]["case"]["id"], False)


@pytest.mark.parametrize("limit", [1, 3])
async def test_what_is_beyond_the_limit_of_a_cycle_is_an_error_until_the_next(
    platform: MemoryPlatform, limit: int
) -> None:
    contest = await a_contest(platform, schedule={"submissionLimitPerCycle": limit})
    answers = [(await submit(platform.admin, *contest)).json() for _ in range(limit + 2)]
    assert [one["status"] for one in answers] == ["Created"] * limit + ["Error"] * 2
    beyond = answers[-1]
    assert beyond["reason"] == "RateLimitExceeded"
    assert beyond["message"].startswith(f"Submission limit exceeded: {limit}/{limit} ")
    status = (await platform.admin.get(f"/pipelines/runs/{beyond['pipelineRun']}/status")).json()
    node = status["nodes"]["case"]
    assert (status["status"], node["status"], node["reason"]) == ("Failed", "Error", "RateLimitExceeded")
    platform.engines.clock.now += timedelta(days=1)
    assert (await submit(platform.admin, *contest)).json()["status"] == "Created"


async def test_submissions_at_once_keep_the_limit(platform: MemoryPlatform) -> None:
    contest = await a_contest(platform, schedule={"submissionLimitPerCycle": 3})
    answers = await asyncio.gather(*(submit(platform.admin, *contest) for _ in range(10)))
    statuses = [answer.json()["status"] for answer in answers]
    assert (statuses.count("Created"), statuses.count("Error")) == (3, 7)


async def test_a_deleted_submission_counts(platform: MemoryPlatform) -> None:
    contest = await a_contest(platform)
    made = (await submit(platform.admin, *contest)).json()
    await platform.admin.put(f"/submissions/{made['id']}/delete")
    assert (await submit(platform.admin, *contest)).json()["reason"] == "RateLimitExceeded"


async def test_a_repeat_with_the_same_key_is_the_same_submission_and_counts_once(
    platform: MemoryPlatform,
) -> None:
    contest = await a_contest(platform)
    headers = {"Idempotency-Key": "one"}
    platform.admin.headers.update(headers)
    first, again = [(await submit(platform.admin, *contest)).json() for _ in range(2)]
    assert (first["id"], again["status"]) == (again["id"], "Created")
    assert len((await platform.admin.get("/submissions")).json()) == 1


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        ({"visibility": {"submit": "hidden"}}, 403),
        ({"schedule": {"openingTime": "2031-01-01T00:00:00Z"}}, 409),
        ({"schedule": {"closingTime": "2029-01-01T00:00:00Z"}}, 409),
        ({"visibility": {"submit": "reviewer"}}, 200),
    ],
)
async def test_rules_say_who_submits_and_when(platform: MemoryPlatform, rules: Json, status: int) -> None:
    contest = await a_contest(platform, **rules)
    assert (await submit(platform.admin, *contest)).status_code == status


async def test_only_active_teams_of_the_challenge_submit_what_the_task_takes(
    platform: MemoryPlatform,
) -> None:
    challenge, task, team, service = await a_contest(platform)
    _, _, stranger, _ = await a_contest(platform)
    refused = await submit(platform.admin, challenge, task, stranger, service)
    assert (refused.status_code, refused.json()["field"]) == (422, "team")
    kind = {"submission": {"id": service["id"], "kind": "Model"}}
    refused = await submit(platform.admin, challenge, task, team, service, **kind)
    assert (refused.status_code, refused.json()["field"]) == (422, "submission.kind")
    rules = f"/challenges/{challenge['id']}/tasks/{task['id']}/rules"
    await platform.admin.patch(rules, json={"assessment": "test"})
    refused = await submit(platform.admin, challenge, task, team, service)
    assert (refused.status_code, refused.json()["field"]) == (422, "assessment")
    await platform.admin.patch(rules, json={"assessment": task["assessment"]})
    await platform.admin.post(f"/challenges/{challenge['id']}/teams/{team['id']}/deny")
    assert (await submit(platform.admin, challenge, task, team, service)).status_code == 403
    assert (await platform.admin.get("/submissions")).json() == []


async def test_a_challenge_lends_its_runs_what_the_submitter_lacks(platform: MemoryPlatform) -> None:
    challenge, task = await a_challenge(platform)
    _, team = await a_participant(platform, challenge, "crew")
    service = await a_service(platform)
    own = (grant("submissions", ["create"], ["crew"]), grant("challenges", ["get"], ["acme"]))
    submitter = await platform.holder(
        *own,
        grant("teams", ["consume"], ["crew"]),
        grant("inferenceservices", ["consume"], [], [service["id"]]),
    )
    made = await submit(submitter, challenge, task, team, service, account="crew")
    assert made.status_code == 200, made.text
    assert made.json()["account"] == "crew"
    run = (await platform.admin.get(f"/pipelines/runs/{made.json()['pipelineRun']}")).json()
    assert run["account"] == "acme"
    assert (await submitter.get("/safetycases")).status_code == 403
    other = await platform.holder(*own, grant("inferenceservices", ["consume"], ["acme"]))
    refused = await submit(other, challenge, task, team, service, account="crew")
    assert (refused.status_code, refused.json()["field"]) == (422, "team")


async def test_termination_ends_the_run_and_leaves_what_is_complete(platform: MemoryPlatform) -> None:
    made = await a_submission(platform)
    run = (await platform.admin.get(f"/pipelines/runs/{made['pipelineRun']}")).json()
    for _ in range(2):
        answer = await platform.admin.post(f"/submissions/{made['id']}/terminate")
        assert answer.json()["status"] == "Terminated"
    assert (await platform.admin.get(f"/pipelines/runs/{run['id']}")).json()["status"] == "Terminated"
    case = run["workflows"]["case"]["id"]
    assert (await platform.admin.get(f"/safetycases/{case}")).json()["status"] == "Terminated"
    other = await a_submission(platform)
    run = (await platform.admin.get(f"/pipelines/runs/{other['pipelineRun']}")).json()
    await platform.says("SafetyCase", run["workflows"]["case"]["id"], "Complete")
    answer = await platform.admin.post(f"/submissions/{other['id']}/terminate")
    assert (answer.status_code, answer.json()["status"]) == (200, "Created")
