"""Reading of Pods: the framework's container decides, and what ended it."""

from typing import Any

import pytest

from steelyard.operator.training.frameworks import ALL
from steelyard.operator.training.labels import REPLICA_INDEX, REPLICA_TYPE
from steelyard.operator.training.observed.pods import ObservedPod, observe_pod
from steelyard.operator.training.parse import parse_job
from steelyard.operator.training.simulation.job_simulation import SETTINGS, make_job
from steelyard_common.types import Json

JOB = parse_job(make_job(), ALL["PyTorchJob"], SETTINGS)
LABELS = {REPLICA_TYPE: "worker", REPLICA_INDEX: "1"}
NOON = "2026-01-01T12:00:00Z"


def look(phase: str = "Running", policy: str = "Never", containers: Any = (), **more: Any) -> ObservedPod:
    metadata = {"name": "job-worker-1", "uid": "uid", "labels": LABELS, **more.pop("metadata", {})}
    status = {"phase": phase, "containerStatuses": list(containers), **more}
    observed = observe_pod({"metadata": metadata, "spec": {"restartPolicy": policy}, "status": status}, JOB)
    assert observed is not None
    return observed


def ended(code: int, name: str = "pytorch", at: str = NOON, **more: Any) -> Json:
    return {"name": name, "state": {"terminated": {"exitCode": code, "finishedAt": at}}, **more}


def sidecar(state: Json) -> Json:
    return {"name": "proxy", "state": state}


def condition(type: str, status: str, **more: str) -> Json:
    return {"type": type, "status": status, "lastTransitionTime": NOON, **more}


@pytest.mark.parametrize(
    ("pod", "phase"),
    [
        pytest.param(look("Pending"), "Pending", id="pending"),
        pytest.param(look("Unknown"), "Running", id="unknown"),
        pytest.param(
            look(containers=[sidecar({"running": {}}), ended(0)]), "Succeeded", id="a sidecar runs on"
        ),
        pytest.param(
            look(containers=[sidecar({"running": {}}), ended(3)]), "Failed", id="a sidecar hides nothing"
        ),
        pytest.param(
            look("Failed", containers=[ended(1, "proxy"), ended(0)]), "Succeeded", id="a sidecar's failure"
        ),
        pytest.param(
            look(policy="OnFailure", containers=[ended(1)]), "Running", id="the kubelet starts it again"
        ),
        pytest.param(look(policy="OnFailure", containers=[ended(0)]), "Succeeded", id="it has done its work"),
        pytest.param(look(policy="Always", containers=[ended(0)]), "Running", id="it always starts again"),
        pytest.param(look("Failed"), "Failed", id="no container tells"),
    ],
)
def test_the_frameworks_container_decides(pod: ObservedPod, phase: str) -> None:
    assert pod.phase == phase


def test_a_failure_without_exit_code_is_worth_a_retry() -> None:
    pod = look("Failed", reason="StartError", message="no")
    assert pod.termination is not None
    assert (pod.termination.exit_code, pod.termination.reason) == (0xBEEF, "StartError")


def test_an_init_container_says_why_the_others_never_began() -> None:
    ended = {"exitCode": 2, "reason": "Error", "message": "no such data"}
    pod = look(
        "Failed", initContainerStatuses=[{"name": "fetch", "state": {"terminated": ended}}]
    ).termination
    assert pod is not None
    assert (pod.exit_code, pod.message) == (
        0xBEEF,
        "init container fetch exited with code 2: no such data",
    )


DELETED = {"deletionTimestamp": "2026-01-01T12:00:30Z", "deletionGracePeriodSeconds": 30}
TARGET = condition("DisruptionTarget", "True", reason="PreemptionByScheduler")


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        pytest.param(look(), "", id="nothing"),
        pytest.param(look("Failed", reason="Evicted"), "Evicted", id="evicted"),
        pytest.param(look(metadata=DELETED), "Deleted", id="deleted"),
        pytest.param(
            look(metadata=DELETED, containers=[ended(0, at="2026-01-01T12:00:02Z")]), "Deleted", id="told to"
        ),
        pytest.param(
            look(metadata=DELETED, containers=[ended(0, at="2026-01-01T11:59:59Z")]), "", id="before that"
        ),
        pytest.param(
            look(metadata=DELETED, containers=[ended(1, at="2026-01-01T11:59:59Z")]), "", id="failed before"
        ),
        pytest.param(look(conditions=[TARGET]), "PreemptionByScheduler", id="preempted"),
        pytest.param(look(conditions=[condition("DisruptionTarget", "False")]), "", id="not preempted"),
    ],
)
def test_who_ended_it(pod: ObservedPod, why: str) -> None:
    assert pod.disruption == why


@pytest.mark.parametrize(
    ("conditions", "lost"),
    [
        pytest.param([condition("Ready", "True")], False, id="ready"),
        pytest.param([condition("Ready", "False", reason="ContainersNotReady")], False, id="not ready"),
        pytest.param([condition("Ready", "False", reason="NodeNotReady")], True, id="as we say it"),
        pytest.param(
            [condition("Ready", "False"), condition("ContainersReady", "True")],
            True,
            id="as Kubernetes says it",
        ),
        pytest.param(
            [condition("DisruptionTarget", "True", reason="DeletionByTaintManager")],
            True,
            id="thrown out by a taint",
        ),
    ],
)
def test_a_lost_node_is_known_by_the_marks_on_its_pods(conditions: list[Json], lost: bool) -> None:
    assert (look(conditions=conditions).lost_since is not None) == lost


@pytest.mark.parametrize(
    ("container", "policy", "count"),
    [
        pytest.param(ended(1, restartCount=1), "OnFailure", 2, id="it will start again"),
        pytest.param(ended(0, restartCount=1), "OnFailure", 1, id="it has done its work"),
        pytest.param({"name": "pytorch", "restartCount": 2, "state": {"running": {}}}, "OnFailure", 2, id="it runs"),
        pytest.param(
            {"name": "pytorch", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            "OnFailure", 3, id="it waits",
        ),
    ],
)  # fmt: skip
def test_a_restart_in_place_counts_as_soon_as_it_is_due(container: Json, policy: str, count: int) -> None:
    assert look(policy=policy, containers=[container]).in_place == count


def test_a_pod_whose_labels_name_no_replica_is_none() -> None:
    assert observe_pod({"metadata": {"labels": {REPLICA_TYPE: "boss", REPLICA_INDEX: "0"}}}, JOB) is None
    assert observe_pod({"metadata": {"labels": {REPLICA_TYPE: "worker", REPLICA_INDEX: "x"}}}, JOB) is None
