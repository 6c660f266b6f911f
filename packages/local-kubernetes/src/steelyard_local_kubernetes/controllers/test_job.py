"""The Job controller: success, failure, retries, deadlines and parallelism."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from steelyard_common.types import Json
from steelyard_kube.resource import JOBS, PODS
from steelyard_local_kubernetes.controllers import job_counts
from steelyard_local_kubernetes.controllers.job import decide
from steelyard_local_kubernetes.controllers.job_policies import INDEX, format_indexes, parse_indexes
from steelyard_local_kubernetes.controllers.job_simulation import ENDED, KEY, JobSimulation
from steelyard_local_kubernetes.controllers.kinds import JOB
from steelyard_local_kubernetes.controllers.objects import make_job
from steelyard_local_kubernetes.controllers.sync import sync


async def test_a_pod_that_succeeds_completes_its_job() -> None:
    simulation = JobSimulation()
    await simulation.settle()
    (pod,) = simulation.pods
    name, _, letters = pod["metadata"]["name"].rpartition("-")
    assert (name, len(letters)) == ("demo", 5)
    assert pod["metadata"]["labels"]["job-name"] == "demo"
    assert simulation.status["active"] == 1
    simulation.end("Succeeded")
    await simulation.settle()
    assert simulation.true_conditions() == {
        "SuccessCriteriaMet": "CompletionsReached",
        "Complete": "CompletionsReached",
    }
    assert (simulation.status["succeeded"], simulation.status.get("failed")) == (1, None)
    assert simulation.status["completionTime"]
    assert (
        "finalizers" not in simulation.pods[0]["metadata"]
        or simulation.pods[0]["metadata"]["finalizers"] == []
    )


async def test_a_pod_that_fails_without_retries_fails_its_job() -> None:
    simulation = JobSimulation(backoffLimit=0)
    await simulation.settle()
    simulation.end("Failed")
    await simulation.settle()
    assert simulation.true_conditions() == {
        "FailureTarget": "BackoffLimitExceeded",
        "Failed": "BackoffLimitExceeded",
    }
    assert simulation.status["failed"] == 1
    assert len(simulation.pods) == 1


async def test_failures_are_retried_with_growing_delays_up_to_the_limit() -> None:
    simulation = JobSimulation(backoffLimit=2)
    delays = []
    for _ in range(3):
        await simulation.settle()
        simulation.end("Failed")
        await simulation.settle()
        wait = await sync(simulation.edge, JOB, KEY)
        delays.append(wait)
        simulation.time += timedelta(seconds=(wait or 0) + 1)
    assert delays == [10.0, 20.0, None]
    assert simulation.true_conditions()["Failed"] == "BackoffLimitExceeded"
    assert (simulation.status["failed"], len(simulation.pods)) == (3, 3)


async def test_a_clock_that_was_set_back_keeps_no_retry_waiting() -> None:
    simulation = JobSimulation(backoffLimit=1)
    await simulation.settle()
    simulation.end("Failed")
    await simulation.settle()
    simulation.time -= timedelta(hours=5)
    await simulation.settle()
    assert len(simulation.pods) == 2


async def test_a_deadline_that_is_over_asks_for_no_reconciliation_while_pods_stop() -> None:
    simulation = JobSimulation(activeDeadlineSeconds=60)
    await simulation.settle()
    simulation.time += timedelta(seconds=61)
    decision = decide(simulation.job, simulation.pods, simulation.time)
    assert (len(decision.delete), decision.requeue_after) == (1, None)


async def test_a_deadline_counts_time_awake() -> None:
    simulation = JobSimulation(activeDeadlineSeconds=60)
    await simulation.settle()
    simulation.edge = replace(simulation.edge, slept=lambda since: 3600.0)
    simulation.time += timedelta(seconds=3650)
    assert await sync(simulation.edge, JOB, KEY) == 10.0
    assert simulation.job["spec"]["activeDeadlineSeconds"] == 60
    simulation.time += timedelta(seconds=10)
    await simulation.settle()
    assert simulation.true_conditions()["Failed"] == "DeadlineExceeded"


async def test_a_machine_that_sleeps_during_a_reconciliation_fails_no_job() -> None:
    simulation = JobSimulation(activeDeadlineSeconds=60)
    await simulation.settle()
    slept = 0.0

    def measured(since: datetime) -> float:
        nonlocal slept
        before, slept = slept, slept + 3600.0  # it sleeps again right after it was measured
        simulation.time += timedelta(seconds=3600.0)
        return before

    simulation.edge = replace(simulation.edge, slept=measured)
    await sync(simulation.edge, JOB, KEY)
    assert simulation.true_conditions() == {}


async def test_the_deadline_fails_the_job_and_its_pod_goes_first() -> None:
    simulation = JobSimulation(activeDeadlineSeconds=60)
    await simulation.settle()
    assert await sync(simulation.edge, JOB, KEY) == 60.0
    simulation.time += timedelta(seconds=61)
    await simulation.settle()
    assert simulation.pods == []
    assert simulation.true_conditions() == {"FailureTarget": "DeadlineExceeded", "Failed": "DeadlineExceeded"}


async def test_failed_waits_for_the_last_pod_to_stop() -> None:
    simulation = JobSimulation(activeDeadlineSeconds=60)
    await simulation.settle()
    pod = simulation.pods[0]
    simulation.cluster.store.put(
        {**pod, "spec": {**pod["spec"], "nodeName": "n"}}
    )  # so that its deletion takes a while
    simulation.time += timedelta(seconds=61)
    await sync(simulation.edge, JOB, KEY)
    assert simulation.pods[0]["metadata"]["deletionTimestamp"]
    assert set(simulation.true_conditions()) == {"FailureTarget"}
    assert simulation.status["terminating"] == 1
    simulation.cluster.store.remove(PODS, pod["metadata"]["name"], "default")
    await simulation.settle()
    assert set(simulation.true_conditions()) == {"FailureTarget", "Failed"}


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
    simulation = JobSimulation(backoffLimit=limit)
    await simulation.settle()
    gone = simulation.pods[0]
    simulation.delete_by_hand(gone)
    await simulation.settle()
    assert simulation.true_conditions() == reason
    assert simulation.status["failed"] == 1
    assert [pod["metadata"]["uid"] != gone["metadata"]["uid"] for pod in simulation.pods] == [True] * limit


@pytest.mark.parametrize("spec", [{}, {"completionMode": "Indexed", "completions": 1}])
async def test_a_pod_does_not_get_the_name_of_one_that_is_gone(spec: Json) -> None:
    simulation, names = JobSimulation(backoffLimit=9, **spec), list[str]()
    for _ in range(4):
        await simulation.settle()
        (pod,) = simulation.pods
        names.append(pod["metadata"]["name"])
        simulation.delete_by_hand(pod)
    assert len(set(names)) == 4


async def test_a_success_stays_counted_when_its_pod_is_deleted() -> None:
    simulation = JobSimulation(completions=2)
    await simulation.settle()
    first = simulation.pods[0]
    simulation.end("Succeeded")
    await simulation.settle()
    simulation.cluster.store.remove(PODS, first["metadata"]["name"], "default")
    await simulation.settle()
    simulation.end("Succeeded")
    await simulation.settle()
    assert (simulation.status["succeeded"], "Complete" in simulation.true_conditions()) == (2, True)


async def test_completions_run_at_most_parallelism_at_a_time() -> None:
    simulation = JobSimulation(completions=5, parallelism=2)
    for _ in range(5):
        await simulation.settle()
        running = [pod for pod in simulation.pods if pod.get("status", {}).get("phase") not in ENDED]
        assert len(running) <= 2
        simulation.end("Succeeded")
    await simulation.settle()
    assert (simulation.status["succeeded"], len(simulation.pods)) == (5, 5)
    assert "Complete" in simulation.true_conditions()


async def test_an_indexed_job_runs_each_index_once() -> None:
    simulation = JobSimulation(completions=3, parallelism=3, completionMode="Indexed", backoffLimit=1)
    await simulation.settle()
    indexes = [pod["metadata"]["annotations"][INDEX] for pod in simulation.pods]
    assert sorted(indexes) == ["0", "1", "2"]
    assert {pod["spec"]["hostname"] for pod in simulation.pods} == {"demo-0", "demo-1", "demo-2"}
    simulation.end("Succeeded", of=_with_index(simulation, "0"))
    simulation.end("Failed", of=_with_index(simulation, "1"))
    simulation.end("Succeeded", of=_with_index(simulation, "2"))
    await simulation.settle()
    assert simulation.status["completedIndexes"] == "0,2"
    simulation.time += timedelta(seconds=11)
    await simulation.settle()
    (again,) = (pod for pod in simulation.pods if pod.get("status", {}).get("phase") not in ENDED)
    assert again["metadata"]["annotations"][INDEX] == "1"
    simulation.end("Succeeded", of=again)
    await simulation.settle()
    assert (simulation.status["completedIndexes"], simulation.status["succeeded"]) == ("0-2", 3)
    assert "Complete" in simulation.true_conditions()


def _with_index(simulation: JobSimulation, index: str) -> Json:
    return next(pod for pod in simulation.pods if pod["metadata"]["annotations"][INDEX] == index)


async def test_a_deleted_job_lets_its_pods_go() -> None:
    simulation = JobSimulation()
    await simulation.settle()
    simulation.cluster.store.remove(JOBS, "demo", "default")
    await sync(simulation.edge, JOB, KEY)
    assert simulation.pods[0]["metadata"]["finalizers"] == []


async def test_a_job_made_again_does_not_inherit_pods() -> None:
    simulation = JobSimulation()
    await simulation.settle()
    old = simulation.pods[0]["metadata"]
    simulation.cluster.store.remove(JOBS, "demo", "default")
    simulation.cluster.store.create(JOBS, make_job())
    await simulation.settle()
    by_uid = {pod["metadata"]["uid"]: pod["metadata"]["finalizers"] for pod in simulation.pods}
    assert by_uid.pop(old["uid"]) == []
    assert list(by_uid.values()) == [[job_counts.FINALIZER]]


async def test_a_finished_job_goes_after_its_time_to_live() -> None:
    simulation = JobSimulation(ttlSecondsAfterFinished=30)
    await simulation.settle()
    simulation.end("Succeeded")
    await simulation.settle()
    assert await sync(simulation.edge, JOB, KEY) == 30.0
    simulation.time += timedelta(seconds=31)
    await sync(simulation.edge, JOB, KEY)
    assert simulation.cluster.store.find(JOBS, "demo", "default") is None


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([0, 2, 3, 4, 7], "0,2-4,7")],
)
def test_indexes_are_written_as_runs(numbers: list[int], text: str) -> None:
    assert format_indexes(numbers) == text
    assert parse_indexes(text) == numbers
