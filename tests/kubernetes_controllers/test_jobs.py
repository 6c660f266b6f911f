"""Jobs: what their status says, which Pods they have, and how they end."""

from steelyard.kube.objects import finalizers_of, status_of
from steelyard.kube.resource import JOBS, PODS
from steelyard.types import Json
from tests.kubernetes_controllers.world import World, conditions, index_of, make_job, template, until

COMPLETE = [
    ("SuccessCriteriaMet", "True", "CompletionsReached"),
    ("Complete", "True", "CompletionsReached"),
]


def failed(reason: str) -> list[tuple[str, str, str]]:
    return [("FailureTarget", "True", reason), ("Failed", "True", reason)]


async def test_a_job_completes(world: World) -> None:
    await world.create(make_job(completions=3, parallelism=2))
    pods = await world.pods(2)
    assert all("batch.kubernetes.io/job-tracking" in finalizers_of(pod) for pod in pods)
    await world.status(JOBS, "demo", active=2, ready=0, terminating=0, uncountedTerminatedPods={})
    await world.run(pods[0])
    await world.status(JOBS, "demo", active=2, ready=1)
    await world.end(pods[0])
    await world.status(JOBS, "demo", succeeded=1, active=2, ready=0)
    for pod in await world.pods(2):
        await world.end(pod)
    status = await world.condition(JOBS, "demo", "Complete")
    assert conditions(status) == COMPLETE
    assert status["startTime"] <= status["completionTime"]
    fixed = {
        key: value
        for key, value in status.items()
        if key not in {"conditions", "startTime", "completionTime"}
    }
    assert fixed == {"succeeded": 3, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    assert not any(finalizers_of(pod) for pod in await world.all(PODS))


async def test_a_job_fails_beyond_its_limit(world: World) -> None:
    await world.create(make_job(completions=3, parallelism=3, backoffLimit=1))
    pods = await world.pods(3)
    await world.end(pods[0], 1)
    await world.status(JOBS, "demo", failed=1)
    for pod in (await world.pods(3))[:1]:
        await world.end(pod, 1)
    status = await world.condition(JOBS, "demo", "Failed")
    assert conditions(status) == failed("BackoffLimitExceeded")
    assert status["failed"] == 4, "those that were ended with it count"
    assert "completionTime" not in status
    assert not await world.active()


async def test_a_failed_pod_is_replaced(world: World) -> None:
    await world.create(make_job(backoffLimit=1))
    (pod,) = await world.pods(1)
    await world.end(pod, 1)

    async def another() -> bool:
        return any(other["metadata"]["uid"] != pod["metadata"]["uid"] for other in await world.active())

    await until(another, "another Pod")
    await world.end((await world.pods(1))[0])
    status = await world.condition(JOBS, "demo", "Complete")
    assert (status["succeeded"], status["failed"]) == (1, 1)


async def test_an_indexed_job_counts_its_indexes(world: World) -> None:
    await world.create(make_job(completions=4, parallelism=4, completionMode="Indexed"))
    pods = sorted(await world.pods(4), key=index_of)
    assert [index_of(pod) for pod in pods] == ["0", "1", "2", "3"]
    assert [pod["spec"]["hostname"] for pod in pods] == [f"demo-{number}" for number in range(4)]
    for number, text in ((0, "0"), (1, "0,1"), (3, "0,1,3")):
        await world.end(pods[number])
        await world.status(JOBS, "demo", completedIndexes=text)
    await world.end(pods[2])
    status = await world.condition(JOBS, "demo", "Complete")
    assert (status["completedIndexes"], status["succeeded"]) == ("0-3", 4)


async def test_an_index_fails_beyond_its_own_limit(world: World) -> None:
    spec: Json = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 0}
    job = make_job(**spec)
    del job["spec"]["backoffLimit"]
    await world.create(job)
    first, second = sorted(await world.pods(2), key=index_of)
    await world.end(first, 1)
    await world.status(JOBS, "demo", failedIndexes="0", failed=1)
    await world.end(second)
    status = await world.condition(JOBS, "demo", "Failed")
    assert conditions(status) == failed("FailedIndexes")
    assert (status["completedIndexes"], status["succeeded"]) == ("1", 1)


async def test_too_many_failed_indexes_end_a_job(world: World) -> None:
    job = make_job(
        completions=3, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=0, maxFailedIndexes=0
    )
    del job["spec"]["backoffLimit"]
    await world.create(job)
    pods = sorted(await world.pods(3), key=index_of)
    await world.end(pods[1], 1)
    status = await world.condition(JOBS, "demo", "Failed")
    assert conditions(status) == failed("MaxFailedIndexesExceeded")
    assert status["failedIndexes"] == "1"


async def test_a_policy_fails_a_job_at_once_and_another_ignores_a_failure(world: World) -> None:
    rules = [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    await world.create(make_job(backoffLimit=2, podFailurePolicy={"rules": rules}))
    (pod,) = await world.pods(1)
    await world.end(pod, 7)

    async def another() -> bool:
        return any(other["metadata"]["uid"] != pod["metadata"]["uid"] for other in await world.active())

    await until(another, "another Pod")
    assert not status_of(await world.get(JOBS, "demo")).get("failed")
    (pod,) = await world.pods(1)
    await world.end(pod, 42)
    status = await world.condition(JOBS, "demo", "Failed")
    assert conditions(status) == failed("PodFailurePolicy")
    message = f"Container main for pod {world.namespace}/{pod['metadata']['name']} failed with exit code 42"
    assert status["conditions"][-1]["message"] == f"{message} matching FailJob rule at index 1"


async def test_a_policy_of_success_ends_a_job_early(world: World) -> None:
    policy = {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]}
    spec: Json = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "successPolicy": policy}
    await world.create(make_job(**spec))
    pods = sorted(await world.pods(3), key=index_of)
    await world.end(pods[0])
    status = await world.condition(JOBS, "demo", "Complete")
    assert conditions(status) == [
        ("SuccessCriteriaMet", "True", "SuccessPolicy"),
        ("Complete", "True", "SuccessPolicy"),
    ]
    assert status["succeeded"] == 1
    assert not await world.active()


async def test_a_job_is_suspended_and_resumed(world: World) -> None:
    await world.create(make_job(parallelism=2, completions=2))
    await world.pods(2)
    await world.patch(JOBS, "demo", {"spec": {"suspend": True}})
    await world.pods(0)
    status = await world.condition(JOBS, "demo", "Suspended")
    assert conditions(status) == [("Suspended", "True", "JobSuspended")]
    await world.status(JOBS, "demo", active=None, failed=None, ready=0)
    await world.patch(JOBS, "demo", {"spec": {"suspend": False}})
    await world.pods(2)
    status = await world.condition(JOBS, "demo", "Suspended", "False")
    assert conditions(status) == [("Suspended", "False", "JobResumed")]
    assert status["startTime"]


async def test_a_job_created_suspended_has_no_pods_and_no_start(world: World) -> None:
    await world.create(make_job(suspend=True))
    status = await world.condition(JOBS, "demo", "Suspended")
    assert "startTime" not in status
    assert not await world.all(PODS)


async def test_a_job_is_too_late(world: World) -> None:
    await world.create(make_job(activeDeadlineSeconds=1))
    await world.pods(1)
    status = await world.condition(JOBS, "demo", "Failed")
    assert conditions(status) == failed("DeadlineExceeded")
    assert status["conditions"][-1]["message"] == "Job was active longer than specified deadline"
    assert not await world.active()


async def test_a_finished_job_is_removed_after_its_time(world: World) -> None:
    await world.create(make_job(ttlSecondsAfterFinished=0))
    await world.end((await world.pods(1))[0])
    await world.gone(JOBS, "demo")
    await until(world.no_pods)


async def test_parallelism_changes(world: World) -> None:
    await world.create(make_job(completions=6, parallelism=1))
    await world.pods(1)
    await world.patch(JOBS, "demo", {"spec": {"parallelism": 4}})
    await world.pods(4)
    await world.patch(JOBS, "demo", {"spec": {"parallelism": 2}})
    await world.pods(2)
    await world.status(JOBS, "demo", active=2, failed=None)
    await world.patch(JOBS, "demo", {"spec": {"parallelism": 0}})
    await world.pods(0)
    await world.status(JOBS, "demo", active=None, failed=None, succeeded=None)


async def test_a_work_queue_is_done_when_all_pods_have_ended(world: World) -> None:
    await world.create(make_job(parallelism=2))
    first, second = await world.pods(2)
    await world.end(first)
    await world.status(JOBS, "demo", succeeded=1, active=1)
    await world.end(second)
    status = await world.condition(JOBS, "demo", "Complete")
    assert status["succeeded"] == 2


async def test_a_job_of_another_manager_is_left_alone(world: World) -> None:
    await world.create(make_job(managedBy="example.dev/other"))
    await world.create(make_job("mine"))
    await world.status(JOBS, "mine", active=1)
    assert status_of(await world.get(JOBS, "demo")) == {}


async def test_a_job_without_completions_and_parallelism_and_one_of_none(world: World) -> None:
    await world.create(make_job(completions=0))
    status = await world.condition(JOBS, "demo", "Complete")
    assert conditions(status) == COMPLETE
    assert not await world.all(PODS)


async def test_a_deleted_job_lets_its_pods_go(world: World) -> None:
    await world.create(make_job(parallelism=2, completions=2))
    first, _ = await world.pods(2)
    await world.end(first)
    await world.status(JOBS, "demo", succeeded=1)
    await world.delete(JOBS, "demo")
    await world.gone(JOBS, "demo")
    for name in [pod["metadata"]["name"] for pod in await world.all(PODS)]:
        await world.gone(PODS, name)


async def test_a_pod_that_is_deleted_counts_as_failed(world: World) -> None:
    await world.create(make_job(backoffLimit=3))
    (pod,) = await world.pods(1)
    await world.delete(PODS, pod["metadata"]["name"])
    await world.status(JOBS, "demo", failed=1)
    await world.gone(PODS, pod["metadata"]["name"])


async def test_restarts_of_containers_count(world: World) -> None:
    await world.create(make_job(backoffLimit=2, template=template("OnFailure")))
    (pod,) = await world.pods(1)
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 2}
    await world.report(
        pod, {"phase": "Running", "containerStatuses": [{**container, "state": {"running": {}}}]}
    )
    status = await world.condition(JOBS, "demo", "Failed")
    assert conditions(status) == failed("BackoffLimitExceeded")
