"""The generic collection: one life of each kind, and queries."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import get_origin

import pytest

from steelyard.api.http.routing import Route
from steelyard.api.kinds import KINDS
from steelyard.api.routes import routes
from steelyard_common.types import Json
from steelyard_schema.entities import PLURALS, parse_entity
from steelyard_schema.status import FOLLOWING
from tests.platform_api.memory_platform import MemoryPlatform, data_source, dataset, grant, model, service

Make = Callable[[MemoryPlatform], Awaitable[Json]]


async def a_service(platform: MemoryPlatform) -> Json:
    return await platform.created(
        "inferenceservices", **service((await platform.created("models", **model()))["id"])
    )


async def an_evaluation(platform: MemoryPlatform) -> Json:
    data, served = await platform.created("datasets", **dataset()), await a_service(platform)
    session = {"inferenceService": served["id"], "replicas": 2}
    return await platform.created("evaluations", dataset=data["id"], inferenceSession=session)


async def a_report(platform: MemoryPlatform) -> Json:
    return await platform.created("reports", rubric="r", evaluation=(await an_evaluation(platform))["id"])


async def a_procedure(platform: MemoryPlatform) -> Json:
    data = await platform.created("datasets", **dataset())
    return await platform.created(
        "auditprocedures", name="p", requirements=[{"dataset": data["id"], "rubric": "r"}]
    )


async def an_audit(platform: MemoryPlatform) -> Json:
    procedure, served = await a_procedure(platform), await a_service(platform)
    return await platform.created("audits", auditProcedure=procedure["id"], inferenceService=served["id"])


async def a_session(platform: MemoryPlatform) -> Json:
    made = await platform.created("inferencesessions", inferenceService=(await a_service(platform))["id"])
    session: Json = made["inferencesession"]
    return session


METHOD = {
    "name": "counting",
    "scope": "InferenceService",
    "implementation": {"kind": "PythonFunction", "pythonFunction": {"fullyQualifiedName": "a.count"}},
    "parameters": [{"keyword": "depth"}],
    "inputs": [{"kind": "Dataset", "keyword": "data"}],
}
OUTPUTS = {
    "Measurement": {"name": "n", "level": "Dataset", "schema": {"arrowSchema": "AAAA"}},
    "SafetyCase": {"name": "case"},
}


async def a_method(platform: MemoryPlatform, kind: str = "SafetyCase") -> Json:
    field = {"Measurement": "measurement", "SafetyCase": "safetyCase"}[kind]
    return await platform.created("methods", **METHOD, output={"kind": kind, field: OUTPUTS[kind]})


async def an_analysis(platform: MemoryPlatform, kind: str) -> Json:
    """A measurement or a safety case about a service."""
    method, served = await a_method(platform, kind), await a_service(platform)
    data = await platform.created("datasets", **dataset())
    return await platform.created(
        PLURALS[kind],
        method=method["id"],
        scope={"inferenceService": served["id"]},
        inputs=[{"keyword": "data", "entity": data["id"]}],
        arguments=[{"keyword": "depth", "value": "3"}],
    )


async def a_pipeline(platform: MemoryPlatform) -> Json:
    method, data = await a_method(platform), await platform.created("datasets", **dataset())
    request = {
        "kind": "PipelineSafetyCaseRequest",
        "method": method["id"],
        "scope": {"inferenceService": "$(service)"},
        "inputs": [{"keyword": "data", "entity": data["id"]}],
    }
    nodes = {"case": {"name": "case", "request": request}}
    return await platform.created(
        "pipelines", name="p", nodes=nodes, parameters={"service": {"keyword": "service"}}
    )


async def a_run(platform: MemoryPlatform) -> Json:
    made, served = await a_pipeline(platform), await a_service(platform)
    return await platform.created(
        f"pipelines/{made['id']}/runs", pipeline=made["id"], arguments={"service": served["id"]}
    )


async def a_dataset_of_a_source(platform: MemoryPlatform) -> Json:
    source = await platform.created("datasources", **data_source())
    return await platform.created("datasets", name="d", dataSource=source["id"])


async def a_team(platform: MemoryPlatform) -> Json:
    made = await platform.created("challenges")
    return await platform.created(f"challenges/{made['id']}/teams", members={}, affiliations={})


async def a_submission(platform: MemoryPlatform) -> Json:
    """Submit a service for an approved team."""
    team, pipeline, served = await a_team(platform), await a_pipeline(platform), await a_service(platform)
    challenge = team["challenge"]
    await platform.admin.post(f"/challenges/{challenge}/teams/{team['id']}/approve")
    task = await platform.created(
        f"challenges/{challenge}/tasks",
        challenge=challenge,
        name="easy",
        assessment=pipeline["id"],
        submissionStructure={"pipelineKeyword": "service"},
        rules={"executionEnvironment": {"choices": {"small": {"cpu": "1", "memory": "1Gi"}}}},
    )
    submitted = {"id": served["id"], "kind": "InferenceService"}
    path = f"challenges/{challenge}/tasks/{task['id']}/submissions"
    return await platform.created(path, team=team["id"], submission=submitted)


MAKE: dict[str, Make] = {
    "DataSource": lambda platform: platform.created("datasources", **data_source()),
    "Dataset": lambda platform: platform.created("datasets", **dataset()),
    "Module": lambda platform: platform.created("modules", name="m", artifacts=dataset()["artifacts"]),
    "OCIArtifact": lambda platform: platform.created("artifacts"),
    "Model": lambda platform: platform.created("models", **model()),
    "InferenceService": a_service,
    "InferenceSession": a_session,
    "Evaluation": an_evaluation,
    "Report": a_report,
    "AuditProcedure": a_procedure,
    "Audit": an_audit,
    "Method": a_method,
    "Measurement": lambda platform: an_analysis(platform, "Measurement"),
    "SafetyCase": lambda platform: an_analysis(platform, "SafetyCase"),
    "Family": lambda platform: platform.created("families", memberKind="Dataset"),
    "UseCase": lambda platform: platform.created("usecases", documentation={"title": "Use"}),
    "Hazard": lambda platform: platform.created("hazards"),
    "Pipeline": a_pipeline,
    "PipelineRun": a_run,
    "Challenge": lambda platform: platform.created("challenges"),
    "Team": a_team,
    "Submission": a_submission,
}
READY = ("AuditProcedure", "Method", "Family", "UseCase", "Hazard", "Pipeline", "Challenge")
FIRST = {
    "Dataset": "WaitingForUpload",
    "Module": "WaitingForUpload",
    "OCIArtifact": "WaitingForUpload",
    "Team": "WaitingForApproval",
    **dict.fromkeys(READY, "Ready"),
}
PATHS = {kind.name: kind.path or PLURALS[kind.name] for kind in KINDS}


def test_every_kind_has_its_life_here() -> None:
    assert MAKE.keys() == PATHS.keys()


@pytest.mark.parametrize("kind", MAKE)
async def test_the_life_of_each_kind(platform: MemoryPlatform, kind: str) -> None:
    made = await MAKE[kind](platform)
    path = f"/{PATHS[kind]}/{made['id']}"
    assert parse_entity(made).kind == made["kind"] == kind
    assert (made["account"], made["status"]) == ("acme", FIRST.get(kind, "Created"))
    assert (await platform.admin.get(path)).json() == made

    labels = await platform.admin.patch(f"{path}/labels", json={"labels": {"team": "blue", "x": "1"}})
    assert labels.json() == {"labels": {"team": "blue", "x": "1"}}
    await platform.admin.patch(f"{path}/labels", json={"labels": {"x": None}})
    assert (await platform.admin.get(path)).json()["labels"] == {"team": "blue"}

    nothing = {"schemaVersion": "0.1", "entity": made["id"]}
    assert (await platform.admin.get(f"{path}/documentation")).json() == nothing
    text = {"title": "T", "summary": "S"}
    said = await platform.admin.patch(f"{path}/documentation", json={"documentation": text})
    assert said.json() == {**text, **nothing} == (await platform.admin.get(f"{path}/documentation")).json()
    said = await platform.admin.patch(f"{path}/documentation", json={"documentation": {"title": None}})
    assert said.json() == {"summary": "S", **nothing}

    listed = await platform.admin.get(f"/{PATHS[kind]}", params={"labels": '{"team": "blue"}'})
    assert [entity["id"] for entity in listed.json()] == [made["id"]]
    # What has started workflows ends them; a repeat finds nothing to end.
    ended = {"message": "1 running workflow ended with it"} if kind in FOLLOWING else {}
    for message in (ended, {}):
        deleted = await platform.admin.put(f"{path}/delete")
        assert deleted.json() == message | {"status": "Deleted", "reason": "DeleteCommand"}
    assert (await platform.admin.get(path)).json()["status"] == "Deleted"
    assert (await platform.admin.patch(f"{path}/labels", json={"labels": {}})).status_code in {200, 409}


@pytest.mark.parametrize(
    ("client", "seconds"), [({}, 30), ({"batchSize": 5}, 30), ({"requestTimeoutSeconds": 7}, 7)]
)
async def test_an_answer_has_the_time_that_the_request_or_dyff_says(
    platform: MemoryPlatform, client: Json, seconds: int
) -> None:
    made = await an_evaluation(platform)
    session = {"inferenceService": made["inferenceSession"]["inferenceService"]["id"]}
    fields = {"dataset": made["dataset"], "inferenceSession": session}
    again = await platform.created("evaluations", **fields, client=client)
    assert again["client"] == {**made["client"], **client, "requestTimeoutSeconds": seconds}


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS if kind.workflow])
async def test_a_workflow_is_terminated_once(platform: MemoryPlatform, kind: str) -> None:
    # A dataset that is uploaded has no workflow.
    made = await (a_dataset_of_a_source if kind == "Dataset" else MAKE[kind])(platform)
    path = f"/{PLURALS[kind]}/{made['id']}"
    assert (await platform.admin.put(f"{path}/terminate")).json() == {
        "status": "Terminated",
        "reason": "TerminateCommand",
    }
    await platform.admin.put(f"{path}/delete")
    late = await platform.admin.put(f"{path}/terminate")
    assert (late.status_code, late.json()["reason"]) == (409, "Conflict")


async def test_a_deletion_of_what_is_used_names_its_users(platform: MemoryPlatform) -> None:
    made = await an_evaluation(platform)
    data, used = made["dataset"], made["inferenceSession"]["inferenceService"]
    stranger = await platform.holder(grant("datasets", ["delete"], ["acme"]))
    assert "message" not in (await stranger.put(f"/datasets/{data}/delete")).json(), "what it may not see"
    answer = (await platform.admin.put(f"/inferenceservices/{used['id']}/delete")).json()
    assert answer["status"] == "Deleted"
    assert answer["message"] == (
        f"InferenceService {used['id']} is used by 1 evaluation, of which 1 has not ended: {made['id']}"
    )
    answer = (await platform.admin.put(f"/models/{used['model']['id']}/delete")).json()
    assert "message" not in answer, "its service is deleted"
    await platform.created("reports", rubric="r", evaluation=made["id"])
    await platform.says("Evaluation", made["id"], "Complete")
    assert "1 report" in (await platform.admin.put(f"/evaluations/{made['id']}/delete")).json()["message"]


async def test_a_deletion_of_a_running_workflow_says_that_it_is_stopped(platform: MemoryPlatform) -> None:
    waiting, running = await an_evaluation(platform), await an_evaluation(platform)
    await platform.says("Evaluation", running["id"], "Admitted")
    answer = (await platform.admin.put(f"/evaluations/{running['id']}/delete")).json()
    assert answer["message"] == f"Evaluation {running['id']} was running, and is being stopped"
    assert "message" not in (await platform.admin.put(f"/evaluations/{waiting['id']}/delete")).json()
    # Only a workflow runs: a dataset has none, whatever its status.
    data = (await platform.admin.put(f"/datasets/{waiting['dataset']}/delete")).json()
    assert "message" not in data


async def test_a_deletion_of_what_an_analysis_uses_names_it_too(platform: MemoryPlatform) -> None:
    case = await an_analysis(platform, "SafetyCase")
    used = {"methods": case["method"]["id"], "datasets": case["inputs"][0]["entity"]}
    for resource, id in used.items():
        answer = (await platform.admin.put(f"/{resource}/{id}/delete")).json()
        assert f"is used by 1 safetycase, of which 1 has not ended: {case['id']}" in answer["message"]


async def test_what_is_complete_is_not_terminated(platform: MemoryPlatform) -> None:
    made = await an_evaluation(platform)
    await platform.says("Evaluation", made["id"], "Complete")
    late = await platform.admin.put(f"/evaluations/{made['id']}/terminate")
    assert (late.status_code, late.json()["reason"]) == (409, "Conflict")
    assert (await platform.admin.get(f"/evaluations/{made['id']}")).json()["status"] == "Complete"


async def test_queries(platform: MemoryPlatform) -> None:
    made = [await platform.created("models", **{**model(), "name": f"m{number % 2}"}) for number in range(5)]
    ids = [entity["id"] for entity in made]
    after = json.dumps([made[1]["creationTime"], ids[1]])
    everything = await platform.admin.get("/models")
    assert everything.headers["content-type"] == "application/json"
    assert [entity["id"] for entity in everything.json()] == ids
    for params, expected in (
        ({"name": "m1"}, ids[1::2]),
        ({"name": "m1", "id": ids[1]}, ids[1:2]),
        ({"name": ""}, ids),
        ({"status": "Ready"}, []),
        ({"account": "nobody"}, []),
        ({"query": '{"status": ["Created", "Ready"], "name": "m0"}'}, ids[::2]),
        ({"query": json.dumps([{"id": ids[:2]}, {"name": "m1"}])}, ids[1:2]),
        ({"orderBy": "creationTime", "order": "descending", "limit": "2"}, ids[:-3:-1]),
        ({"orderBy": "creationTime", "after": after, "limit": "2"}, ids[2:4]),
    ):
        listed = await platform.admin.get("/models", params=params)
        assert [entity["id"] for entity in listed.json()] == expected, params
        assert listed.headers.get("steelyard-more") == (
            "true" if "limit" in params and expected != ids[4:] else None
        )


@pytest.mark.parametrize(
    "route",
    [route for route in routes() if route.method == "GET" and get_origin(route.answer) is list],
    ids=lambda route: route.path,
)
async def test_every_list_refuses_a_parameter_that_it_does_not_have(
    platform: MemoryPlatform, route: Route
) -> None:
    path = route.path.removeprefix("/v0").replace("{id}", "0" * 32)
    refused = await platform.admin.get(path, params={"labls": '{"tier": "gold"}'})
    assert (refused.status_code, refused.json()["field"]) == (422, "labls")
    assert (await platform.admin.get(path, params={"labls": ""})).status_code != 422


async def test_many_who_edit_at_once_all_see_their_own_edit(platform: MemoryPlatform) -> None:
    made = await platform.created("models", **model())

    async def edit(number: int) -> None:
        path, pair = f"/models/{made['id']}", {f"k{number}": str(number)}
        answer = await platform.admin.patch(f"{path}/labels", json={"labels": pair})
        assert pair.items() <= answer.json()["labels"].items()
        assert pair.items() <= (await platform.admin.get(path)).json()["labels"].items()

    await asyncio.gather(*(edit(number) for number in range(20)))
    assert len((await platform.admin.get(f"/models/{made['id']}")).json()["labels"]) == 20


async def used_by(platform: MemoryPlatform, resource: str, entity: Json) -> str:
    answer = await platform.admin.put(f"/{resource}/{entity['id']}/delete")
    assert answer.status_code == 200, answer.text
    return str(answer.json().get("message", ""))


async def test_every_kind_of_use_is_reported(platform: MemoryPlatform) -> None:
    """Dependents are named even if no filter selects them: a report's modules, a service's mounts, a baseline."""
    files = dataset()["artifacts"]
    data, module = (
        await platform.created("datasets", **dataset()),
        await platform.created("modules", name="m", artifacts=files),
    )
    mounts = [
        {"kind": "Data", "name": entity["kind"].lower(), "mountPath": f"/{entity['kind']}",
         "data": {"source": {"kind": entity["kind"], "id": entity["id"]}}}
        for entity in (data, module)
    ]  # fmt: skip
    fields = service()
    fields["runner"]["volumeMounts"] = mounts
    mounting = await platform.created("inferenceservices", **fields)
    evaluation = await an_evaluation(platform)
    report = await platform.created(
        "reports", rubric="r", evaluation=evaluation["id"], modules=[module["id"]]
    )
    about = evaluation["inferenceSession"]["inferenceService"]["id"]
    procedure = await platform.created(
        "auditprocedures", name="p", requirements=[{"dataset": data["id"], "rubric": "r"}]
    )
    first = await platform.created("audits", auditProcedure=procedure["id"], inferenceService=about)
    await platform.says("Audit", first["id"], "Complete")
    second = await platform.created(
        "audits", auditProcedure=procedure["id"], inferenceService=about, baseline=first["id"]
    )
    made = second["metadata"]["preconditions"][0]["id"]

    assert await used_by(platform, "audits", first) == (
        f"Audit {first['id']} is used by 1 audit, of which 1 has not ended: {second['id']}"
    )
    assert second["id"] in await used_by(platform, "reports", {"id": made})
    of_module = await used_by(platform, "modules", module)
    assert report["id"] in of_module
    assert f"1 inferenceservice, of which 1 has not ended: {mounting['id']}" in of_module
    of_data = await used_by(platform, "datasets", data)
    assert procedure["id"] in of_data
    assert mounting["id"] in of_data


async def test_whose_use_may_not_be_seen_is_not_told(platform: MemoryPlatform) -> None:
    evaluation = await an_evaluation(platform)
    await platform.created("reports", rubric="r", evaluation=evaluation["id"])
    blind = await platform.holder(grant("evaluations", ["delete"], ["acme"]))
    assert "message" not in (await blind.put(f"/evaluations/{evaluation['id']}/delete")).json()
