"""Tests of a Job's policies: suspension, failures by rule and by index, success by rule, replacement of Pods."""

from datetime import timedelta
from typing import Any

import pytest

from steelyard.kube.memory import Crash, CrashAt
from steelyard.kube.resource import PODS
from steelyard.local.controllers.job import decide
from steelyard.local.controllers.job_counts import is_tracked
from steelyard.local.controllers.job_policies import (
    FAILURES,
    IGNORED_FAILURES,
    INDEX,
    match_failure,
    success_rule,
)
from steelyard.local.controllers.job_world import ENDED, KEY, World
from steelyard.local.controllers.kinds import JOB
from steelyard.local.controllers.objects import make_job, make_pod
from steelyard.local.controllers.sync import sync
from steelyard.types import Json

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


def of_index(world: World, index: int) -> Json:
    """Return the Pod of the index that has not ended."""
    return next(
        pod
        for pod in world.pods
        if pod["metadata"]["annotations"][INDEX] == str(index)
        and pod.get("status", {}).get("phase") not in ENDED
    )


# ---- suspension


async def test_a_suspended_job_has_no_pods_and_says_so() -> None:
    world = World(suspend=True)
    await world.settle()
    assert world.pods == []
    assert (world.true_conditions(), "startTime" in world.status) == ({"Suspended": "JobSuspended"}, False)


async def test_a_suspension_ends_pods_without_counting_them_and_the_deadline_begins_anew() -> None:
    world = World(activeDeadlineSeconds=60, backoffLimit=0)
    await world.settle()
    world.bind()
    world.change(suspend=True)
    await world.settle()
    assert (world.pods, world.status.get("failed"), world.status.get("active")) == ([], None, None)
    world.time += timedelta(hours=1)
    await world.settle()
    assert world.true_conditions() == {"Suspended": "JobSuspended"}
    world.change(suspend=False)
    await world.settle()
    assert (world.true_conditions(), len(world.pods)) == ({}, 1)
    resumed = next(said for said in world.status["conditions"] if said["type"] == "Suspended")
    assert (resumed["status"], resumed["reason"], resumed["message"]) == (
        "False",
        "JobResumed",
        "Job resumed",
    )
    assert world.status["startTime"] == "2026-01-01T01:00:00Z"
    assert await sync(world.edge, JOB, KEY) == 60.0


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
async def test_a_crash_during_a_suspension_counts_no_pod_as_failed(after: bool) -> None:
    for call in range(1, 20):
        world = World(completions=2, parallelism=2, backoffLimit=0)
        await world.settle()
        world.change(suspend=True)
        crash = CrashAt(call)
        setattr(world.cluster, "after_call" if after else "before_call", crash)
        for _ in range(6):
            try:
                await sync(world.edge, JOB, KEY)
            except Crash:
                continue
            world.remove_released()
        assert (world.pods, world.status.get("failed")) == ([], None), f"crash at call {call}"
        assert world.true_conditions() == {"Suspended": "JobSuspended"}
        if crash.calls < call:
            return
    raise AssertionError("no run without a crash")


def test_a_job_of_another_controller_is_left_alone() -> None:
    job = make_job(managedBy="example.com/queue")
    job["metadata"]["uid"] = "u"
    world = World()
    assert not decide(job, [], world.time)
    assert decide(
        {**job, "spec": {**job["spec"], "managedBy": "kubernetes.io/job-controller"}}, [], world.time
    )


async def test_pods_beyond_the_parallelism_go_without_being_counted() -> None:
    world = World(completions=4, parallelism=3, backoffLimit=0)
    await world.settle()
    world.change(parallelism=1)
    await world.settle()
    assert (len(world.pods), world.status.get("failed"), world.true_conditions()) == (1, None, {})


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
    world = World(backoffLimit=6, completions=2, parallelism=2, podFailurePolicy=rules)
    await world.settle()
    world.bind()
    world.end("Failed")
    await world.settle()
    assert world.true_conditions() == {"FailureTarget": "PodFailurePolicy", "Failed": "PodFailurePolicy"}
    assert world.status["failed"] == 2


async def test_ignored_failures_are_not_counted_and_are_replaced() -> None:
    world = World(backoffLimit=0, podFailurePolicy={"rules": [on_exit("Ignore", 1)]})
    for _ in range(3):
        await world.settle()
        world.end("Failed")
        await world.settle()
        assert (world.status.get("failed"), world.true_conditions()) == (None, {})
        world.time += timedelta(minutes=11)
    await world.settle()
    assert len([pod for pod in world.pods if pod.get("status", {}).get("phase") not in ENDED]) == 1


# ---- backoffLimitPerIndex


async def test_an_index_without_retries_fails_alone_and_the_others_go_on() -> None:
    world = World(**INDEXED, backoffLimitPerIndex=0)
    await world.settle()
    world.end("Failed", of=of_index(world, 1))
    await world.settle()
    assert (world.status["failedIndexes"], world.true_conditions(), len(world.pods)) == ("1", {}, 3)
    world.end("Succeeded", of=of_index(world, 0))
    world.end("Succeeded", of=of_index(world, 2))
    await world.settle()
    assert world.true_conditions() == {"FailureTarget": "FailedIndexes", "Failed": "FailedIndexes"}
    assert (world.status["completedIndexes"], world.status["failedIndexes"]) == ("0,2", "1")
    assert (world.status["succeeded"], world.status["failed"]) == (2, 1)


async def test_a_replacement_carries_on_the_count_of_its_index() -> None:
    world = World(**INDEXED, backoffLimitPerIndex=1)
    await world.settle()
    first = of_index(world, 0)
    assert first["metadata"]["annotations"][FAILURES] == "0"
    world.end("Failed", of=first)
    await world.settle()
    # It has to tell its replacement of itself, however early it is deleted.
    assert is_tracked(next(pod for pod in world.pods if pod["metadata"]["uid"] == first["metadata"]["uid"]))
    assert await sync(world.edge, JOB, KEY) == 10.0
    world.time += timedelta(seconds=11)
    await world.settle()
    assert of_index(world, 0)["metadata"]["annotations"][FAILURES] == "1"
    assert world.status["failed"] == 1
    world.end("Failed", of=of_index(world, 0))
    await world.settle()
    assert (world.status["failedIndexes"], world.status["failed"]) == ("0", 2)


async def test_fail_index_and_ignore_work_by_index() -> None:
    rules = {"rules": [on_exit("FailIndex", 42), on_exit("Ignore", 1)]}
    world = World(**INDEXED, backoffLimitPerIndex=5, podFailurePolicy=rules)
    await world.settle()
    world.end("Failed", of=of_index(world, 0), exit_code=42)
    world.end("Failed", of=of_index(world, 2), exit_code=1)
    await world.settle()
    assert world.status["failedIndexes"] == "0"
    world.time += timedelta(seconds=11)
    await world.settle()
    again = of_index(world, 2)["metadata"]["annotations"]
    assert (again[FAILURES], again[IGNORED_FAILURES]) == ("0", "1")


async def test_too_many_failed_indexes_fail_the_job() -> None:
    world = World(**INDEXED, backoffLimitPerIndex=0, maxFailedIndexes=1)
    await world.settle()
    world.end("Failed", of=of_index(world, 0))
    await world.settle()
    assert world.true_conditions() == {}
    world.bind()
    world.end("Failed", of=of_index(world, 2))
    await world.settle()
    reason = "MaxFailedIndexesExceeded"
    assert world.true_conditions() == {"FailureTarget": reason, "Failed": reason}
    # The Pod of index 1 was ended by the Job, and did not fail by itself.
    assert (world.status["failedIndexes"], world.status["failed"]) == ("0,2", 3)


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
async def test_a_crash_gives_no_index_another_retry(after: bool) -> None:
    """The controller dies at call n on an index's way from its first Pod to its failure, for every n."""
    spec = {**INDEXED, "completions": 1, "parallelism": 1}
    for call in range(1, 60):
        world = World(**spec, backoffLimitPerIndex=1)
        crash = CrashAt(call)
        setattr(world.cluster, "after_call" if after else "before_call", crash)
        for _ in range(12):
            try:
                await sync(world.edge, JOB, KEY)
            except Crash:
                continue
            world.time += timedelta(seconds=30)
            if any(pod.get("status", {}).get("phase") not in ENDED for pod in world.pods):
                world.end("Failed")
        result = (world.status.get("failedIndexes"), world.status.get("failed"), len(world.pods))
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
    world = World(**INDEXED, successPolicy={"rules": [{"succeededIndexes": "0"}]})
    await world.settle()
    world.end("Succeeded", of=of_index(world, 0))
    await world.settle()
    assert world.true_conditions() == {"SuccessCriteriaMet": "SuccessPolicy", "Complete": "SuccessPolicy"}
    assert (world.status["succeeded"], world.status.get("failed"), world.status["completedIndexes"]) == (
        1,
        None,
        "0",
    )
    assert len(world.pods) == 1


# ---- podReplacementPolicy


async def test_a_pod_that_still_terminates_is_replaced_only_when_it_has_failed() -> None:
    world = World(podReplacementPolicy="Failed", backoffLimit=1)
    await world.settle()
    world.bind()
    world.delete_by_hand(world.pods[0])
    await world.settle()
    assert (len(world.pods), world.status["terminating"], world.status.get("failed")) == (1, 1, None)
    world.end("Failed")
    await world.settle()
    assert (world.status["failed"], world.status["terminating"]) == (1, 0)
    world.time += timedelta(seconds=11)
    await world.settle()
    assert len([pod for pod in world.pods if pod.get("status", {}).get("phase") not in ENDED]) == 1


async def test_a_deleted_pod_that_no_node_ever_had_counts_as_failed() -> None:
    world = World(podReplacementPolicy="Failed", backoffLimit=1)
    await world.settle()
    world.delete_by_hand(world.pods[0])
    await world.settle()
    assert world.status["failed"] == 1
    assert [is_tracked(pod) for pod in world.cluster.store.objects(PODS)] == [True]
