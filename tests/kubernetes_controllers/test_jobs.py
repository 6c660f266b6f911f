"""Jobs: what their status says, which Pods they have, and how they end."""

from steelyard_common.types import Json
from steelyard_kube.objects import read_finalizers, read_status
from steelyard_kube.resource import JOBS, PODS
from tests.kubernetes_controllers.sandbox import Sandbox, conditions, index_of, make_job, template, until

COMPLETE = [
    ("SuccessCriteriaMet", "True", "CompletionsReached"),
    ("Complete", "True", "CompletionsReached"),
]


def failed(reason: str) -> list[tuple[str, str, str]]:
    return [("FailureTarget", "True", reason), ("Failed", "True", reason)]


async def test_a_job_completes(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(completions=3, parallelism=2))
    pods = await sandbox.pods(2)
    assert all("batch.kubernetes.io/job-tracking" in read_finalizers(pod) for pod in pods)
    await sandbox.status(JOBS, "demo", active=2, ready=0, terminating=0, uncountedTerminatedPods={})
    await sandbox.run(pods[0])
    await sandbox.status(JOBS, "demo", active=2, ready=1)
    await sandbox.end(pods[0])
    await sandbox.status(JOBS, "demo", succeeded=1, active=2, ready=0)
    for pod in await sandbox.pods(2):
        await sandbox.end(pod)
    status = await sandbox.condition(JOBS, "demo", "Complete")
    assert conditions(status) == COMPLETE
    assert status["startTime"] <= status["completionTime"]
    fixed = {
        key: value
        for key, value in status.items()
        if key not in {"conditions", "startTime", "completionTime"}
    }
    assert fixed == {"succeeded": 3, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    assert not any(read_finalizers(pod) for pod in await sandbox.all(PODS))


async def test_a_job_fails_beyond_its_limit(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(completions=3, parallelism=3, backoffLimit=1))
    pods = await sandbox.pods(3)
    await sandbox.end(pods[0], 1)
    await sandbox.status(JOBS, "demo", failed=1)
    for pod in (await sandbox.pods(3))[:1]:
        await sandbox.end(pod, 1)
    status = await sandbox.condition(JOBS, "demo", "Failed")
    assert conditions(status) == failed("BackoffLimitExceeded")
    assert status["failed"] == 4, "those that were ended with it count"
    assert "completionTime" not in status
    assert not await sandbox.active()


async def test_a_failed_pod_is_replaced(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(backoffLimit=1))
    (pod,) = await sandbox.pods(1)
    await sandbox.end(pod, 1)

    async def another() -> bool:
        return any(other["metadata"]["uid"] != pod["metadata"]["uid"] for other in await sandbox.active())

    await until(another, "another Pod")
    await sandbox.end((await sandbox.pods(1))[0])
    status = await sandbox.condition(JOBS, "demo", "Complete")
    assert (status["succeeded"], status["failed"]) == (1, 1)


async def test_an_indexed_job_counts_its_indexes(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(completions=4, parallelism=4, completionMode="Indexed"))
    pods = sorted(await sandbox.pods(4), key=index_of)
    assert [index_of(pod) for pod in pods] == ["0", "1", "2", "3"]
    assert [pod["spec"]["hostname"] for pod in pods] == [f"demo-{number}" for number in range(4)]
    for number, text in ((0, "0"), (1, "0,1"), (3, "0,1,3")):
        await sandbox.end(pods[number])
        await sandbox.status(JOBS, "demo", completedIndexes=text)
    await sandbox.end(pods[2])
    status = await sandbox.condition(JOBS, "demo", "Complete")
    assert (status["completedIndexes"], status["succeeded"]) == ("0-3", 4)


async def test_an_index_fails_beyond_its_own_limit(sandbox: Sandbox) -> None:
    spec: Json = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 0}
    job = make_job(**spec)
    del job["spec"]["backoffLimit"]
    await sandbox.create(job)
    first, second = sorted(await sandbox.pods(2), key=index_of)
    await sandbox.end(first, 1)
    await sandbox.status(JOBS, "demo", failedIndexes="0", failed=1)
    await sandbox.end(second)
    status = await sandbox.condition(JOBS, "demo", "Failed")
    assert conditions(status) == failed("FailedIndexes")
    assert (status["completedIndexes"], status["succeeded"]) == ("1", 1)


async def test_too_many_failed_indexes_end_a_job(sandbox: Sandbox) -> None:
    job = make_job(
        completions=3, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=0, maxFailedIndexes=0
    )
    del job["spec"]["backoffLimit"]
    await sandbox.create(job)
    pods = sorted(await sandbox.pods(3), key=index_of)
    await sandbox.end(pods[1], 1)
    status = await sandbox.condition(JOBS, "demo", "Failed")
    assert conditions(status) == failed("MaxFailedIndexesExceeded")
    assert status["failedIndexes"] == "1"


async def test_a_policy_fails_a_job_at_once_and_another_ignores_a_failure(sandbox: Sandbox) -> None:
    rules = [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    await sandbox.create(make_job(backoffLimit=2, podFailurePolicy={"rules": rules}))
    (pod,) = await sandbox.pods(1)
    await sandbox.end(pod, 7)

    async def another() -> bool:
        return any(other["metadata"]["uid"] != pod["metadata"]["uid"] for other in await sandbox.active())

    await until(another, "another Pod")
    assert not read_status(await sandbox.get(JOBS, "demo")).get("failed")
    (pod,) = await sandbox.pods(1)
    await sandbox.end(pod, 42)
    status = await sandbox.condition(JOBS, "demo", "Failed")
    assert conditions(status) == failed("PodFailurePolicy")
    message = f"Container main for pod {sandbox.namespace}/{pod['metadata']['name']} failed with exit code 42"
    assert status["conditions"][-1]["message"] == f"{message} matching FailJob rule at index 1"


async def test_a_policy_of_success_ends_a_job_early(sandbox: Sandbox) -> None:
    policy = {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]}
    spec: Json = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "successPolicy": policy}
    await sandbox.create(make_job(**spec))
    pods = sorted(await sandbox.pods(3), key=index_of)
    await sandbox.end(pods[0])
    status = await sandbox.condition(JOBS, "demo", "Complete")
    assert conditions(status) == [
        ("SuccessCriteriaMet", "True", "SuccessPolicy"),
        ("Complete", "True", "SuccessPolicy"),
    ]
    assert status["succeeded"] == 1
    assert not await sandbox.active()


async def test_a_job_is_suspended_and_resumed(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(parallelism=2, completions=2))
    await sandbox.pods(2)
    await sandbox.patch(JOBS, "demo", {"spec": {"suspend": True}})
    await sandbox.pods(0)
    status = await sandbox.condition(JOBS, "demo", "Suspended")
    assert conditions(status) == [("Suspended", "True", "JobSuspended")]
    await sandbox.status(JOBS, "demo", active=None, failed=None, ready=0)
    await sandbox.patch(JOBS, "demo", {"spec": {"suspend": False}})
    await sandbox.pods(2)
    status = await sandbox.condition(JOBS, "demo", "Suspended", "False")
    assert conditions(status) == [("Suspended", "False", "JobResumed")]
    assert status["startTime"]


async def test_a_job_created_suspended_has_no_pods_and_no_start(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(suspend=True))
    status = await sandbox.condition(JOBS, "demo", "Suspended")
    assert "startTime" not in status
    assert not await sandbox.all(PODS)


async def test_a_job_is_too_late(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(activeDeadlineSeconds=1))
    await sandbox.pods(1)
    status = await sandbox.condition(JOBS, "demo", "Failed")
    assert conditions(status) == failed("DeadlineExceeded")
    assert status["conditions"][-1]["message"] == "Job was active longer than specified deadline"
    assert not await sandbox.active()


async def test_a_finished_job_is_removed_after_its_time(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(ttlSecondsAfterFinished=0))
    await sandbox.end((await sandbox.pods(1))[0])
    await sandbox.gone(JOBS, "demo")
    await until(sandbox.no_pods)


async def test_parallelism_changes(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(completions=6, parallelism=1))
    await sandbox.pods(1)
    await sandbox.patch(JOBS, "demo", {"spec": {"parallelism": 4}})
    await sandbox.pods(4)
    await sandbox.patch(JOBS, "demo", {"spec": {"parallelism": 2}})
    await sandbox.pods(2)
    await sandbox.status(JOBS, "demo", active=2, failed=None)
    await sandbox.patch(JOBS, "demo", {"spec": {"parallelism": 0}})
    await sandbox.pods(0)
    await sandbox.status(JOBS, "demo", active=None, failed=None, succeeded=None)


async def test_a_work_queue_is_done_when_all_pods_have_ended(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(parallelism=2))
    first, second = await sandbox.pods(2)
    await sandbox.end(first)
    await sandbox.status(JOBS, "demo", succeeded=1, active=1)
    await sandbox.end(second)
    status = await sandbox.condition(JOBS, "demo", "Complete")
    assert status["succeeded"] == 2


async def test_a_job_of_another_manager_is_left_alone(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(managedBy="example.dev/other"))
    await sandbox.create(make_job("mine"))
    await sandbox.status(JOBS, "mine", active=1)
    assert read_status(await sandbox.get(JOBS, "demo")) == {}


async def test_a_job_without_completions_and_parallelism_and_one_of_none(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(completions=0))
    status = await sandbox.condition(JOBS, "demo", "Complete")
    assert conditions(status) == COMPLETE
    assert not await sandbox.all(PODS)


async def test_a_deleted_job_lets_its_pods_go(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(parallelism=2, completions=2))
    first, _ = await sandbox.pods(2)
    await sandbox.end(first)
    await sandbox.status(JOBS, "demo", succeeded=1)
    await sandbox.delete(JOBS, "demo")
    await sandbox.gone(JOBS, "demo")
    for name in [pod["metadata"]["name"] for pod in await sandbox.all(PODS)]:
        await sandbox.gone(PODS, name)


async def test_a_pod_that_is_deleted_counts_as_failed(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(backoffLimit=3))
    (pod,) = await sandbox.pods(1)
    await sandbox.delete(PODS, pod["metadata"]["name"])
    await sandbox.status(JOBS, "demo", failed=1)
    await sandbox.gone(PODS, pod["metadata"]["name"])


async def test_restarts_of_containers_count(sandbox: Sandbox) -> None:
    await sandbox.create(make_job(backoffLimit=2, template=template("OnFailure")))
    (pod,) = await sandbox.pods(1)
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 2}
    await sandbox.report(
        pod, {"phase": "Running", "containerStatuses": [{**container, "state": {"running": {}}}]}
    )
    status = await sandbox.condition(JOBS, "demo", "Failed")
    assert conditions(status) == failed("BackoffLimitExceeded")
