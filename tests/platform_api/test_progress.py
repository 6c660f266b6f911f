"""Progress of a workflow in one line: its own step's, or that of the entity it waits for."""

import orjson

from steelyard_common.types import Json
from tests.platform_api.memory_platform import MemoryPlatform, model, service
from tests.platform_api.test_collection import an_evaluation


async def keep(platform: MemoryPlatform, place: str, **facts: int | str) -> None:
    await platform.engines.store.put(f"{place}/.steelyard/progress.json", orjson.dumps(facts))


async def progress(platform: MemoryPlatform, resource: str, made: Json) -> Json:
    response = await platform.admin.get(f"/{resource}/{made['id']}/progress")
    assert response.status_code == 200, response.text
    document: Json = response.json()
    return document


async def test_who_waits_is_told_how_far_that_is(platform: MemoryPlatform) -> None:
    fetched = await platform.created("models", **model())
    served = await platform.created("inferenceservices", **service(fetched["id"]))
    await platform.says("Model", fetched["id"], "Admitted", source="orchestrator")
    waits = (await progress(platform, "inferenceservices", served))["message"]
    assert waits == f"waiting for Model {fetched['name']} (Admitted)"
    await keep(platform, f"models/{fetched['id']}", unit="bytes", done=62, total=100)
    assert "(fetching: 62 %)" in (await progress(platform, "inferenceservices", served))["message"]
    own = await progress(platform, "models", fetched)
    assert (own["status"], own["message"], own["done"], own["total"]) == (
        "Admitted",
        "fetching: 62 %",
        62,
        100,
    )
    await platform.says("Model", fetched["id"], "Ready")
    assert "message" not in await progress(platform, "inferenceservices", served)
    assert "message" not in await progress(platform, "models", fetched)


async def test_what_runs_and_says_nothing_is_put_in_words(platform: MemoryPlatform) -> None:
    made = await an_evaluation(platform)
    await platform.says("Evaluation", made["id"], "Admitted", reason="Incomplete")
    assert (await progress(platform, "evaluations", made))["message"] == "waiting for its first answers"
    waits = await platform.created("reports", rubric="r", evaluation=made["id"])
    said = (await progress(platform, "reports", waits))["message"]
    assert said == f"waiting for Evaluation {made['id']} (Admitted, waiting for its first answers)"
    await platform.says("Evaluation", made["id"], "Failed", reason="ClientFailed")
    assert (await progress(platform, "evaluations", made))["message"] == "ClientFailed"


async def test_what_is_no_progress_is_none(platform: MemoryPlatform) -> None:
    fetched = await platform.created("models", **model())
    await platform.says("Model", fetched["id"], "Admitted", source="orchestrator")
    await platform.engines.store.put(f"models/{fetched['id']}/.steelyard/progress.json", b"{half")
    assert await progress(platform, "models", fetched) == {"status": "Admitted"}


async def test_what_was_made_says_which_of_what_it_used_is_deleted(platform: MemoryPlatform) -> None:
    made = await an_evaluation(platform)
    await platform.says("Evaluation", made["id"], "Complete")
    report = await platform.created("reports", rubric="r", evaluation=made["id"])
    await platform.says("Report", report["id"], "Complete")
    used = made["inferenceSession"]["inferenceService"]["id"]
    requirements = [{"dataset": made["dataset"], "rubric": "r"}]
    procedure = await platform.created("auditprocedures", name="p", requirements=requirements)
    audit = await platform.created("audits", auditProcedure=procedure["id"], inferenceService=used)
    await platform.says("Audit", audit["id"], "Complete")
    assert "message" not in await progress(platform, "audits", audit)

    answer = (await platform.admin.put(f"/reports/{report['id']}/delete")).json()
    assert answer["message"] == f"Report {report['id']} is used by 1 audit: {audit['id']}"
    after = await progress(platform, "audits", audit)
    assert (after["status"], after["message"]) == (
        "Complete",
        f"it used Report {report['id']}, which is deleted",
    )
    await platform.admin.put(f"/auditprocedures/{procedure['id']}/delete")
    gone = f"it used AuditProcedure {procedure['id']}, Report {report['id']}, which are deleted"
    assert (await progress(platform, "audits", audit))["message"] == gone
    await platform.admin.put(f"/datasets/{made['dataset']}/delete")
    said = (await progress(platform, "evaluations", made))["message"]
    assert said == f"it used Dataset {made['dataset']}, which is deleted"
