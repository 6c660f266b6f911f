from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from steelyard.kube.resource import JOBS, PODS
from steelyard.local.controllers import job_counts
from steelyard.local.controllers.job import decide
from steelyard.local.controllers.job_policies import INDEX, format_indexes, parse_indexes
from steelyard.local.controllers.job_world import ENDED, KEY, World
from steelyard.local.controllers.kinds import JOB
from steelyard.local.controllers.objects import make_job
from steelyard.local.controllers.sync import sync
from steelyard.types import Json


async def test_a_pod_that_succeeds_completes_its_job() -> None:
    world = World()
    await world.settle()
    (pod,) = world.pods
    name, _, letters = pod["metadata"]["name"].rpartition("-")
    assert (name, len(letters)) == ("demo", 5)
    assert pod["metadata"]["labels"]["job-name"] == "demo"
    assert world.status["active"] == 1
    world.end("Succeeded")
    await world.settle()
    assert world.true_conditions() == {
        "SuccessCriteriaMet": "CompletionsReached",
        "Complete": "CompletionsReached",
    }
    assert (world.status["succeeded"], world.status.get("failed")) == (1, None)
    assert world.status["completionTime"]
    assert "finalizers" not in world.pods[0]["metadata"] or world.pods[0]["metadata"]["finalizers"] == []


async def test_a_pod_that_fails_without_retries_fails_its_job() -> None:
    world = World(backoffLimit=0)
    await world.settle()
    world.end("Failed")
    await world.settle()
    assert world.true_conditions() == {
        "FailureTarget": "BackoffLimitExceeded",
        "Failed": "BackoffLimitExceeded",
    }
    assert world.status["failed"] == 1
    assert len(world.pods) == 1


async def test_failures_are_retried_with_growing_delays_up_to_the_limit() -> None:
    world = World(backoffLimit=2)
    delays = []
    for _ in range(3):
        await world.settle()
        world.end("Failed")
        await world.settle()
        wait = await sync(world.edge, JOB, KEY)
        delays.append(wait)
        world.time += timedelta(seconds=(wait or 0) + 1)
    assert delays == [10.0, 20.0, None]
    assert world.true_conditions()["Failed"] == "BackoffLimitExceeded"
    assert (world.status["failed"], len(world.pods)) == (3, 3)


async def test_a_clock_that_was_set_back_keeps_no_retry_waiting() -> None:
    world = World(backoffLimit=1)
    await world.settle()
    world.end("Failed")
    await world.settle()
    world.time -= timedelta(hours=5)
    await world.settle()
    assert len(world.pods) == 2


async def test_a_deadline_that_is_over_asks_for_no_look_while_pods_stop() -> None:
    world = World(activeDeadlineSeconds=60)
    await world.settle()
    world.time += timedelta(seconds=61)
    decision = decide(world.job, world.pods, world.time)
    assert (len(decision.delete), decision.requeue_after) == (1, None)


async def test_a_deadline_counts_time_awake() -> None:
    world = World(activeDeadlineSeconds=60)
    await world.settle()
    world.edge = replace(world.edge, slept=lambda since: 3600.0)
    world.time += timedelta(seconds=3650)
    assert await sync(world.edge, JOB, KEY) == 10.0
    assert world.job["spec"]["activeDeadlineSeconds"] == 60
    world.time += timedelta(seconds=10)
    await world.settle()
    assert world.true_conditions()["Failed"] == "DeadlineExceeded"


async def test_a_machine_that_sleeps_in_the_middle_of_a_look_fails_no_job() -> None:
    world = World(activeDeadlineSeconds=60)
    await world.settle()
    slept = 0.0

    def measured(since: datetime) -> float:
        nonlocal slept
        before, slept = slept, slept + 3600.0  # it sleeps again right after it was measured
        world.time += timedelta(seconds=3600.0)
        return before

    world.edge = replace(world.edge, slept=measured)
    await sync(world.edge, JOB, KEY)
    assert world.true_conditions() == {}


async def test_the_deadline_fails_the_job_and_its_pod_goes_first() -> None:
    world = World(activeDeadlineSeconds=60)
    await world.settle()
    assert await sync(world.edge, JOB, KEY) == 60.0
    world.time += timedelta(seconds=61)
    await world.settle()
    assert world.pods == []
    assert world.true_conditions() == {"FailureTarget": "DeadlineExceeded", "Failed": "DeadlineExceeded"}


async def test_failed_waits_for_the_last_pod_to_stop() -> None:
    world = World(activeDeadlineSeconds=60)
    await world.settle()
    pod = world.pods[0]
    world.cluster.store.put(
        {**pod, "spec": {**pod["spec"], "nodeName": "n"}}
    )  # so that its deletion takes a while
    world.time += timedelta(seconds=61)
    await sync(world.edge, JOB, KEY)
    assert world.pods[0]["metadata"]["deletionTimestamp"]
    assert set(world.true_conditions()) == {"FailureTarget"}
    assert world.status["terminating"] == 1
    world.cluster.store.remove(PODS, pod["metadata"]["name"], "default")
    await world.settle()
    assert set(world.true_conditions()) == {"FailureTarget", "Failed"}


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        pytest.param(
            0, {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}, id="at the limit"
        ),
        pytest.param(1, {}, id="below the limit"),
    ],
)
async def test_a_running_pod_deleted_by_hand_counts_as_a_failure(limit: int, reason: Json) -> None:
    world = World(backoffLimit=limit)
    await world.settle()
    gone = world.pods[0]
    world.delete_by_hand(gone)
    await world.settle()
    assert world.true_conditions() == reason
    assert world.status["failed"] == 1
    assert [pod["metadata"]["uid"] != gone["metadata"]["uid"] for pod in world.pods] == [True] * limit


@pytest.mark.parametrize("spec", [{}, {"completionMode": "Indexed", "completions": 1}])
async def test_a_pod_does_not_get_the_name_of_one_that_is_gone(spec: Json) -> None:
    world, names = World(backoffLimit=9, **spec), list[str]()
    for _ in range(4):
        await world.settle()
        (pod,) = world.pods
        names.append(pod["metadata"]["name"])
        world.delete_by_hand(pod)
    assert len(set(names)) == 4


async def test_a_success_stays_counted_when_its_pod_is_deleted() -> None:
    world = World(completions=2)
    await world.settle()
    first = world.pods[0]
    world.end("Succeeded")
    await world.settle()
    world.cluster.store.remove(PODS, first["metadata"]["name"], "default")
    await world.settle()
    world.end("Succeeded")
    await world.settle()
    assert (world.status["succeeded"], "Complete" in world.true_conditions()) == (2, True)


async def test_completions_run_at_most_parallelism_at_a_time() -> None:
    world = World(completions=5, parallelism=2)
    for _ in range(5):
        await world.settle()
        running = [pod for pod in world.pods if pod.get("status", {}).get("phase") not in ENDED]
        assert len(running) <= 2
        world.end("Succeeded")
    await world.settle()
    assert (world.status["succeeded"], len(world.pods), "Complete" in world.true_conditions()) == (5, 5, True)


async def test_an_indexed_job_runs_each_index_once() -> None:
    world = World(completions=3, parallelism=3, completionMode="Indexed", backoffLimit=1)
    await world.settle()
    indexes = [pod["metadata"]["annotations"][INDEX] for pod in world.pods]
    assert sorted(indexes) == ["0", "1", "2"]
    assert {pod["spec"]["hostname"] for pod in world.pods} == {"demo-0", "demo-1", "demo-2"}
    world.end("Succeeded", of=_with_index(world, "0"))
    world.end("Failed", of=_with_index(world, "1"))
    world.end("Succeeded", of=_with_index(world, "2"))
    await world.settle()
    assert world.status["completedIndexes"] == "0,2"
    world.time += timedelta(seconds=11)
    await world.settle()
    (again,) = (pod for pod in world.pods if pod.get("status", {}).get("phase") not in ENDED)
    assert again["metadata"]["annotations"][INDEX] == "1"
    world.end("Succeeded", of=again)
    await world.settle()
    assert (world.status["completedIndexes"], world.status["succeeded"]) == ("0-2", 3)
    assert "Complete" in world.true_conditions()


def _with_index(world: World, index: str) -> Json:
    return next(pod for pod in world.pods if pod["metadata"]["annotations"][INDEX] == index)


async def test_a_deleted_job_lets_its_pods_go() -> None:
    world = World()
    await world.settle()
    world.cluster.store.remove(JOBS, "demo", "default")
    await sync(world.edge, JOB, KEY)
    assert world.pods[0]["metadata"]["finalizers"] == []


async def test_a_job_made_again_does_not_inherit_pods() -> None:
    world = World()
    await world.settle()
    old = world.pods[0]["metadata"]
    world.cluster.store.remove(JOBS, "demo", "default")
    world.cluster.store.create(JOBS, make_job())
    await world.settle()
    by_uid = {pod["metadata"]["uid"]: pod["metadata"]["finalizers"] for pod in world.pods}
    assert by_uid.pop(old["uid"]) == []
    assert list(by_uid.values()) == [[job_counts.FINALIZER]]


async def test_a_finished_job_goes_after_its_time_to_live() -> None:
    world = World(ttlSecondsAfterFinished=30)
    await world.settle()
    world.end("Succeeded")
    await world.settle()
    assert await sync(world.edge, JOB, KEY) == 30.0
    world.time += timedelta(seconds=31)
    await sync(world.edge, JOB, KEY)
    assert world.cluster.store.find(JOBS, "demo", "default") is None


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([0, 2, 3, 4, 7], "0,2-4,7")],
)
def test_indexes_are_written_as_runs(numbers: list[int], text: str) -> None:
    assert format_indexes(numbers) == text
    assert parse_indexes(text) == numbers
