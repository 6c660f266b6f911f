"""Single steps of a run, and of a submission, run again; the other steps keep what they have made."""

from datetime import timedelta
from typing import Any

import pytest

from steelyard.types import Json
from tests.platform_api.test_collection import a_submission
from tests.platform_api.test_pipelines import a_graph, arguments, run
from tests.platform_api.world import World, grant

DAY = timedelta(days=1)


async def rerun(client: Any, run: Json, **more: Any) -> Any:
    return await client.post(f"/pipelines/runs/{run['id']}/rerun", json={"account": "acme", **more})


async def ended(world: World, made: Json, **statuses: str) -> Json:
    """Let workflows of a run end."""
    for node, status in statuses.items():
        workflow = made["workflows"][node]
        await world.says(workflow["kind"], workflow["id"], status)
    return made


async def a_run(world: World, **statuses: str) -> Json:
    return await ended(
        world, (await run(world, await a_graph(world), await arguments(world))).json(), **statuses
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
    world: World, steps: list[str] | None, again: set[str]
) -> None:
    before = await a_run(world, ask="Complete", measure="Complete", report="Failed")
    answer = await rerun(world.admin, before, **({"steps": steps} if steps else {}))
    assert answer.status_code == 200, answer.text
    after = answer.json()
    fields = ("pipeline", "arguments", "account")
    assert {name: after[name] for name in fields} == {name: before[name] for name in fields}
    assert after["annotations"] == [{"key": "steelyard/rerun-of", "value": before["id"]}]
    new = {node for node, workflow in after["workflows"].items() if workflow != before["workflows"][node]}
    assert (after["id"] != before["id"], new) == (True, again)
    # What runs again reads what was kept, or what was made anew.
    workflows = (await world.admin.get(f"/pipelines/runs/{after['id']}/workflows")).json()
    assert workflows["report"]["inputs"][0]["entity"] == after["workflows"]["measure"]["id"]
    assert workflows["measure"]["inputs"][0]["entity"] == after["workflows"]["ask"]["id"]
    statuses = (await world.admin.get(f"/pipelines/runs/{after['id']}/status")).json()["nodes"]
    assert {node for node, status in statuses.items() if status["status"] == "Created"} == again


REFUSED = {
    "no such step": ({"steps": ["nobody"]}, "steps", "'nobody' is no node of the pipeline; there are"),
    "no step": ({"steps": []}, "steps", "is empty"),
    "what would be kept has failed": ({"steps": ["report"]}, "steps", "measure is not among them"),
    "another account": ({"account": "other"}, "account", "belongs to acme"),
}


@pytest.mark.parametrize(("fields", "field", "named"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_run_again_is_refused_and_nothing_is_created(
    world: World, fields: Json, field: str, named: str
) -> None:
    before = await a_run(world, ask="Complete", measure="Failed", report="Failed")
    refused = await rerun(world.admin, before, **fields)
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert named in refused.json()["detail"]
    assert len((await world.admin.get("/pipelines/runs")).json()) == 1
    assert len((await world.admin.get("/safetycases")).json()) == 1


async def test_a_repeat_with_the_same_key_is_the_same_run(world: World) -> None:
    before = await a_run(world, ask="Complete", measure="Failed", report="Failed")
    world.admin.headers["Idempotency-Key"] = "once"
    first, again = [(await rerun(world.admin, before, steps=["measure"])).json() for _ in range(2)]
    assert first == again


async def test_a_rerun_takes_the_right_to_use_what_it_keeps(world: World) -> None:
    before = await a_run(world, ask="Complete", measure="Failed", report="Failed")
    may = [grant(kind, ["create"], ["acme"]) for kind in ("pipelineruns", "measurements", "safetycases")]
    use = [
        grant(kind, ["consume"], ["acme"])
        for kind in ("pipelines", "datasets", "methods", "inferenceservices")
    ]
    client = await world.holder(*may, *use)
    refused = await rerun(client, before, steps=["measure"])
    assert (refused.status_code, refused.json()["field"]) == (422, "steps")
    client = await world.holder(*may, *use, grant("evaluations", ["consume"], ["acme"]))
    assert (await rerun(client, before, steps=["measure"])).status_code == 200


async def test_a_run_that_keeps_workflows_ends_only_its_own(world: World) -> None:
    before = await a_run(world, ask="Complete", measure="Failed", report="Failed")
    after = (await rerun(world.admin, before, steps=["measure"])).json()
    ended = (await world.admin.put(f"/pipelines/runs/{after['id']}/terminate")).json()
    assert (ended["status"], ended["message"]) == ("Terminated", "2 running workflows ended with it")
    ask = before["workflows"]["ask"]["id"]
    assert (await world.admin.get(f"/evaluations/{ask}")).json()["status"] == "Complete"


async def test_steps_of_a_submission_run_again(world: World) -> None:
    made = await a_submission(world)
    path = f"/submissions/{made['id']}/resubmit"
    before = (await world.admin.get(f"/pipelines/runs/{made['pipelineRun']}")).json()
    await world.says("SafetyCase", before["workflows"]["case"]["id"], "Failed")
    world.engines.clock.now += DAY
    again = await world.admin.post(path, json={"account": "acme", "steps": ["case"]})
    assert again.status_code == 200, again.text
    assert (again.json()["resubmissionOf"], again.json()["status"]) == (made["id"], "Created")
    after = (await world.admin.get(f"/pipelines/runs/{again.json()['pipelineRun']}")).json()
    assert after["workflows"]["case"] != before["workflows"]["case"]
    refused = await world.admin.post(path, json={"account": "acme", "steps": ["nobody"]})
    assert (refused.status_code, refused.json()["field"]) == (422, "steps")
