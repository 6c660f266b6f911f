"""Pipelines: graphs of requests, their placeholders, and runs that create all workflows or none."""

import tracemalloc
from typing import Any

import pytest

from steelyard_common.types import Json
from tests.platform_api.memory_platform import MemoryPlatform, dataset, grant
from tests.platform_api.test_collection import METHOD, OUTPUTS, a_service


async def methods(platform: MemoryPlatform) -> tuple[str, str]:
    """A method that measures an evaluation, and one that reports the measurement; their ids."""
    scope = {"scope": "Evaluation", "parameters": []}
    measuring = await platform.created(
        "methods",
        **{**METHOD, **scope, "inputs": [{"kind": "Evaluation", "keyword": "outputs"}]},
        output={"kind": "Measurement", "measurement": OUTPUTS["Measurement"]},
    )
    reporting = await platform.created(
        "methods",
        **{**METHOD, **scope, "inputs": [{"kind": "Measurement", "keyword": "numbers"}]},
        output={"kind": "SafetyCase", "safetyCase": OUTPUTS["SafetyCase"]},
    )
    return measuring["id"], reporting["id"]


def nodes(measuring: str, reporting: str) -> Json:
    scope = {"evaluation": "$(ask.id)", "dataset": "$(data)", "inferenceService": "$(service)"}
    requests = {
        "report": {
            "kind": "PipelineSafetyCaseRequest",
            "method": reporting,
            "scope": scope,
            "inputs": [{"keyword": "numbers", "entity": "$(measure)"}],
        },
        "measure": {
            "kind": "PipelineMeasurementRequest",
            "method": measuring,
            "scope": scope,
            "inputs": [{"keyword": "outputs", "entity": "$(ask)"}],
        },
        "ask": {
            "kind": "PipelineEvaluationRequest",
            "dataset": "$(data)",
            "inferenceSession": {"inferenceService": "$(service)"},
        },
    }
    return {name: {"name": name, "request": request} for name, request in requests.items()}


PARAMETERS = {
    "data": {"keyword": "data"},
    "service": {"keyword": "service"},
    "replicas": {"keyword": "replicas", "destination": "ask.inferenceSession.replicas"},
}


async def a_graph(platform: MemoryPlatform) -> Json:
    return await platform.created(
        "pipelines", name="p", nodes=nodes(*await methods(platform)), parameters=PARAMETERS
    )


async def arguments(platform: MemoryPlatform) -> Json:
    data = await platform.created("datasets", **dataset())
    return {"data": data["id"], "service": (await a_service(platform))["id"], "replicas": 3}


async def run(platform: MemoryPlatform, pipeline: Json, given: Json) -> Any:
    body = {"account": "acme", "pipeline": pipeline["id"], "arguments": given}
    return await platform.admin.post(f"/pipelines/{pipeline['id']}/runs", json=body)


async def test_a_run_creates_a_workflow_for_each_node_with_the_ids_of_the_others(
    platform: MemoryPlatform,
) -> None:
    pipeline, given = await a_graph(platform), await arguments(platform)
    made = (await run(platform, pipeline, given)).json()
    assert made["workflows"].keys() == pipeline["nodes"].keys()
    ids = {node: workflow["id"] for node, workflow in made["workflows"].items()}
    workflows = (await platform.admin.get(f"/pipelines/runs/{made['id']}/workflows")).json()
    assert {node: workflow["id"] for node, workflow in workflows.items()} == ids
    assert workflows["ask"]["dataset"] == given["data"]
    assert workflows["ask"]["inferenceSession"]["replicas"] == 3
    assert workflows["measure"]["inputs"] == [{"keyword": "outputs", "entity": ids["ask"]}]
    assert workflows["report"]["inputs"] == [{"keyword": "numbers", "entity": ids["measure"]}]
    assert workflows["report"]["scope"]["evaluation"] == ids["ask"]
    listed = (await platform.admin.get("/pipelines/runs", params={"pipeline": pipeline["id"]})).json()
    assert [entity["id"] for entity in listed] == [made["id"]]


async def test_the_status_of_a_run_follows_from_its_workflows(platform: MemoryPlatform) -> None:
    pipeline = await a_graph(platform)
    made = (await run(platform, pipeline, await arguments(platform))).json()

    async def status() -> Json:
        answer: Json = (await platform.admin.get(f"/pipelines/runs/{made['id']}/status")).json()
        return answer

    before = await status()
    assert (before["status"], {node["status"] for node in before["nodes"].values()}) == (
        "Created",
        {"Created"},
    )
    expected = (("ask", "Admitted"), ("measure", "Admitted"), ("report", "Complete"))
    for node, overall in expected:
        workflow = made["workflows"][node]
        await platform.says(workflow["kind"], workflow["id"], "Complete")
        assert (await status())["status"] == overall
        assert (await status())["nodes"][node]["status"] == "Complete"


async def test_a_failed_workflow_fails_the_run(platform: MemoryPlatform) -> None:
    made = (await run(platform, await a_graph(platform), await arguments(platform))).json()
    workflow = made["workflows"]["ask"]
    await platform.says(workflow["kind"], workflow["id"], "Failed", reason="OutputInvalid")
    status = (await platform.admin.get(f"/pipelines/runs/{made['id']}/status")).json()
    # It ends when all have ended; until then its message says what has failed.
    assert (status["status"], status["nodes"]["ask"]["reason"]) == ("Admitted", "OutputInvalid")
    assert (status["reason"], status["message"]) == ("FailedDependency", "the node ask is Failed")
    for name in ("measure", "report"):
        workflow = made["workflows"][name]
        await platform.says(workflow["kind"], workflow["id"], "Failed", reason="FailedDependency")
    status = (await platform.admin.get(f"/pipelines/runs/{made['id']}/status")).json()
    assert (status["status"], status["message"]) == ("Failed", "the node ask is Failed")


BAD_GRAPHS: dict[str, tuple[Json, str]] = {
    "a cycle": ({"ask": {"dataset": "$(report)"}}, "wait for each other"),
    "an unknown name": ({"ask": {"dataset": "$(nobody)"}}, "$(nobody)"),
}


@pytest.mark.parametrize(("changes", "named"), BAD_GRAPHS.values(), ids=BAD_GRAPHS)
async def test_a_graph_that_cannot_run_is_refused_when_it_is_made(
    platform: MemoryPlatform, changes: Json, named: str
) -> None:
    graph = nodes(*await methods(platform))
    for name, change in changes.items():
        graph[name]["request"] |= change
    body = {"account": "acme", "name": "p", "nodes": graph, "parameters": PARAMETERS}
    refused = await platform.admin.post("/pipelines", json=body)
    assert refused.status_code == 422
    assert named in refused.json()["detail"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"data": None}, "arguments.data"),
        ({"more": "x"}, "arguments.more"),
        ({"service": 3}, "arguments.service"),
        ({"data": "0" * 32}, "nodes.ask.request.dataset"),
        ({"replicas": 0}, "nodes.ask.request.inferenceSession.replicas"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_and_nothing_is_created(
    platform: MemoryPlatform, changes: Json, field: str
) -> None:
    pipeline, given = await a_graph(platform), await arguments(platform)
    changed = {name: value for name, value in {**given, **changes}.items() if value is not None}
    refused = await run(platform, pipeline, changed)
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    for resource in ("pipelines/runs", "evaluations", "measurements", "safetycases"):
        assert (await platform.admin.get(f"/{resource}")).json() == []


async def test_a_run_takes_the_right_to_create_its_workflows(platform: MemoryPlatform) -> None:
    pipeline, given = await a_graph(platform), await arguments(platform)
    client = await platform.holder(
        grant("pipelineruns", ["create"], ["acme"]), grant("*", ["consume"], ["acme"])
    )
    body = {"account": "acme", "pipeline": pipeline["id"], "arguments": given}
    refused = await client.post(f"/pipelines/{pipeline['id']}/runs", json=body)
    assert refused.status_code == 403
    assert "evaluations/create" in refused.json()["detail"]


async def test_a_workflow_that_the_caller_may_not_get_shows_its_status_alone(
    platform: MemoryPlatform,
) -> None:
    made = (await run(platform, await a_graph(platform), await arguments(platform))).json()
    reader = await platform.holder(
        grant("pipelineruns", ["get"], ["acme"]), grant("evaluations", ["get"], ["acme"])
    )
    path = f"/pipelines/runs/{made['id']}"

    async def status() -> Json:
        answer: Json = (await reader.get(f"{path}/status")).json()
        return answer

    before = await status()
    assert before["status"] == "Created"
    assert {node["status"] for node in before["nodes"].values()} == {"Created"}
    for workflow in made["workflows"].values():
        await platform.says(workflow["kind"], workflow["id"], "Failed", reason="Secret")
    after = await status()
    assert "Secret" not in after["message"]
    assert (after["status"], after["nodes"]["ask"]) == ("Failed", {"status": "Failed", "reason": "Secret"})
    assert after["nodes"]["measure"] == {"status": "Failed"}
    assert (await reader.get(f"{path}/workflows")).json().keys() == {"ask"}


async def test_a_run_that_is_terminated_ends_its_workflows(platform: MemoryPlatform) -> None:
    made = (await run(platform, await a_graph(platform), await arguments(platform))).json()
    path = f"/pipelines/runs/{made['id']}"
    await platform.says("Evaluation", made["workflows"]["ask"]["id"], "Complete")
    for message in ("2 running workflows ended with it", None):  # the second is a repeat
        ended = await platform.admin.put(f"{path}/terminate")
        assert (ended.status_code, ended.json()["status"]) == (200, "Terminated"), ended.text
        assert ended.json().get("message") == message
    status = (await platform.admin.get(f"{path}/status")).json()
    assert {node: state["status"] for node, state in status["nodes"].items()} == {
        "ask": "Complete",
        "measure": "Terminated",
        "report": "Terminated",
    }
    assert (status["status"], status["reason"]) == ("Terminated", "TerminateCommand")


async def test_a_run_that_is_over_is_not_terminated(platform: MemoryPlatform) -> None:
    made = (await run(platform, await a_graph(platform), await arguments(platform))).json()
    for workflow in made["workflows"].values():
        await platform.says(workflow["kind"], workflow["id"], "Complete")
    refused = await platform.admin.put(f"/pipelines/runs/{made['id']}/terminate")
    assert refused.status_code == 409
    assert (
        refused.json()["detail"] == f"status: PipelineRun {made['id']} is Complete: there is nothing to end"
    )


async def test_a_deleted_run_stops_what_it_has_started_and_says_so(platform: MemoryPlatform) -> None:
    made = (await run(platform, await a_graph(platform), await arguments(platform))).json()
    deleted = (await platform.admin.put(f"/pipelines/runs/{made['id']}/delete")).json()
    assert (deleted["status"], deleted["message"]) == ("Deleted", "3 running workflows ended with it")
    for workflow in made["workflows"].values():
        assert (await platform.settled(workflow["kind"], workflow["id"]))["status"] == "Terminated"


@pytest.mark.parametrize("end", ["terminate", "delete"])
async def test_a_run_is_ended_with_all_of_its_workflows_or_with_none(
    platform: MemoryPlatform, end: str
) -> None:
    made = (await run(platform, await a_graph(platform), await arguments(platform))).json()
    client = await platform.holder(
        grant("pipelineruns", ["*"], ["acme"]), grant("evaluations", ["terminate"], ["acme"])
    )
    refused = await client.put(f"/pipelines/runs/{made['id']}/{end}")
    assert refused.status_code == 403
    assert "lacks safetycases/terminate" in refused.text or "lacks measurements/terminate" in refused.text
    stale = {"If-Match": "0" * 32}
    assert (await platform.admin.put(f"/pipelines/runs/{made['id']}/{end}", headers=stale)).status_code == 409
    status = (await platform.admin.get(f"/pipelines/runs/{made['id']}/status")).json()
    assert {node["status"] for node in status["nodes"].values()} == {"Created"}


@pytest.mark.parametrize("nodes", [1, 20])
async def test_placeholders_that_would_multiply_an_argument_are_refused_before_they_do(
    platform: MemoryPlatform, nodes: int
) -> None:
    number = 60_000 // nodes
    graph = {
        f"n{node}": {
            "name": f"n{node}",
            "request": {
                "kind": "PipelineMeasurementRequest",
                "method": "m",
                "arguments": [{"keyword": "a", "value": "$(k)" * number}],
            },
        }
        for node in range(nodes)
    }
    pipeline = await platform.created("pipelines", name="p", nodes=graph, parameters={"k": {"keyword": "k"}})
    tracemalloc.start()
    try:
        response = await run(platform, pipeline, {"k": "x" * 30_000})
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert response.status_code == 413, response.text
    assert response.json()["detail"].startswith("nodes.n")
    assert "524288 are allowed" in response.json()["detail"]
