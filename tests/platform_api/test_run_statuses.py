"""The status of a run and of a submission is stored: it follows their workflows, and queries find it."""

from steelyard.services.reaper.reaper import reap
from steelyard_common.types import Json
from steelyard_kube.memory import MemoryCluster
from tests.platform_api.memory_platform import MemoryPlatform, dataset
from tests.platform_api.test_backup import MONTH, forgotten
from tests.platform_api.test_collection import a_service, a_submission
from tests.platform_api.test_pipelines import run
from tests.platform_api.test_quotas import orchestrated, until


async def becomes(platform: MemoryPlatform, path: str, **wanted: str | None) -> Json:
    """Wait until an entity has these fields, and until a query by its status finds it."""
    collection, _, id = path.rpartition("/")

    async def shows() -> bool:
        entity = (await platform.admin.get(path)).json()
        listed = (await platform.admin.get(collection, params={"status": wanted["status"]})).json()
        has_all = all(entity.get(name) == value for name, value in wanted.items())
        return has_all and id in [match["id"] for match in listed]

    await until(shows)
    entity: Json = (await platform.admin.get(path)).json()
    return entity


async def a_run(platform: MemoryPlatform) -> Json:
    """Run a pipeline of two independent evaluations."""
    asked = {
        "kind": "PipelineEvaluationRequest",
        "dataset": "$(data)",
        "inferenceSession": {"inferenceService": (await a_service(platform))["id"]},
    }
    nodes = {name: {"name": name, "request": asked} for name in ("first", "second")}
    parameters = {"data": {"keyword": "data"}}
    pipeline = await platform.created("pipelines", name="p", nodes=nodes, parameters=parameters)
    data = await platform.created("datasets", **dataset())
    return dict((await run(platform, pipeline, {"data": data["id"]})).json())


async def test_a_run_follows_its_workflows(platform: MemoryPlatform) -> None:
    made = await a_run(platform)
    path, ids = (
        f"/pipelines/runs/{made['id']}",
        {name: made["workflows"][name]["id"] for name in made["workflows"]},
    )
    async with orchestrated(platform, MemoryCluster()):
        for node, status in (("first", "Admitted"), ("second", "Complete")):
            await platform.says("Evaluation", ids[node], "Complete")
            await becomes(platform, path, status=status, reason=None, message=None)
        assert (await platform.admin.get(f"{path}/status")).json()["status"] == "Complete"
        # Results may be deleted later; the run has succeeded all the same.
        await platform.admin.put(f"/evaluations/{ids['first']}/delete")
        await becomes(platform, f"/evaluations/{ids['first']}", status="Deleted")
        assert (await platform.admin.get(f"{path}/status")).json()["status"] == "Complete"
    assert (await platform.admin.get(path)).json()["status"] == "Complete"


async def test_a_run_says_what_has_failed_and_fails_when_all_have_ended(platform: MemoryPlatform) -> None:
    made = await a_run(platform)
    path, why = (
        f"/pipelines/runs/{made['id']}",
        {"reason": "FailedDependency", "message": "the node second is Failed"},
    )
    async with orchestrated(platform, MemoryCluster()):
        await platform.says("Evaluation", made["workflows"]["second"]["id"], "Failed", reason="OutputInvalid")
        await becomes(platform, path, status="Admitted", **why)
        await platform.says("Evaluation", made["workflows"]["first"]["id"], "Complete")
        await becomes(platform, path, status="Failed", **why)


async def test_a_submission_ends_in_error_with_its_run(platform: MemoryPlatform) -> None:
    made = await a_submission(platform)
    path = f"/pipelines/runs/{made['pipelineRun']}"
    case = (await platform.admin.get(path)).json()["workflows"]["case"]
    await platform.says("SafetyCase", case["id"], "Failed", reason="Secret")
    async with orchestrated(platform, MemoryCluster()):
        why = {"reason": "FailedDependency", "message": "the node case is Failed"}
        await becomes(platform, path, status="Failed", **why)
        await becomes(platform, f"/submissions/{made['id']}", status="Error", **why)
        answer = await platform.admin.post(f"/submissions/{made['id']}/terminate")
        assert (answer.status_code, answer.json()["status"]) == (200, "Error")


async def test_what_changed_without_a_leader_is_made_up_for(platform: MemoryPlatform) -> None:
    made = await a_submission(platform)
    run = (await platform.admin.get(f"/pipelines/runs/{made['pipelineRun']}")).json()
    await platform.says("SafetyCase", run["workflows"]["case"]["id"], "Complete")
    async with orchestrated(platform, MemoryCluster()):
        await becomes(platform, f"/submissions/{made['id']}", status="Complete")


async def test_who_terminates_is_answered_whoever_is_first(platform: MemoryPlatform) -> None:
    """The orchestrator may see the ends of the workflows before the run's own end is written."""
    made = [await a_run(platform) for _ in range(4)]
    async with orchestrated(platform, MemoryCluster()):
        for run in made:
            path = f"/pipelines/runs/{run['id']}"
            answer = await platform.admin.put(f"{path}/terminate")
            assert (answer.status_code, answer.json()["status"]) == (200, "Terminated"), answer.text
            await becomes(platform, path, status="Terminated", reason="TerminateCommand")


async def test_a_run_of_which_a_workflow_was_forgotten_has_ended(platform: MemoryPlatform) -> None:
    made = await a_submission(platform)
    case = (await platform.admin.get(f"/pipelines/runs/{made['pipelineRun']}")).json()["workflows"]["case"][
        "id"
    ]
    await platform.admin.put(f"/safetycases/{case}/delete")
    assert await reap(platform.engines.log, platform.engines.clock() + MONTH) == 1
    await forgotten(platform, case)
    async with orchestrated(platform, MemoryCluster()):
        await becomes(platform, f"/submissions/{made['id']}", status="Terminated")
