"""Tests of a Job's policies: suspension, failures by rule and by index, success by rule, replacement of Pods."""

from datetime import timedelta
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.memory import Crash, CrashAt
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.controllers.job import decide
from steelyard_local_kubernetes.controllers.job_counts import is_tracked
from steelyard_local_kubernetes.controllers.job_policies import (
    FAILURES,
    IGNORED_FAILURES,
    INDEX,
    match_failure,
    success_rule,
)
from steelyard_local_kubernetes.controllers.job_simulation import ENDED, KEY, JobSimulation
from steelyard_local_kubernetes.controllers.kinds import JOB
from steelyard_local_kubernetes.controllers.objects import make_job, make_pod
from steelyard_local_kubernetes.controllers.sync import sync

INDEXED: Json = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimit": 100}


def on_exit(action: str, *values: int, operator: str = "In", **more: Any) -> Json:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


def on_disruption(action: str) -> Json:
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def failed(code: int, *, conditions: list[Json] | None = None) -> Json:
    terminated = {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}
    status: Json = {"phase": "Failed", "conditions": conditions or []}
    status["containerStatuses"] = [{"name": "main", "state": {"terminated": terminated}}]
    return {**make_pod("demo-1"), "status": status}


def of_index(simulation: JobSimulation, index: int) -> Json:
    """Return the Pod of the index that has not ended."""
    return next(
        pod
        for pod in simulation.pods
        if pod["metadata"]["annotations"][INDEX] == str(index)
        and pod.get("status", {}).get("phase") not in ENDED
    )


# ---- suspension


async def test_a_suspended_job_has_no_pods_and_says_so() -> None:
    simulation = JobSimulation(suspend=True)
    await simulation.settle()
    assert simulation.pods == []
    assert (simulation.true_conditions(), "startTime" in simulation.status) == (
        {"Suspended": "JobSuspended"},
        False,
    )


async def test_a_suspension_ends_pods_without_counting_them_and_the_deadline_starts_again() -> None:
    simulation = JobSimulation(activeDeadlineSeconds=60, backoffLimit=0)
    await simulation.settle()
    simulation.bind()
    simulation.change(suspend=True)
    await simulation.settle()
    assert (simulation.pods, simulation.status.get("failed"), simulation.status.get("active")) == (
        [],
        None,
        None,
    )
    simulation.time += timedelta(hours=1)
    await simulation.settle()
    assert simulation.true_conditions() == {"Suspended": "JobSuspended"}
    simulation.change(suspend=False)
    await simulation.settle()
    assert (simulation.true_conditions(), len(simulation.pods)) == ({}, 1)
    resumed = next(said for said in simulation.status["conditions"] if said["type"] == "Suspended")
    assert (resumed["status"], resumed["reason"], resumed["message"]) == (
        "False",
        "JobResumed",
        "Job resumed",
    )
    assert simulation.status["startTime"] == "2026-01-01T01:00:00Z"
    assert await sync(simulation.edge, JOB, KEY) == 60.0


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
async def test_a_crash_during_a_suspension_counts_no_pod_as_failed(after: bool) -> None:
    for call in range(1, 20):
        simulation = JobSimulation(completions=2, parallelism=2, backoffLimit=0)
        await simulation.settle()
        simulation.change(suspend=True)
        crash = CrashAt(call)
        setattr(simulation.cluster, "after_call" if after else "before_call", crash)
        for _ in range(6):
            try:
                await sync(simulation.edge, JOB, KEY)
            except Crash:
                continue
            simulation.remove_released()
        assert (simulation.pods, simulation.status.get("failed")) == ([], None), f"crash at call {call}"
        assert simulation.true_conditions() == {"Suspended": "JobSuspended"}
        if crash.calls < call:
            return
    raise AssertionError("no run without a crash")


def test_a_job_of_another_controller_is_left_alone() -> None:
    job = make_job(managedBy="example.com/queue")
    job["metadata"]["uid"] = "u"
    simulation = JobSimulation()
    assert not decide(job, [], simulation.time)
    assert decide(
        {**job, "spec": {**job["spec"], "managedBy": "kubernetes.io/job-controller"}}, [], simulation.time
    )


async def test_pods_beyond_the_parallelism_go_without_being_counted() -> None:
    simulation = JobSimulation(completions=4, parallelism=3, backoffLimit=0)
    await simulation.settle()
    simulation.change(parallelism=1)
    await simulation.settle()
    assert (len(simulation.pods), simulation.status.get("failed"), simulation.true_conditions()) == (
        1,
        None,
        {},
    )


# ---- podFailurePolicy


@pytest.mark.parametrize(
    ("rule", "code", "action"),
    [
        pytest.param(on_exit("FailJob", 3, 4), 4, "FailJob", id="In lists the code"),
        pytest.param(on_exit("FailJob", 3), 4, "", id="In lacks the code"),
        pytest.param(on_exit("Ignore", 3, operator="NotIn"), 4, "Ignore", id="NotIn lacks the code"),
        pytest.param(on_exit("Ignore", 3, operator="NotIn"), 0, "", id="a success matches no rule"),
        pytest.param(on_exit("Count", 4, containerName="other"), 4, "", id="another container"),
        pytest.param(on_exit("Count", 4, containerName="main"), 4, "Count", id="the container"),
        pytest.param(on_disruption("Ignore"), 4, "Ignore", id="a condition"),
    ],
)
def test_rules_about_failures(rule: Json, code: int, action: str) -> None:
    job = make_job(podFailurePolicy={"rules": [rule]})
    pod = failed(code, conditions=[{"type": "DisruptionTarget", "status": "True"}])
    assert match_failure(job, pod).action == action


def test_the_first_rule_that_matches_decides_and_says_which() -> None:
    job = make_job(
        podFailurePolicy={"rules": [on_exit("Count", 3), on_exit("FailJob", 42), on_exit("Ignore", 42)]}
    )
    assert match_failure(job, failed(42)).message == (
        "Container main for pod default/demo-1 failed with exit code 42 matching FailJob rule at index 1"
    )


async def test_fail_job_ends_the_job_whatever_its_limit() -> None:
    rules = {"rules": [on_exit("FailJob", 1)]}
    simulation = JobSimulation(backoffLimit=6, completions=2, parallelism=2, podFailurePolicy=rules)
    await simulation.settle()
    simulation.bind()
    simulation.end("Failed")
    await simulation.settle()
    assert simulation.true_conditions() == {"FailureTarget": "PodFailurePolicy", "Failed": "PodFailurePolicy"}
    assert simulation.status["failed"] == 2


async def test_ignored_failures_are_not_counted_and_are_replaced() -> None:
    simulation = JobSimulation(backoffLimit=0, podFailurePolicy={"rules": [on_exit("Ignore", 1)]})
    for _ in range(3):
        await simulation.settle()
        simulation.end("Failed")
        await simulation.settle()
        assert (simulation.status.get("failed"), simulation.true_conditions()) == (None, {})
        simulation.time += timedelta(minutes=11)
    await simulation.settle()
    assert len([pod for pod in simulation.pods if pod.get("status", {}).get("phase") not in ENDED]) == 1


# ---- backoffLimitPerIndex


async def test_an_index_without_retries_fails_alone_and_the_others_go_on() -> None:
    simulation = JobSimulation(**INDEXED, backoffLimitPerIndex=0)
    await simulation.settle()
    simulation.end("Failed", of=of_index(simulation, 1))
    await simulation.settle()
    assert (simulation.status["failedIndexes"], simulation.true_conditions(), len(simulation.pods)) == (
        "1",
        {},
        3,
    )
    simulation.end("Succeeded", of=of_index(simulation, 0))
    simulation.end("Succeeded", of=of_index(simulation, 2))
    await simulation.settle()
    assert simulation.true_conditions() == {"FailureTarget": "FailedIndexes", "Failed": "FailedIndexes"}
    assert (simulation.status["completedIndexes"], simulation.status["failedIndexes"]) == ("0,2", "1")
    assert (simulation.status["succeeded"], simulation.status["failed"]) == (2, 1)


async def test_a_replacement_carries_on_the_count_of_its_index() -> None:
    simulation = JobSimulation(**INDEXED, backoffLimitPerIndex=1)
    await simulation.settle()
    first = of_index(simulation, 0)
    assert first["metadata"]["annotations"][FAILURES] == "0"
    simulation.end("Failed", of=first)
    await simulation.settle()
    # Its replacement has to learn of it, however early it is deleted.
    assert is_tracked(
        next(pod for pod in simulation.pods if pod["metadata"]["uid"] == first["metadata"]["uid"])
    )
    assert await sync(simulation.edge, JOB, KEY) == 10.0
    simulation.time += timedelta(seconds=11)
    await simulation.settle()
    assert of_index(simulation, 0)["metadata"]["annotations"][FAILURES] == "1"
    assert simulation.status["failed"] == 1
    simulation.end("Failed", of=of_index(simulation, 0))
    await simulation.settle()
    assert (simulation.status["failedIndexes"], simulation.status["failed"]) == ("0", 2)


async def test_fail_index_and_ignore_work_by_index() -> None:
    rules = {"rules": [on_exit("FailIndex", 42), on_exit("Ignore", 1)]}
    simulation = JobSimulation(**INDEXED, backoffLimitPerIndex=5, podFailurePolicy=rules)
    await simulation.settle()
    simulation.end("Failed", of=of_index(simulation, 0), exit_code=42)
    simulation.end("Failed", of=of_index(simulation, 2), exit_code=1)
    await simulation.settle()
    assert simulation.status["failedIndexes"] == "0"
    simulation.time += timedelta(seconds=11)
    await simulation.settle()
    again = of_index(simulation, 2)["metadata"]["annotations"]
    assert (again[FAILURES], again[IGNORED_FAILURES]) == ("0", "1")


async def test_too_many_failed_indexes_fail_the_job() -> None:
    simulation = JobSimulation(**INDEXED, backoffLimitPerIndex=0, maxFailedIndexes=1)
    await simulation.settle()
    simulation.end("Failed", of=of_index(simulation, 0))
    await simulation.settle()
    assert simulation.true_conditions() == {}
    simulation.bind()
    simulation.end("Failed", of=of_index(simulation, 2))
    await simulation.settle()
    reason = "MaxFailedIndexesExceeded"
    assert simulation.true_conditions() == {"FailureTarget": reason, "Failed": reason}
    # The Pod of index 1 was ended by the Job, and did not fail by itself.
    assert (simulation.status["failedIndexes"], simulation.status["failed"]) == ("0,2", 3)


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
async def test_a_crash_gives_no_index_another_retry(after: bool) -> None:
    """The controller dies at call n on an index's way from its first Pod to its failure, for every n."""
    spec = {**INDEXED, "completions": 1, "parallelism": 1}
    for call in range(1, 60):
        simulation = JobSimulation(**spec, backoffLimitPerIndex=1)
        crash = CrashAt(call)
        setattr(simulation.cluster, "after_call" if after else "before_call", crash)
        for _ in range(12):
            try:
                await sync(simulation.edge, JOB, KEY)
            except Crash:
                continue
            simulation.time += timedelta(seconds=30)
            if any(pod.get("status", {}).get("phase") not in ENDED for pod in simulation.pods):
                simulation.end("Failed")
        result = (
            simulation.status.get("failedIndexes"),
            simulation.status.get("failed"),
            len(simulation.pods),
        )
        assert result == ("0", 2, 2), f"crash at call {call}"
        if crash.calls < call:
            return
    raise AssertionError("no run without a crash")


# ---- successPolicy


@pytest.mark.parametrize(
    ("rule", "indexes", "met"),
    [
        pytest.param({"succeededCount": 2}, {0, 2}, True, id="any two of them"),
        pytest.param({"succeededCount": 2}, {1}, False, id="too few"),
        pytest.param({"succeededIndexes": "0,2"}, {0, 1, 2}, True, id="all that are named"),
        pytest.param({"succeededIndexes": "0,2"}, {0, 1}, False, id="one that is named is missing"),
        pytest.param({"succeededIndexes": "0-2", "succeededCount": 2}, {0, 2}, True, id="two of those named"),
        pytest.param(
            {"succeededIndexes": "1-2", "succeededCount": 2}, {0, 2}, False, id="one of those named"
        ),
    ],
)
def test_rules_about_success(rule: Json, indexes: set[int], met: bool) -> None:
    job = make_job(completions=3, completionMode="Indexed", successPolicy={"rules": [rule]})
    assert success_rule(job, indexes) == ("Matched rules at index 0" if met else None)


async def test_a_leader_that_succeeds_completes_its_job_and_the_workers_count_as_nothing() -> None:
    simulation = JobSimulation(**INDEXED, successPolicy={"rules": [{"succeededIndexes": "0"}]})
    await simulation.settle()
    simulation.end("Succeeded", of=of_index(simulation, 0))
    await simulation.settle()
    assert simulation.true_conditions() == {
        "SuccessCriteriaMet": "SuccessPolicy",
        "Complete": "SuccessPolicy",
    }
    assert (
        simulation.status["succeeded"],
        simulation.status.get("failed"),
        simulation.status["completedIndexes"],
    ) == (
        1,
        None,
        "0",
    )
    assert len(simulation.pods) == 1


# ---- podReplacementPolicy


async def test_a_pod_that_still_terminates_is_replaced_only_when_it_has_failed() -> None:
    simulation = JobSimulation(podReplacementPolicy="Failed", backoffLimit=1)
    await simulation.settle()
    simulation.bind()
    simulation.delete_by_hand(simulation.pods[0])
    await simulation.settle()
    assert (len(simulation.pods), simulation.status["terminating"], simulation.status.get("failed")) == (
        1,
        1,
        None,
    )
    simulation.end("Failed")
    await simulation.settle()
    assert (simulation.status["failed"], simulation.status["terminating"]) == (1, 0)
    simulation.time += timedelta(seconds=11)
    await simulation.settle()
    assert len([pod for pod in simulation.pods if pod.get("status", {}).get("phase") not in ENDED]) == 1


async def test_a_deleted_pod_that_no_node_ever_had_counts_as_failed() -> None:
    simulation = JobSimulation(podReplacementPolicy="Failed", backoffLimit=1)
    await simulation.settle()
    simulation.delete_by_hand(simulation.pods[0])
    await simulation.settle()
    assert simulation.status["failed"] == 1
    assert [is_tracked(pod) for pod in simulation.cluster.store.objects(PODS)] == [True]
