"""Outcomes of Jobs, from their conditions and Pods; and whose children count."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard.operator.children import JobOutcome, job_outcome, observe, termination_message
from steelyard.operator.names import OWNER, labels, owner_reference
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.resources import make_evaluation
from steelyard_common.awake import Sleep, Sleeps
from steelyard_common.types import Json

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
SETTINGS = OperatorSettings()
EVALUATION = make_evaluation()


def make_job(*conditions: tuple[str, str], since: timedelta = timedelta(minutes=1), **metadata: Any) -> Json:
    listed = [
        {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": text(since)}
        for kind, reason in conditions
    ]
    owned = {"ownerReferences": [owner_reference(EVALUATION)], "labels": labels(EVALUATION, "client")}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "e-client-a1", "uid": "job-1", **owned, **metadata},
        "status": {"conditions": listed},
    }


def text(ago: timedelta) -> str:
    return (NOW - ago).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_pod(ago: timedelta = timedelta(minutes=2), deleted: bool = False, **status: Any) -> Json:
    job = make_job()
    metadata = {
        "name": "e-client-a1-x",
        "namespace": EVALUATION["metadata"]["namespace"],
        "labels": labels(EVALUATION, "client"),
        "ownerReferences": [owner_reference(job)],
        "creationTimestamp": text(ago),
    }
    deletion = {"deletionTimestamp": text(timedelta())} if deleted else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata | deletion, "status": status}


def ended(exit_code: int, message: str = "", reason: str = "Error") -> Json:
    terminated = {"exitCode": exit_code, "reason": reason, "message": message}
    return {"phase": "Failed", "containerStatuses": [{"name": "step", "state": {"terminated": terminated}}]}


def waiting(reason: str) -> Json:
    return {
        "phase": "Pending",
        "containerStatuses": [{"name": "step", "image": "x", "state": {"waiting": {"reason": reason}}}],
    }


def unready(ago: timedelta, reason: str = "NodeNotReady") -> Json:
    ready = {"type": "Ready", "status": "False", "reason": reason, "lastTransitionTime": text(ago)}
    return {"phase": "Running", "conditions": [ready]}


def outcome(job: Json | None, *pods: Json) -> JobOutcome:
    return job_outcome(job, observe(EVALUATION, [job] if job else [], pods), NOW, SETTINGS)


FAILED = ("Failed", "BackoffLimitExceeded")
BAD_ROW = '{"code": "BadRequest", "message": "the row is refused", "row": "17"}'


@pytest.mark.parametrize(
    ("job", "pod", "code", "permanent", "counted"),
    [
        pytest.param(make_job(FAILED), ended(1, BAD_ROW), "BadRequest", False, True, id="worth a retry"),
        pytest.param(
            make_job(FAILED), ended(65, BAD_ROW), "BadRequest", True, True, id="exit 65 is for good"
        ),
        pytest.param(make_job(FAILED), ended(3, "Killed"), "", False, True, id="no last words"),
        pytest.param(
            make_job(FAILED), ended(137, reason="OOMKilled"), "OOMKilled", True, True, id="out of memory"
        ),
        pytest.param(
            make_job(FAILED),
            {"phase": "Failed", "reason": "Evicted"},
            "Disrupted",
            False,
            False,
            id="evicted",
        ),
        pytest.param(
            make_job(FAILED),
            {**ended(143), "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
            "Disrupted",
            False,
            False,
            id="preempted, whatever it exited",
        ),
        pytest.param(
            make_job(FAILED),
            {"phase": "Failed", "reason": "BoundToAllAddresses", "message": "0.0.0.0:8000"},
            "BoundToAllAddresses",
            True,
            True,
            id="listens on all addresses",
        ),
        pytest.param(
            make_job(("Failed", "DeadlineExceeded")), ended(143), "Timeout", True, True, id="its deadline"
        ),
        pytest.param(
            make_job(), unready(timedelta(minutes=3)), "NodeLost", False, False, id="its node is lost"
        ),
    ],
)
def test_a_failure_is_of_a_class(job: Json, pod: Json, code: str, permanent: bool, counted: bool) -> None:
    result = outcome(job, make_pod(**pod))
    assert (result.state, result.code, result.permanent, result.counted) == (
        "failed",
        code,
        permanent,
        counted,
    )


def test_a_pod_deleted_by_hand_is_a_disruption() -> None:
    stopped = make_pod(deleted=True, **ended(1, '{"code": "Terminated", "message": "by SIGTERM"}'))
    result = outcome(make_job(FAILED), stopped)
    assert (result.code, result.counted) == ("Disrupted", False)


def test_a_failed_job_without_a_pod_is_a_disruption_once_the_pod_had_time_to_show() -> None:
    early = outcome(make_job(FAILED, since=timedelta(seconds=1)))
    assert early.state == "waiting"
    assert early.requeue_at == NOW + timedelta(seconds=4)
    late = outcome(make_job(FAILED, since=timedelta(seconds=5)))
    assert (late.state, late.counted) == ("failed", False)
    ahead = outcome(make_job(FAILED, since=timedelta(hours=-5)))
    assert ahead.state == "failed", "the clock was set back since"


def test_no_failure_is_concluded_from_time_that_the_machine_slept() -> None:
    slept = SETTINGS.model_copy(update={"sleeps": Sleeps((Sleep(NOW, 3600),))})
    for pod in (
        make_pod(timedelta(minutes=65), **waiting("ErrImagePull")),
        make_pod(**unready(timedelta(minutes=61))),
    ):
        job = make_job()
        assert job_outcome(job, observe(EVALUATION, [job], [pod]), NOW, SETTINGS).state == "failed"
        assert job_outcome(job, observe(EVALUATION, [job], [pod]), NOW, slept).state != "failed"


@pytest.mark.parametrize(
    "reason", ["ErrImageNeverPull", "ImagePullBackOff", "ErrImagePull", "InvalidImageName"]
)
def test_an_image_may_be_missing_for_ten_minutes(reason: str) -> None:
    early = outcome(make_job(), make_pod(timedelta(minutes=9), **waiting(reason)))
    assert (early.state, early.requeue_at) == ("waiting", NOW + timedelta(minutes=1))
    late = outcome(make_job(), make_pod(timedelta(minutes=10), **waiting(reason)))
    assert (late.state, late.code, late.permanent) == ("failed", "BadImage", True)


def test_a_node_may_be_silent_for_two_minutes() -> None:
    result = outcome(make_job(), make_pod(**unready(timedelta(seconds=90))))
    assert (result.state, result.requeue_at) == ("running", NOW + timedelta(seconds=30))


def test_a_job_that_is_gone_or_ended_well_or_waits_for_a_node() -> None:
    assert outcome(None).state == "missing"
    assert outcome(make_job(("Complete", ""))).state == "succeeded"
    no_room = {"type": "PodScheduled", "status": "False", "message": "0 of 1 nodes have room"}
    result = outcome(make_job(), make_pod(conditions=[no_room]))
    assert (result.state, result.code) == ("waiting", "Unschedulable")


def test_last_words_name_the_row_and_survive_what_is_not_json() -> None:
    assert termination_message({"message": BAD_ROW}) == ("BadRequest", "the row is refused (row 17)")
    assert termination_message({"message": "Traceback …"}) == ("", "Traceback …")
    assert termination_message({"message": "[1]"}) == ("", "[1]")
    assert termination_message({}) == ("", "")


def test_only_children_that_the_resource_controls_count() -> None:
    predecessor = make_evaluation()
    predecessor["metadata"]["uid"] = "an-older-uid"
    inherited = make_job(("Complete", ""), ownerReferences=[owner_reference(predecessor)])
    labelled = make_job(("Complete", ""), ownerReferences=[])
    pod = make_pod()
    pod["metadata"]["labels"][OWNER] = "an-older-uid"
    children = observe(EVALUATION, [inherited, labelled], [pod])
    assert (children.objects, children.pods) == ((), ())


def test_a_pod_of_another_namespace_does_not_count_whatever_its_labels_say() -> None:
    own, foreign = make_pod(), make_pod()
    foreign["metadata"]["namespace"] = "acct-mallory"
    assert observe(EVALUATION, [], [foreign, own]).pods == (own,)
