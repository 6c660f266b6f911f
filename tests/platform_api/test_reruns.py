"""Single steps of a run, and of a submission, run again; the other steps keep what they have made."""

from datetime import timedelta
from typing import Any

import pytest

from steelyard_common.types import Json
from tests.platform_api.memory_platform import MemoryPlatform, grant
from tests.platform_api.test_collection import a_submission
from tests.platform_api.test_pipelines import a_graph, arguments, run

DAY = timedelta(days=1)


async def rerun(client: Any, run: Json, **more: Any) -> Any:
    return await client.post(f"/pipelines/runs/{run['id']}/rerun", json={"account": "acme", **more})


async def ended(platform: MemoryPlatform, made: Json, **statuses: str) -> Json:
    """Let workflows of a run end."""
    for node, status in statuses.items():
        workflow = made["workflows"][node]
        await platform.says(workflow["kind"], workflow["id"], status)
    return made


async def a_run(platform: MemoryPlatform, **statuses: str) -> Json:
    return await ended(
        platform, (await run(platform, await a_graph(platform), await arguments(platform))).json(), **statuses
    )


@pytest.mark.parametrize(
    ("steps", "again"),
    [
        (["report"], {"report"}),
        (["measure"], {"measure", "report"}),
        (["measure", "report"], {"measure", "report"}),
        (["ask"], {"ask", "measure", "report"}),
        (None, {"ask", "measure", "report"}),
    ],
)
async def test_a_step_runs_again_with_those_that_need_it(
    platform: MemoryPlatform, steps: list[str] | None, again: set[str]
) -> None:
    before = await a_run(platform, ask="Complete", measure="Complete", report="Failed")
    answer = await rerun(platform.admin, before, **({"steps": steps} if steps else {}))
    assert answer.status_code == 200, answer.text
    after = answer.json()
    fields = ("pipeline", "arguments", "account")
    assert {name: after[name] for name in fields} == {name: before[name] for name in fields}
    assert after["annotations"] == [{"key": "steelyard/rerun-of", "value": before["id"]}]
    new = {node for node, workflow in after["workflows"].items() if workflow != before["workflows"][node]}
    assert (after["id"] != before["id"], new) == (True, again)
    # What runs again reads what was kept, or what was made anew.
    workflows = (await platform.admin.get(f"/pipelines/runs/{after['id']}/workflows")).json()
    assert workflows["report"]["inputs"][0]["entity"] == after["workflows"]["measure"]["id"]
    assert workflows["measure"]["inputs"][0]["entity"] == after["workflows"]["ask"]["id"]
    statuses = (await platform.admin.get(f"/pipelines/runs/{after['id']}/status")).json()["nodes"]
    assert {node for node, status in statuses.items() if status["status"] == "Created"} == again


REFUSED = {
    "no such step": ({"steps": ["nobody"]}, "steps", "'nobody' is not a node of the pipeline; there are"),
    "no step": ({"steps": []}, "steps", "is empty"),
    "what would be kept has failed": ({"steps": ["report"]}, "steps", "measure is not among them"),
    "another account": ({"account": "other"}, "account", "belongs to acme"),
}


@pytest.mark.parametrize(("fields", "field", "named"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_run_again_is_refused_and_nothing_is_created(
    platform: MemoryPlatform, fields: Json, field: str, named: str
) -> None:
    before = await a_run(platform, ask="Complete", measure="Failed", report="Failed")
    refused = await rerun(platform.admin, before, **fields)
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert named in refused.json()["detail"]
    assert len((await platform.admin.get("/pipelines/runs")).json()) == 1
    assert len((await platform.admin.get("/safetycases")).json()) == 1


async def test_a_repeat_with_the_same_key_is_the_same_run(platform: MemoryPlatform) -> None:
    before = await a_run(platform, ask="Complete", measure="Failed", report="Failed")
    platform.admin.headers["Idempotency-Key"] = "once"
    first, again = [(await rerun(platform.admin, before, steps=["measure"])).json() for _ in range(2)]
    assert first == again


async def test_a_rerun_takes_the_right_to_use_what_it_keeps(platform: MemoryPlatform) -> None:
    before = await a_run(platform, ask="Complete", measure="Failed", report="Failed")
    may = [grant(kind, ["create"], ["acme"]) for kind in ("pipelineruns", "measurements", "safetycases")]
    use = [
        grant(kind, ["consume"], ["acme"])
        for kind in ("pipelines", "datasets", "methods", "inferenceservices")
    ]
    client = await platform.holder(*may, *use)
    refused = await rerun(client, before, steps=["measure"])
    assert (refused.status_code, refused.json()["field"]) == (422, "steps")
    client = await platform.holder(*may, *use, grant("evaluations", ["consume"], ["acme"]))
    assert (await rerun(client, before, steps=["measure"])).status_code == 200


async def test_a_run_that_keeps_workflows_ends_only_its_own(platform: MemoryPlatform) -> None:
    before = await a_run(platform, ask="Complete", measure="Failed", report="Failed")
    after = (await rerun(platform.admin, before, steps=["measure"])).json()
    ended = (await platform.admin.put(f"/pipelines/runs/{after['id']}/terminate")).json()
    assert (ended["status"], ended["message"]) == ("Terminated", "2 running workflows ended with it")
    ask = before["workflows"]["ask"]["id"]
    assert (await platform.admin.get(f"/evaluations/{ask}")).json()["status"] == "Complete"


async def test_steps_of_a_submission_run_again(platform: MemoryPlatform) -> None:
    made = await a_submission(platform)
    path = f"/submissions/{made['id']}/resubmit"
    before = (await platform.admin.get(f"/pipelines/runs/{made['pipelineRun']}")).json()
    await platform.says("SafetyCase", before["workflows"]["case"]["id"], "Failed")
    platform.engines.clock.now += DAY
    again = await platform.admin.post(path, json={"account": "acme", "steps": ["case"]})
    assert again.status_code == 200, again.text
    assert (again.json()["resubmissionOf"], again.json()["status"]) == (made["id"], "Created")
    after = (await platform.admin.get(f"/pipelines/runs/{again.json()['pipelineRun']}")).json()
    assert after["workflows"]["case"] != before["workflows"]["case"]
    refused = await platform.admin.post(path, json={"account": "acme", "steps": ["nobody"]})
    assert (refused.status_code, refused.json()["field"]) == (422, "steps")
