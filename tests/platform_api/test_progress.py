"""Progress of a workflow in one line: its own step's, or that of the entity it waits for."""

import orjson

from steelyard.types import Json
from tests.platform_api.test_collection import an_evaluation
from tests.platform_api.world import World, model, service


async def keep(world: World, place: str, **facts: int | str) -> None:
    await world.engines.store.put(f"{place}/.steelyard/progress.json", orjson.dumps(facts))


async def progress(world: World, resource: str, made: Json) -> Json:
    response = await world.admin.get(f"/{resource}/{made['id']}/progress")
    assert response.status_code == 200, response.text
    document: Json = response.json()
    return document


async def test_who_waits_is_told_how_far_that_is(world: World) -> None:
    fetched = await world.created("models", **model())
    served = await world.created("inferenceservices", **service(fetched["id"]))
    await world.says("Model", fetched["id"], "Admitted", source="orchestrator")
    waits = (await progress(world, "inferenceservices", served))["message"]
    assert waits == f"waiting for Model {fetched['name']} (Admitted)"
    await keep(world, f"models/{fetched['id']}", unit="bytes", done=62, total=100)
    assert "(fetching: 62 %)" in (await progress(world, "inferenceservices", served))["message"]
    own = await progress(world, "models", fetched)
    assert (own["status"], own["message"], own["done"], own["total"]) == (
        "Admitted",
        "fetching: 62 %",
        62,
        100,
    )
    await world.says("Model", fetched["id"], "Ready")
    assert "message" not in await progress(world, "inferenceservices", served)
    assert "message" not in await progress(world, "models", fetched)


async def test_what_runs_and_says_nothing_is_put_in_words(world: World) -> None:
    made = await an_evaluation(world)
    await world.says("Evaluation", made["id"], "Admitted", reason="Incomplete")
    assert (await progress(world, "evaluations", made))["message"] == "waiting for its first answers"
    waits = await world.created("reports", rubric="r", evaluation=made["id"])
    said = (await progress(world, "reports", waits))["message"]
    assert said == f"waiting for Evaluation {made['id']} (Admitted, waiting for its first answers)"
    await world.says("Evaluation", made["id"], "Failed", reason="ClientFailed")
    assert (await progress(world, "evaluations", made))["message"] == "ClientFailed"


async def test_what_is_no_progress_is_none(world: World) -> None:
    fetched = await world.created("models", **model())
    await world.says("Model", fetched["id"], "Admitted", source="orchestrator")
    await world.engines.store.put(f"models/{fetched['id']}/.steelyard/progress.json", b"{half")
    assert await progress(world, "models", fetched) == {"status": "Admitted"}


async def test_what_was_made_says_which_of_what_it_used_is_deleted(world: World) -> None:
    made = await an_evaluation(world)
    await world.says("Evaluation", made["id"], "Complete")
    report = await world.created("reports", rubric="r", evaluation=made["id"])
    await world.says("Report", report["id"], "Complete")
    used = made["inferenceSession"]["inferenceService"]["id"]
    requirements = [{"dataset": made["dataset"], "rubric": "r"}]
    procedure = await world.created("auditprocedures", name="p", requirements=requirements)
    audit = await world.created("audits", auditProcedure=procedure["id"], inferenceService=used)
    await world.says("Audit", audit["id"], "Complete")
    assert "message" not in await progress(world, "audits", audit)

    answer = (await world.admin.put(f"/reports/{report['id']}/delete")).json()
    assert answer["message"] == f"Report {report['id']} is used by 1 audit: {audit['id']}"
    after = await progress(world, "audits", audit)
    assert (after["status"], after["message"]) == (
        "Complete",
        f"it used Report {report['id']}, which is deleted",
    )
    await world.admin.put(f"/auditprocedures/{procedure['id']}/delete")
    gone = f"it used AuditProcedure {procedure['id']}, Report {report['id']}, which are deleted"
    assert (await progress(world, "audits", audit))["message"] == gone
    await world.admin.put(f"/datasets/{made['dataset']}/delete")
    said = (await progress(world, "evaluations", made))["message"]
    assert said == f"it used Dataset {made['dataset']}, which is deleted"
