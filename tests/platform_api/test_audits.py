"""An Audit's missing reports and evaluations are created with it, once, and under the caller's grants."""

import pytest

from steelyard.services.orchestrator.manifest import manifest
from steelyard_common.types import Json
from steelyard_schema.dependencies import dependency_names
from steelyard_schema.entities import parse_entity
from tests.platform_api.memory_platform import SCHEMA, MemoryPlatform, dataset, grant, model, service
from tests.platform_api.test_collection import a_service


async def procedure(platform: MemoryPlatform, *pairs: tuple[str, str]) -> Json:
    requirements = [{"dataset": data, "rubric": rubric} for data, rubric in pairs]
    return await platform.created("auditprocedures", name="p", requirements=requirements)


async def audit(platform: MemoryPlatform, made: Json, served: Json, **fields: object) -> Json:
    return await platform.created(
        "audits", auditProcedure=made["id"], inferenceService=served["id"], **fields
    )


async def all_of(platform: MemoryPlatform, resource: str) -> list[Json]:
    entities: list[Json] = (await platform.admin.get(f"/{resource}")).json()
    return entities


async def complete(
    platform: MemoryPlatform, data: str, served: Json, account: str = "acme", client: Json | None = None
) -> Json:
    fields = {"dataset": data, "inferenceSession": {"inferenceService": served["id"]}, "client": client or {}}
    made = await platform.created("evaluations", **fields, account=account)
    await platform.says("Evaluation", made["id"], "Complete")
    return made


async def report(platform: MemoryPlatform, evaluation: Json, rubric: str, **fields: object) -> Json:
    made = await platform.created("reports", rubric=rubric, evaluation=evaluation["id"], **fields)
    await platform.says("Report", made["id"], "Complete")
    return made


async def test_everything_is_created_that_is_not_there(platform: MemoryPlatform) -> None:
    data, served = (await platform.created("datasets", **dataset()))["id"], await a_service(platform)
    made = await audit(
        platform, await procedure(platform, (data, "one"), (data, "two"), (data, "one")), served
    )
    (evaluation,) = await all_of(platform, "evaluations")
    reports = sorted(await all_of(platform, "reports"), key=lambda report: str(report["rubric"]))
    assert [(report["rubric"], report["evaluation"]) for report in reports] == [
        ("one", evaluation["id"]),
        ("two", evaluation["id"]),
    ]
    assert made["metadata"]["preconditions"] == [{"id": report["id"], "kind": "Report"} for report in reports]
    assert evaluation["inferenceSession"]["inferenceService"]["id"] == served["id"]
    assert {(report["dataset"], report["inferenceService"], report["model"]) for report in reports} == {
        (data, served["id"], served["model"]["id"])
    }
    assert {entity["status"] for entity in (made, evaluation, *reports)} == {"Created"}


async def test_what_is_made_says_what_its_parts_are_called(platform: MemoryPlatform) -> None:
    data, served = (await platform.created("datasets", **dataset()))["id"], await a_service(platform)
    made = await audit(platform, await procedure(platform, (data, "one")), served)
    (evaluation,), (scored,) = await all_of(platform, "evaluations"), await all_of(platform, "reports")
    about = {"dataset": "digits", "inferenceService": "service", "model": "model"}
    for entity, names in (
        (made, {"auditProcedure": "p", "inferenceService": "service"}),
        (evaluation, {"dataset": "digits"}),
        (scored, about),
    ):
        assert dependency_names(parse_entity(entity)) == names
    again = await platform.created("reports", rubric="two", evaluation=evaluation["id"])
    assert dependency_names(parse_entity(again)) == about
    assert manifest(parse_entity(again))["spec"]["names"] == about


async def test_the_newest_complete_ones_are_taken(platform: MemoryPlatform) -> None:
    data, served = (await platform.created("datasets", **dataset()))["id"], await a_service(platform)
    await report(platform, await complete(platform, data, served), "one")
    newest = await complete(platform, data, served)
    wanted = await report(platform, newest, "one")
    running = await platform.created("reports", rubric="one", evaluation=newest["id"])
    await complete(platform, data, served, account="other")
    made = await audit(platform, await procedure(platform, (data, "one"), (data, "two")), served)
    ids = [entity["id"] for entity in made["metadata"]["preconditions"]]
    assert ids[0] == wanted["id"] != running["id"]
    (new,) = [report for report in await all_of(platform, "reports") if report["rubric"] == "two"]
    assert (new["id"], new["evaluation"]) == (ids[1], newest["id"])
    assert len(await all_of(platform, "evaluations")) == 3


async def test_what_answers_another_question_is_not_taken(platform: MemoryPlatform) -> None:
    data, served = (await platform.created("datasets", **dataset()))["id"], await a_service(platform)
    wanted = await report(platform, await complete(platform, data, served, client={"batchSize": 7}), "one")
    view = {"id": "v", "viewOf": "inputs", "schema": SCHEMA}
    for _ in range(11):
        evaluation = wanted["evaluation"]
        await report(platform, {"id": evaluation}, "one", datasetView=view)
    for client in ({"badRequestPolicy": "Skip"}, {"missingOutputPolicy": "Ignore"}):
        await report(platform, await complete(platform, data, served, client=client), "one")
    made = await audit(platform, await procedure(platform, (data, "one")), served)
    assert [entity["id"] for entity in made["metadata"]["preconditions"]] == [wanted["id"]]


async def test_another_service_has_evaluations_of_its_own(platform: MemoryPlatform) -> None:
    data, served = (await platform.created("datasets", **dataset()))["id"], await a_service(platform)
    await report(platform, await complete(platform, data, served), "one")
    other = await platform.created("inferenceservices", **service())
    await audit(platform, await procedure(platform, (data, "one")), other)
    assert [
        evaluation["inferenceSession"]["inferenceService"]["id"]
        for evaluation in await all_of(platform, "evaluations")
    ] == [
        served["id"],
        other["id"],
    ]


async def test_a_baseline_is_an_audit_that_is_there(platform: MemoryPlatform) -> None:
    data, served = (await platform.created("datasets", **dataset()))["id"], await a_service(platform)
    requested = await procedure(platform, (data, "one"))
    first = await audit(platform, requested, served)
    second = await audit(platform, requested, served, baseline=first["id"])
    assert {"key": "steelyard/baseline", "value": first["id"]} in second["annotations"]
    body = {"account": "acme", "auditProcedure": requested["id"], "inferenceService": served["id"]}
    missing = await platform.admin.post("/audits", json={**body, "baseline": "0" * 32})
    assert (missing.status_code, missing.json()["field"]) == (422, "baseline")


async def test_a_repeated_request_makes_everything_once(platform: MemoryPlatform) -> None:
    data, served = (await platform.created("datasets", **dataset()))["id"], await a_service(platform)
    requested = await procedure(platform, (data, "one"))
    body = {"account": "acme", "auditProcedure": requested["id"], "inferenceService": served["id"]}
    made = [
        await platform.admin.post("/audits", json=body, headers={"Idempotency-Key": "a"}) for _ in range(2)
    ]
    assert made[0].json()["id"] == made[1].json()["id"]
    assert [len(await all_of(platform, resource)) for resource in ("audits", "evaluations", "reports")] == [
        1,
        1,
        1,
    ]


@pytest.mark.parametrize("lacks", ["evaluations", "reports"])
async def test_who_may_not_create_what_is_missing_creates_nothing(
    platform: MemoryPlatform, lacks: str
) -> None:
    data, served = (await platform.created("datasets", **dataset()))["id"], await a_service(platform)
    requested = await procedure(platform, (data, "one"))
    grants = [
        grant(resource, ["*"], ["acme"])
        for resource in ("audits", "evaluations", "reports")
        if resource != lacks
    ]
    used = [
        grant(resource, ["consume"], ["*"])
        for resource in ("datasets", "inferenceservices", "auditprocedures")
    ]
    client = await platform.holder(*grants, *used)
    body = {"account": "acme", "auditProcedure": requested["id"], "inferenceService": served["id"]}
    refused = await client.post("/audits", json=body)
    assert (refused.status_code, refused.json()["field"]) == (403, "auditProcedure")
    assert lacks in refused.json()["detail"]
    assert [await all_of(platform, resource) for resource in ("audits", "evaluations", "reports")] == [
        [],
        [],
        [],
    ]


async def test_what_the_caller_may_not_use_is_not_taken(platform: MemoryPlatform) -> None:
    data, served = (await platform.created("datasets", **dataset()))["id"], await a_service(platform)
    await report(platform, await complete(platform, data, served), "one")
    requested = await procedure(platform, (data, "one"))
    used = [
        grant(resource, ["consume"], ["*"])
        for resource in ("datasets", "inferenceservices", "auditprocedures")
    ]
    made = [grant(resource, ["create"], ["acme"]) for resource in ("audits", "evaluations", "reports")]
    client = await platform.holder(*used, *made)
    body = {"account": "acme", "auditProcedure": requested["id"], "inferenceService": served["id"]}
    assert (await client.post("/audits", json=body)).status_code == 200
    assert len(await all_of(platform, "reports")) == 2


async def test_a_dataset_that_is_gone_is_said(platform: MemoryPlatform) -> None:
    data = (await platform.created("datasets", **dataset()))["id"]
    served = await platform.created(
        "inferenceservices", **service((await platform.created("models", **model()))["id"])
    )
    requested = await procedure(platform, (data, "one"))
    await platform.admin.put(f"/datasets/{data}/delete")
    body = {"account": "acme", "auditProcedure": requested["id"], "inferenceService": served["id"]}
    refused = await platform.admin.post("/audits", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "auditProcedure")
