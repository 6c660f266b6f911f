"""Texts about a job: its lines, the list, the description; and that our words are the operator's."""

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from steelyard.cli.train import describe, listing, logs, register, wording
from steelyard.cli.train.follower import Follower
from steelyard.cli.train.screen import Plain
from steelyard.clusters import names
from steelyard.clusters.training import frameworks, records, view
from steelyard.clusters.training.doubles import condition, make_job
from steelyard.clusters.training.following import Changed, PodsChanged
from steelyard.clusters.training.logs import Line
from steelyard.clusters.training.progress import Progress
from steelyard.clusters.training.view import JobView
from steelyard.operator.training import labels, model
from steelyard.operator.training.frameworks import ALL
from steelyard_common.errors import UsageError

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
STARTED = {"startTime": "2026-01-01T00:00:00Z"}


def replica(index: int, phase: str = "Running", attempt: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "Worker", "index": index, "phase": phase, "attempt": attempt, **more}


def failure(index: int, code: int, action: str = "Restart", **more: Any) -> dict[str, Any]:
    entry = {"type": "Worker", "index": index, "exitCode": code, "action": action, "counted": True}
    return {**entry, "message": 'Traceback\n{"progress": {"step": 1}}\nValueError: boom', **more}


def job(*conditions: Any, **status: Any) -> JobView:
    return JobView(make_job(conditions=conditions or ("Running",), **{**STARTED, **status}))


def line(text: str, second: int = 1, name: str = "worker-0") -> Line:
    return Line(name, 0, f"2026-01-01T00:00:{second:02}Z", text)


def shown(*events: Any, raw: bool = False) -> list[str]:
    out = io.StringIO()
    follower = Follower(Plain(out, clock=lambda: 0.0), job("Created"), raw=raw)
    for event in events:
        follower.see(event)
    return [text for text in out.getvalue().splitlines() if not text.startswith("starting")]


def test_lines_have_the_names_of_their_replicas_and_reports_are_shown() -> None:
    report = '{"progress": {"step": 5, "total": 10}}'
    said = shown(line("a"), line(report), line("b", name="master-0"))
    assert [said[0], said[2]] == ["worker-0 | a", "master-0 | b"]
    assert said[1].startswith("step 5 of 10, ")
    assert shown(line(report), raw=True) == [f"worker-0 | {report}"]
    assert shown(line(f"no end of line {report}"))[0] == "worker-0 | no end of line"


def test_what_happens_to_a_job_is_said() -> None:
    before = [replica(0), replica(1)]
    after = [replica(0, "Pending", 1), replica(1, "Pending", 1)]
    consequence = failure(0, 1, counted=False, consequence=True)
    said = shown(
        Changed(job("Running", replicas=before)),
        Changed(job("Restarting", replicas=after, failures=[failure(1, 137), consequence], restarts=1)),
        Changed(job(condition("Running", "False"), "Suspended", failures=[failure(1, 137), consequence])),
        Changed(job("Running", replicas=after, failures=[failure(1, 137), consequence])),
    )
    assert said == [
        "pytorchjob/digits is running: 2 Workers",
        "worker-1 was killed (SIGKILL, exit code 137); both replicas start again (restart 1)",
        "pytorchjob/digits is stopped",
        "pytorchjob/digits goes on",
    ]


@pytest.mark.parametrize(
    ("status", "more", "expected"),
    [
        (
            {"waiting": {"reason": "ErrImageNeverPull", "message": "no"}},
            {},
            ["worker-0 waits: ErrImageNeverPull: no"],
        ),
        ({"waiting": {"reason": "ContainerCreating"}}, {}, []),
        ({"running": {}}, {}, []),
        (
            None,
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
            ["worker-0 waits: Unschedulable"],
        ),
    ],
)
def test_why_a_pod_does_not_start_is_said_once(
    status: Any, more: dict[str, Any], expected: list[str]
) -> None:
    pod = {
        "metadata": {"labels": {names.REPLICA_TYPE: "worker", names.REPLICA_INDEX: "0"}},
        "spec": {"containers": [{"name": "pytorch"}]},
        "status": {**more, "containerStatuses": [{"name": "pytorch", "state": status}] if status else []},
    }
    assert shown(PodsChanged((pod,)), PodsChanged((pod,))) == expected


def test_the_end_says_what_came_of_it() -> None:
    done = {"completionTime": "2026-01-01T00:00:30Z"}
    assert wording.end_text(job("Succeeded", results={"accuracy": 0.97123}, restarts=1, **done)) == (
        "pytorchjob/digits succeeded after 30 s, with 1 restart\nresult: accuracy 0.9712"
    )
    assert wording.end_text(job("Failed", failures=[failure(1, 3, "Fail")], **done)) == (
        "pytorchjob/digits failed after 30 s: worker-1 ended with exit code 3\n"
        "  its last lines:\n    Traceback\n    ValueError: boom"
    )
    short = wording.end_text(job("Succeeded", completionTime=STARTED["startTime"]))
    assert short == "pytorchjob/digits succeeded within a second"
    late = condition("Failed", message="PyTorchJob digits has failed because it was active longer than …")
    assert "active longer" in wording.end_text(job(late, failures=[failure(1, 137)], **done))


def test_a_list_has_a_line_for_each_job() -> None:
    two_jobs = [job("Running", replicas=[replica(0), replica(1, "Pending")], restarts=2), job("Failed")]
    assert [text.split() for text in listing.render(two_jobs, "table", NOW).splitlines()[1:]] == [
        ["digits", "PyTorch", "Running", "1/2", "running", "2", "60s"],
        ["digits", "PyTorch", "Failed", "2", "0", "60s"],
    ]
    assert listing.render(two_jobs, "name", NOW) == "pytorchjob/digits\npytorchjob/digits"
    assert len(json.loads(listing.render(two_jobs, "json", NOW))) == 2
    assert "default" in listing.render(two_jobs, "table", NOW, namespaces=True)


def test_a_description_begins_with_what_a_person_asks() -> None:
    failed = job(
        "Failed",
        replicas=[replica(0, "Failed", 1, exitCode=3, restarts=1), replica(1)],
        failures=[failure(1, 137), failure(0, 3, "Fail", attempt=1)],
        restarts=1,
        disruptions=2,
    )
    text = describe.description_text(failed, [], {"worker-1": Progress({"step": 7})}, [], NOW)
    for said in (
        "Job:      pytorchjob/digits in namespace default",
        "Progress: step 7",
        "Restarts: 1, and 2 not counted",
        "worker-0  Failed  2        1         3",
        "Failed because worker-0 ended with exit code 3 (attempt 2)\n  Traceback\n  ValueError: boom",
        "First failure: worker-1 was killed (SIGKILL, exit code 137) (attempt 1)",
        "worker-1  Ended ",
    ):
        assert said in text, text


def test_the_pods_that_a_finished_job_leaves_say_what_became_of_them() -> None:
    done = job("Succeeded", replicas=[replica(0, reason="ContainerCreating"), replica(1, "Pending")])
    pod = {
        "metadata": {"labels": {names.REPLICA_TYPE: "worker", names.REPLICA_INDEX: "0"}},
        "spec": {"containers": [{"name": "pytorch"}]},
        "status": {"phase": "Succeeded"},
    }
    rows = describe.description_text(done, [pod], {}, [], NOW).splitlines()
    assert [text.split()[:2] for text in rows if text.startswith("worker")] == [
        ["worker-0", "Succeeded"],
        ["worker-1", "Not"],
    ]
    assert "ContainerCreating" not in "".join(rows)


def test_a_description_says_which_gpus_each_replica_has() -> None:
    pod = {
        "metadata": {
            "labels": {names.REPLICA_TYPE: "worker", names.REPLICA_INDEX: "0"},
            "annotations": {"steelyard/gpus": "GPU-a,GPU-b"},
        },
        "spec": {"containers": [{"name": "pytorch"}]},
    }
    text = describe.description_text(job("Running", replicas=[replica(0)]), [pod], {}, [], NOW)
    assert "REPLICA   GPU\nworker-0  GPU-a\nworker-0  GPU-b" in text


def test_an_unknown_exit_code_is_not_shown() -> None:
    deleted = job("Running", replicas=[replica(0, exitCode=records.UNKNOWN_EXIT)])
    assert str(records.UNKNOWN_EXIT) not in describe.description_text(deleted, [], {}, [], NOW)


def test_a_job_that_waits_to_start_again_says_for_how_long_and_after_what() -> None:
    failures = [failure(0, 137), failure(1, 1, consequence=True), failure(2, 139, attempt=1)]
    waiting = job("Restarting", failures=failures, restarts=2, restartAt="2026-01-01T00:01:08Z")
    text = describe.description_text(waiting, [], {}, [], NOW)
    assert "Again in: 8.0 s" in text
    assert text.index("Last failure: worker-2") < text.index("First failure: worker-0")


@pytest.mark.parametrize(
    ("state", "gone", "expected"),
    [
        (
            "Suspended",
            True,
            "no logs are left: digits is stopped, and its logs were deleted with its Pods",
        ),
        (
            "Failed",
            True,
            "no logs are left: digits has failed, and its logs were deleted with its Pods",
        ),
        ("Failed", False, "nothing is written"),
        ("Running", False, "nothing is written yet"),
        ("Created", True, "nothing is written yet"),
    ],
)
def test_why_there_are_no_logs_is_said(state: str, gone: bool, expected: str) -> None:
    assert logs._no_lines_reason(job(state), gone=gone) == expected


@pytest.mark.parametrize(
    ("outputs", "promised", "why"),
    [
        ({"message": "links lead out"}, True, ": links lead out"),
        ({}, True, ": it is Failed, and only that of a job that has succeeded is kept"),
        ({}, False, "; run it with --output-model NAME"),
    ],
)
def test_why_there_is_no_output_is_said(outputs: dict[str, str], promised: bool, why: str) -> None:
    failed = job("Failed", outputs=outputs)
    failed.resource["metadata"]["annotations"] = {names.OUTPUT_MODEL: "m"} if promised else {}
    assert register._no_model_reason(failed) == why


def test_a_replica_that_the_job_does_not_have_is_refused() -> None:
    logs.check_replicas(job(), ["worker-1", "Worker", "digits-worker-0"])
    with pytest.raises(
        UsageError, match="--replica worker-2: digits has no such replica; there are worker-0, worker-1"
    ):
        logs.check_replicas(job(), ["worker-2"])


def test_our_words_are_the_operator_s() -> None:
    for name in ("JOB_NAME", "REPLICA_TYPE", "REPLICA_INDEX", "JOB_ROLE", "ATTEMPT", "RESTART_SCOPE"):
        assert getattr(names, name) == getattr(labels, name)
    for name in ("OUTPUT_MODEL", "CODE_DIGEST", "NAME_LIMIT"):
        assert getattr(names, name) == getattr(labels, name)
    assert records.UNKNOWN_EXIT == model.UNKNOWN_EXIT
    for known in frameworks.KNOWN:
        theirs = ALL[known.resource.kind]
        assert (known.specs, known.container) == (theirs.specs, theirs.container)
        assert known.known == tuple(role.name for role in theirs.roles)
    assert all(view.SPECS.search(framework.specs) for framework in ALL.values())
