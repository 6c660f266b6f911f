"""The view of a job: its state, its end and the cause of it."""

from typing import Any

import pytest

from steelyard.clusters.training.doubles import condition, make_job
from steelyard.clusters.training.records import ending
from steelyard.clusters.training.view import JobView


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([], "New"),
        (["Created"], "Created"),
        (["Created", "Running"], "Running"),
        (["Created", "Restarting"], "Restarting"),
        (["Created", condition("Running", "False"), "Suspended"], "Suspended"),
        (["Created", condition("Suspended", "False"), "Running"], "Running"),
        (["Created", condition("Running", "False"), "Failed"], "Failed"),
    ],
)
def test_the_state_is_the_condition_that_holds(conditions: list[Any], state: str) -> None:
    assert JobView(make_job(conditions=conditions)).state == state


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (1, "Error", "ended with exit code 1"),
        (137, "Error", "was killed (SIGKILL, exit code 137)"),
        (137, "OOMKilled", "ran out of memory (exit code 137)"),
        (139, "", "was killed (SIGSEGV, exit code 139)"),
        (190, "", "was killed (signal 62, exit code 190)"),
        (None, "Evicted", "ended: Evicted"),
        (2, "StartError", "ended with exit code 2 (StartError)"),
        (None, "", "failed"),
    ],
)
def test_an_end_is_reported_in_words(code: int | None, reason: str, expected: str) -> None:
    assert ending(code, reason) == expected


def failure(index: int, code: int | None, action: str = "Restart") -> dict[str, Any]:
    return {"type": "Worker", "index": index, "exitCode": code, "action": action, "message": "boom\n"}


@pytest.mark.parametrize(
    ("failures", "code"),
    [
        ([], 1),
        ([failure(0, 137), failure(1, 3, "Fail")], 3),
        ([failure(0, 137, "Fail"), failure(1, 3, "Fail")], 137),
        ([failure(0, 137)], 1),
        ([failure(0, None, "Fail")], 1),
    ],
)
def test_a_failed_job_ends_as_the_replica_that_failed_it(failures: list[Any], code: int) -> None:
    assert JobView(make_job(conditions=["Failed"], failures=failures)).exit_code == code


def test_restarts_in_place_that_used_up_the_limit_end_it_as_the_last_of_them() -> None:
    spent = condition("Failed", message="Job x has failed because it has reached the specified backoff limit")
    assert JobView(make_job(conditions=[spent], failures=[failure(0, 1), failure(0, 9)])).exit_code == 9


def test_replicas_are_all_there_also_before_the_operator_has_seen_the_job() -> None:
    job = JobView(make_job(workers=2, replicas=[{"type": "Worker", "index": 1, "phase": "Running"}]))
    assert [(replica.name, replica.phase) for replica in job.replicas] == [
        ("worker-0", "Pending"),
        ("worker-1", "Running"),
    ]
    assert (job.running, job.counts) == (1, {"Worker": 2})


def test_what_a_job_leaves_to_its_framework_is_as_many_as_there_are() -> None:
    job = make_job(conditions=["Created"])
    del job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"]
    assert JobView(job).counts == {"Worker": 1}
    job["status"]["replicas"] = [{"type": "Worker", "index": index} for index in range(4)]
    assert JobView(job).counts == {"Worker": 4}
    assert [replica.name for replica in JobView(job).replicas] == [
        "worker-0",
        "worker-1",
        "worker-2",
        "worker-3",
    ]


@pytest.mark.parametrize("consequence", [True, False])
def test_a_consequence_is_what_the_operator_calls_so_and_not_each_failure_that_is_not_counted(
    consequence: bool,
) -> None:
    entry = {"type": "Worker", "index": 0, "exitCode": 1, "action": "Restart", "counted": False}
    job = make_job(failures=[{**entry, "consequence": True} if consequence else entry])
    assert JobView(job).failures[0].consequence is consequence


@pytest.mark.parametrize(
    "spec",
    [
        None,
        "text",
        {"pytorchReplicaSpecs": "text", "runPolicy": 7, "outputs": ["x"]},
        {"pytorchReplicaSpecs": {"Worker": "text"}, "runPolicy": {"backoffLimit": "6"}},
        {"pytorchReplicaSpecs": {"Worker": {"replicas": 2**31}}, "outputs": {"model": "digits"}},
        {"roles": {"worker": {"replicas": "3"}}},
    ],
)
def test_a_job_that_is_written_wrongly_is_shown_all_the_same(spec: object) -> None:
    job = JobView({**make_job(), "spec": spec})
    assert job.replicas == () or len(job.replicas) == 1
    assert (job.suspended, job.output_model, job.backoff_limit) == (False, "", None)
    assert job.framework
