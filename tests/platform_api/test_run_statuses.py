"""The status of a run and of a submission is stored: it follows their workflows, and queries find it."""

from steelyard.kube.memory import MemoryCluster
from steelyard.services.reaper.reaper import reap
from steelyard.types import Json
from tests.platform_api.test_backup import MONTH, forgotten
from tests.platform_api.test_collection import a_service, a_submission
from tests.platform_api.test_pipelines import run
from tests.platform_api.test_quotas import orchestrated, until
from tests.platform_api.world import World, dataset


async def becomes(world: World, path: str, **wanted: str | None) -> Json:
    """Wait until an entity has these fields, and until a query by its status finds it."""
    collection, _, id = path.rpartition("/")

    async def shows() -> bool:
        entity = (await world.admin.get(path)).json()
        listed = (await world.admin.get(collection, params={"status": wanted["status"]})).json()
        has_all = all(entity.get(name) == value for name, value in wanted.items())
        return has_all and id in [match["id"] for match in listed]

    await until(shows)
    entity: Json = (await world.admin.get(path)).json()
    return entity


async def a_run(world: World) -> Json:
    """Run a pipeline of two evaluations, of which neither needs the other."""
    asked = {
        "kind": "PipelineEvaluationRequest",
        "dataset": "$(data)",
        "inferenceSession": {"inferenceService": (await a_service(world))["id"]},
    }
    nodes = {name: {"name": name, "request": asked} for name in ("first", "second")}
    parameters = {"data": {"keyword": "data"}}
    pipeline = await world.created("pipelines", name="p", nodes=nodes, parameters=parameters)
    data = await world.created("datasets", **dataset())
    return dict((await run(world, pipeline, {"data": data["id"]})).json())


async def test_a_run_follows_its_workflows(world: World) -> None:
    made = await a_run(world)
    path, ids = (
        f"/pipelines/runs/{made['id']}",
        {name: made["workflows"][name]["id"] for name in made["workflows"]},
    )
    async with orchestrated(world, MemoryCluster()):
        for node, status in (("first", "Admitted"), ("second", "Complete")):
            await world.says("Evaluation", ids[node], "Complete")
            await becomes(world, path, status=status, reason=None, message=None)
        assert (await world.admin.get(f"{path}/status")).json()["status"] == "Complete"
        # Results may be deleted later; the run has succeeded all the same.
        await world.admin.put(f"/evaluations/{ids['first']}/delete")
        await becomes(world, f"/evaluations/{ids['first']}", status="Deleted")
        assert (await world.admin.get(f"{path}/status")).json()["status"] == "Complete"
    assert (await world.admin.get(path)).json()["status"] == "Complete"


async def test_a_run_says_what_has_failed_and_fails_when_all_have_ended(world: World) -> None:
    made = await a_run(world)
    path, why = (
        f"/pipelines/runs/{made['id']}",
        {"reason": "FailedDependency", "message": "the node second is Failed"},
    )
    async with orchestrated(world, MemoryCluster()):
        await world.says("Evaluation", made["workflows"]["second"]["id"], "Failed", reason="OutputInvalid")
        await becomes(world, path, status="Admitted", **why)
        await world.says("Evaluation", made["workflows"]["first"]["id"], "Complete")
        await becomes(world, path, status="Failed", **why)


async def test_a_submission_ends_in_error_with_its_run(world: World) -> None:
    made = await a_submission(world)
    path = f"/pipelines/runs/{made['pipelineRun']}"
    case = (await world.admin.get(path)).json()["workflows"]["case"]
    await world.says("SafetyCase", case["id"], "Failed", reason="Secret")
    async with orchestrated(world, MemoryCluster()):
        why = {"reason": "FailedDependency", "message": "the node case is Failed"}
        await becomes(world, path, status="Failed", **why)
        await becomes(world, f"/submissions/{made['id']}", status="Error", **why)
        answer = await world.admin.post(f"/submissions/{made['id']}/terminate")
        assert (answer.status_code, answer.json()["status"]) == (200, "Error")


async def test_what_changed_while_nobody_led_is_made_up_for(world: World) -> None:
    made = await a_submission(world)
    run = (await world.admin.get(f"/pipelines/runs/{made['pipelineRun']}")).json()
    await world.says("SafetyCase", run["workflows"]["case"]["id"], "Complete")
    async with orchestrated(world, MemoryCluster()):
        await becomes(world, f"/submissions/{made['id']}", status="Complete")


async def test_who_terminates_is_answered_whoever_is_first(world: World) -> None:
    """The orchestrator may see the ends of the workflows before the run's own end is written."""
    made = [await a_run(world) for _ in range(4)]
    async with orchestrated(world, MemoryCluster()):
        for run in made:
            path = f"/pipelines/runs/{run['id']}"
            answer = await world.admin.put(f"{path}/terminate")
            assert (answer.status_code, answer.json()["status"]) == (200, "Terminated"), answer.text
            await becomes(world, path, status="Terminated", reason="TerminateCommand")


async def test_a_run_of_which_a_workflow_was_forgotten_has_ended(world: World) -> None:
    made = await a_submission(world)
    case = (await world.admin.get(f"/pipelines/runs/{made['pipelineRun']}")).json()["workflows"]["case"]["id"]
    await world.admin.put(f"/safetycases/{case}/delete")
    assert await reap(world.engines.log, world.engines.clock() + MONTH) == 1
    await forgotten(world, case)
    async with orchestrated(world, MemoryCluster()):
        await becomes(world, f"/submissions/{made['id']}", status="Terminated")
