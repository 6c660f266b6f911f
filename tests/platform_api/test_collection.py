"""The generic collection: one life of each kind, and queries."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from steelyard.api.kinds import KINDS
from steelyard.schema.entities import PLURALS, entity_of
from steelyard.schema.status import FOLLOWING
from steelyard.types import Json
from tests.platform_api.world import World, data_source, dataset, grant, model, service

Make = Callable[[World], Awaitable[Json]]


async def a_service(world: World) -> Json:
    return await world.created(
        "inferenceservices", **service((await world.created("models", **model()))["id"])
    )


async def an_evaluation(world: World) -> Json:
    data, served = await world.created("datasets", **dataset()), await a_service(world)
    session = {"inferenceService": served["id"], "replicas": 2}
    return await world.created("evaluations", dataset=data["id"], inferenceSession=session)


async def a_report(world: World) -> Json:
    return await world.created("reports", rubric="r", evaluation=(await an_evaluation(world))["id"])


async def a_procedure(world: World) -> Json:
    data = await world.created("datasets", **dataset())
    return await world.created(
        "auditprocedures", name="p", requirements=[{"dataset": data["id"], "rubric": "r"}]
    )


async def an_audit(world: World) -> Json:
    procedure, served = await a_procedure(world), await a_service(world)
    return await world.created("audits", auditProcedure=procedure["id"], inferenceService=served["id"])


async def a_session(world: World) -> Json:
    made = await world.created("inferencesessions", inferenceService=(await a_service(world))["id"])
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


async def a_method(world: World, kind: str = "SafetyCase") -> Json:
    field = {"Measurement": "measurement", "SafetyCase": "safetyCase"}[kind]
    return await world.created("methods", **METHOD, output={"kind": kind, field: OUTPUTS[kind]})


async def an_analysis(world: World, kind: str) -> Json:
    """A measurement or a safety case about a service."""
    method, served = await a_method(world, kind), await a_service(world)
    data = await world.created("datasets", **dataset())
    return await world.created(
        PLURALS[kind],
        method=method["id"],
        scope={"inferenceService": served["id"]},
        inputs=[{"keyword": "data", "entity": data["id"]}],
        arguments=[{"keyword": "depth", "value": "3"}],
    )


async def a_pipeline(world: World) -> Json:
    method, data = await a_method(world), await world.created("datasets", **dataset())
    request = {
        "kind": "PipelineSafetyCaseRequest",
        "method": method["id"],
        "scope": {"inferenceService": "$(service)"},
        "inputs": [{"keyword": "data", "entity": data["id"]}],
    }
    nodes = {"case": {"name": "case", "request": request}}
    return await world.created(
        "pipelines", name="p", nodes=nodes, parameters={"service": {"keyword": "service"}}
    )


async def a_run(world: World) -> Json:
    made, served = await a_pipeline(world), await a_service(world)
    return await world.created(
        f"pipelines/{made['id']}/runs", pipeline=made["id"], arguments={"service": served["id"]}
    )


async def a_dataset_of_a_source(world: World) -> Json:
    source = await world.created("datasources", **data_source())
    return await world.created("datasets", name="d", dataSource=source["id"])


async def a_team(world: World) -> Json:
    made = await world.created("challenges")
    return await world.created(f"challenges/{made['id']}/teams", members={}, affiliations={})


async def a_submission(world: World) -> Json:
    """Submit a service for an approved team."""
    team, pipeline, served = await a_team(world), await a_pipeline(world), await a_service(world)
    challenge = team["challenge"]
    await world.admin.post(f"/challenges/{challenge}/teams/{team['id']}/approve")
    task = await world.created(
        f"challenges/{challenge}/tasks",
        challenge=challenge,
        name="easy",
        assessment=pipeline["id"],
        submissionStructure={"pipelineKeyword": "service"},
        rules={"executionEnvironment": {"choices": {"small": {"cpu": "1", "memory": "1Gi"}}}},
    )
    submitted = {"id": served["id"], "kind": "InferenceService"}
    path = f"challenges/{challenge}/tasks/{task['id']}/submissions"
    return await world.created(path, team=team["id"], submission=submitted)


MAKE: dict[str, Make] = {
    "DataSource": lambda world: world.created("datasources", **data_source()),
    "Dataset": lambda world: world.created("datasets", **dataset()),
    "Module": lambda world: world.created("modules", name="m", artifacts=dataset()["artifacts"]),
    "OCIArtifact": lambda world: world.created("artifacts"),
    "Model": lambda world: world.created("models", **model()),
    "InferenceService": a_service,
    "InferenceSession": a_session,
    "Evaluation": an_evaluation,
    "Report": a_report,
    "AuditProcedure": a_procedure,
    "Audit": an_audit,
    "Method": a_method,
    "Measurement": lambda world: an_analysis(world, "Measurement"),
    "SafetyCase": lambda world: an_analysis(world, "SafetyCase"),
    "Family": lambda world: world.created("families", memberKind="Dataset"),
    "UseCase": lambda world: world.created("usecases", documentation={"title": "Use"}),
    "Hazard": lambda world: world.created("hazards"),
    "Pipeline": a_pipeline,
    "PipelineRun": a_run,
    "Challenge": lambda world: world.created("challenges"),
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
async def test_the_life_of_each_kind(world: World, kind: str) -> None:
    made = await MAKE[kind](world)
    path = f"/{PATHS[kind]}/{made['id']}"
    assert entity_of(made).kind == made["kind"] == kind
    assert (made["account"], made["status"]) == ("acme", FIRST.get(kind, "Created"))
    assert (await world.admin.get(path)).json() == made

    labels = await world.admin.patch(f"{path}/labels", json={"labels": {"team": "blue", "x": "1"}})
    assert labels.json() == {"labels": {"team": "blue", "x": "1"}}
    await world.admin.patch(f"{path}/labels", json={"labels": {"x": None}})
    assert (await world.admin.get(path)).json()["labels"] == {"team": "blue"}

    nothing = {"schemaVersion": "0.1", "entity": made["id"]}
    assert (await world.admin.get(f"{path}/documentation")).json() == nothing
    text = {"title": "T", "summary": "S"}
    said = await world.admin.patch(f"{path}/documentation", json={"documentation": text})
    assert said.json() == {**text, **nothing} == (await world.admin.get(f"{path}/documentation")).json()
    said = await world.admin.patch(f"{path}/documentation", json={"documentation": {"title": None}})
    assert said.json() == {"summary": "S", **nothing}

    listed = await world.admin.get(f"/{PATHS[kind]}", params={"labels": '{"team": "blue"}'})
    assert [entity["id"] for entity in listed.json()] == [made["id"]]
    # What has started workflows ends them; a repeat finds nothing to end.
    ended = {"message": "1 running workflow ended with it"} if kind in FOLLOWING else {}
    for message in (ended, {}):
        deleted = await world.admin.put(f"{path}/delete")
        assert deleted.json() == message | {"status": "Deleted", "reason": "DeleteCommand"}
    assert (await world.admin.get(path)).json()["status"] == "Deleted"
    assert (await world.admin.patch(f"{path}/labels", json={"labels": {}})).status_code in {200, 409}


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS if kind.workflow])
async def test_a_workflow_is_terminated_once(world: World, kind: str) -> None:
    # A dataset that is uploaded has no workflow.
    made = await (a_dataset_of_a_source if kind == "Dataset" else MAKE[kind])(world)
    path = f"/{PLURALS[kind]}/{made['id']}"
    assert (await world.admin.put(f"{path}/terminate")).json() == {
        "status": "Terminated",
        "reason": "TerminateCommand",
    }
    await world.admin.put(f"{path}/delete")
    late = await world.admin.put(f"{path}/terminate")
    assert (late.status_code, late.json()["reason"]) == (409, "Conflict")


async def test_who_deletes_what_is_used_is_told_by_what(world: World) -> None:
    made = await an_evaluation(world)
    data, used = made["dataset"], made["inferenceSession"]["inferenceService"]
    stranger = await world.holder(grant("datasets", ["delete"], ["acme"]))
    assert "message" not in (await stranger.put(f"/datasets/{data}/delete")).json(), "what it may not see"
    answer = (await world.admin.put(f"/inferenceservices/{used['id']}/delete")).json()
    assert answer["status"] == "Deleted"
    assert answer["message"] == (
        f"InferenceService {used['id']} is used by 1 evaluation, of which 1 has not ended: {made['id']}"
    )
    answer = (await world.admin.put(f"/models/{used['model']['id']}/delete")).json()
    assert "message" not in answer, "its service is deleted"
    await world.created("reports", rubric="r", evaluation=made["id"])
    await world.says("Evaluation", made["id"], "Complete")
    assert "1 report" in (await world.admin.put(f"/evaluations/{made['id']}/delete")).json()["message"]


async def test_who_deletes_a_running_workflow_is_told_that_it_is_stopped(world: World) -> None:
    waiting, running = await an_evaluation(world), await an_evaluation(world)
    await world.says("Evaluation", running["id"], "Admitted")
    answer = (await world.admin.put(f"/evaluations/{running['id']}/delete")).json()
    assert answer["message"] == f"Evaluation {running['id']} was running, and is being stopped"
    assert "message" not in (await world.admin.put(f"/evaluations/{waiting['id']}/delete")).json()
    # Only a workflow runs: a dataset has none, whatever its status.
    data = (await world.admin.put(f"/datasets/{waiting['dataset']}/delete")).json()
    assert "message" not in data


async def test_who_deletes_what_an_analysis_uses_is_told_too(world: World) -> None:
    case = await an_analysis(world, "SafetyCase")
    used = {"methods": case["method"]["id"], "datasets": case["inputs"][0]["entity"]}
    for resource, id in used.items():
        answer = (await world.admin.put(f"/{resource}/{id}/delete")).json()
        assert f"is used by 1 safetycase, of which 1 has not ended: {case['id']}" in answer["message"]


async def test_what_is_complete_is_not_terminated(world: World) -> None:
    made = await an_evaluation(world)
    await world.says("Evaluation", made["id"], "Complete")
    late = await world.admin.put(f"/evaluations/{made['id']}/terminate")
    assert (late.status_code, late.json()["reason"]) == (409, "Conflict")
    assert (await world.admin.get(f"/evaluations/{made['id']}")).json()["status"] == "Complete"


async def test_queries(world: World) -> None:
    made = [await world.created("models", **{**model(), "name": f"m{number % 2}"}) for number in range(5)]
    ids = [entity["id"] for entity in made]
    after = json.dumps([made[1]["creationTime"], ids[1]])
    everything = await world.admin.get("/models")
    assert everything.headers["content-type"] == "application/json"
    assert [entity["id"] for entity in everything.json()] == ids
    for params, expected in (
        ({"name": "m1"}, ids[1::2]),
        ({"name": "m1", "id": ids[1]}, ids[1:2]),
        ({"name": ""}, ids),
        ({"status": "Ready"}, []),
        ({"account": "nobody"}, []),
        ({"query": '{"status": ["Created", "Ready"], "name": "m0"}'}, ids[::2]),
        ({"query": json.dumps([{"id": ids[0]}, {"name": "m1"}])}, [ids[0], *ids[1::2]]),
        ({"orderBy": "creationTime", "order": "descending", "limit": "2"}, ids[:-3:-1]),
        ({"orderBy": "creationTime", "after": after, "limit": "2"}, ids[2:4]),
    ):
        listed = await world.admin.get("/models", params=params)
        assert [entity["id"] for entity in listed.json()] == expected, params
        assert listed.headers.get("steelyard-more") == (
            "true" if "limit" in params and expected != ids[4:] else None
        )


async def test_many_who_edit_at_once_all_see_their_own_edit(world: World) -> None:
    made = await world.created("models", **model())

    async def edit(number: int) -> None:
        path, pair = f"/models/{made['id']}", {f"k{number}": str(number)}
        answer = await world.admin.patch(f"{path}/labels", json={"labels": pair})
        assert pair.items() <= answer.json()["labels"].items()
        assert pair.items() <= (await world.admin.get(path)).json()["labels"].items()

    await asyncio.gather(*(edit(number) for number in range(20)))
    assert len((await world.admin.get(f"/models/{made['id']}")).json()["labels"]) == 20


async def used_by(world: World, resource: str, entity: Json) -> str:
    answer = await world.admin.put(f"/{resource}/{entity['id']}/delete")
    assert answer.status_code == 200, answer.text
    return str(answer.json().get("message", ""))


async def test_every_kind_of_use_is_told(world: World) -> None:
    """Dependents are named even if no filter selects them: a report's modules, a service's mounts, a baseline."""
    files = dataset()["artifacts"]
    data, module = (
        await world.created("datasets", **dataset()),
        await world.created("modules", name="m", artifacts=files),
    )
    mounts = [
        {"kind": "Data", "name": entity["kind"].lower(), "mountPath": f"/{entity['kind']}",
         "data": {"source": {"kind": entity["kind"], "id": entity["id"]}}}
        for entity in (data, module)
    ]  # fmt: skip
    fields = service()
    fields["runner"]["volumeMounts"] = mounts
    mounting = await world.created("inferenceservices", **fields)
    evaluation = await an_evaluation(world)
    report = await world.created("reports", rubric="r", evaluation=evaluation["id"], modules=[module["id"]])
    about = evaluation["inferenceSession"]["inferenceService"]["id"]
    procedure = await world.created(
        "auditprocedures", name="p", requirements=[{"dataset": data["id"], "rubric": "r"}]
    )
    first = await world.created("audits", auditProcedure=procedure["id"], inferenceService=about)
    await world.says("Audit", first["id"], "Complete")
    second = await world.created(
        "audits", auditProcedure=procedure["id"], inferenceService=about, baseline=first["id"]
    )
    made = second["metadata"]["preconditions"][0]["id"]

    assert await used_by(world, "audits", first) == (
        f"Audit {first['id']} is used by 1 audit, of which 1 has not ended: {second['id']}"
    )
    assert second["id"] in await used_by(world, "reports", {"id": made})
    of_module = await used_by(world, "modules", module)
    assert report["id"] in of_module
    assert f"1 inferenceservice, of which 1 has not ended: {mounting['id']}" in of_module
    of_data = await used_by(world, "datasets", data)
    assert procedure["id"] in of_data
    assert mounting["id"] in of_data


async def test_whose_use_may_not_be_seen_is_not_told(world: World) -> None:
    evaluation = await an_evaluation(world)
    await world.created("reports", rubric="r", evaluation=evaluation["id"])
    blind = await world.holder(grant("evaluations", ["delete"], ["acme"]))
    assert "message" not in (await blind.put(f"/evaluations/{evaluation['id']}/delete")).json()
