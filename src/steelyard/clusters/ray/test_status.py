"""The status of a Ray cluster: every state has a phase and its why, unknown ones too."""

from typing import Any

import pytest

from steelyard.clusters.queues.view import QueuePosition
from steelyard.clusters.ray.doubles import make_cluster, make_event, make_pod
from steelyard.clusters.ray.status import cluster_status
from steelyard_common.types import Json


@pytest.mark.parametrize(
    ("state", "spec", "phase"),
    [
        ("ready", {}, "Ready"),
        ("", {}, "Starting"),
        ("failed", {}, "Failed"),
        ("unhealthy", {}, "Failed"),
        ("suspended", {"suspend": True}, "Suspended"),
        ("suspended", {}, "Starting"),
        ("Terminating", {}, "Unknown"),
        ("a word of a later version", {}, "Unknown"),
    ],
)
def test_defect_4_each_state_has_a_phase(state: str, spec: dict[str, Any], phase: str) -> None:
    status = cluster_status(make_cluster(state=state, **spec))
    assert status.phase == phase
    assert status.name in str(status)


@pytest.mark.parametrize(
    "resource",
    [
        {},
        {"metadata": {"name": "a"}, "status": None},
        {"metadata": {"name": "a"}, "spec": [], "status": {"state": 7, "conditions": "x"}},
        {"metadata": {"name": "a"}, "spec": {"workerGroupSpecs": ["x"]}, "status": {"conditions": [1]}},
    ],
)
def test_a_cluster_that_is_written_strangely_has_a_status_too(resource: dict[str, Any]) -> None:
    assert cluster_status(resource).phase in ("Starting", "Unknown")


def test_an_image_that_is_not_there_is_named() -> None:
    pod = make_pod("demo-head", waiting=("ImagePullBackOff", "Back-off pulling image"))
    status = cluster_status(make_cluster(), [pod])
    assert (status.phase, status.reason, status.stuck) == ("Starting", "ImagePullBackOff", True)
    assert "image ray:nowhere" in status.message
    assert "Pod demo-head" in status.message


def test_a_pod_that_fits_nowhere_is_reported_and_may_still_find_a_place() -> None:
    pod = make_pod("demo-head", conditions=[
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"},
    ])  # fmt: skip
    status = cluster_status(make_cluster(), [pod])
    assert (status.reason, status.stuck) == ("Unschedulable", False)


def test_events_of_its_own_pods_are_reported_and_those_of_others_are_not() -> None:
    pods = [make_pod("demo-head"), make_pod("other-head", cluster="other")]
    events = [
        make_event("Pod", "demo-head", "FailedMount", "no such secret"),
        make_event("Pod", "other-head", "FailedMount", "not ours"),
        make_event("RayCluster", "demo", "FailedToCreateHeadPod", "quota"),
        make_event("RayCluster", "demo", "CreatedHeadPod", "fine", type="Normal"),
    ]
    status = cluster_status(make_cluster(), pods, events)
    assert [problem.message for problem in status.problems] == ["no such secret", "quota"]


def test_events_of_an_earlier_cluster_of_the_same_name_are_left_out() -> None:
    pod = make_pod("demo-head")
    pod["metadata"]["uid"] = "new"
    cluster = make_cluster()
    events = [
        make_event(kind, name, reason, reason)
        for kind, name, reason in (
            ("Pod", "demo-head", "Failed"),
            ("Pod", "demo-head", "BackOff"),
            ("RayCluster", "demo", "A"),
        )
    ]
    for event, uid in zip(events, ("old", "new", "uid-of-another"), strict=True):
        event["involvedObject"]["uid"] = uid
    assert [problem.message for problem in cluster_status(cluster, [pod], events).problems] == ["BackOff"]


@pytest.mark.parametrize(
    ("state", "counts", "workers"),
    [
        ("", {"availableWorkerReplicas": 2}, 0),
        ("", {"availableWorkerReplicas": 2, "readyWorkerReplicas": 1}, 1),
        ("ready", {"availableWorkerReplicas": 2}, 2),
    ],
    ids=["none is ready", "one is ready", "a KubeRay that does not count the ready ones"],
)
def test_workers_that_run_and_are_not_ready_do_not_count(
    state: str, counts: dict[str, int], workers: int
) -> None:
    cluster = make_cluster(state=state)
    cluster["status"] |= counts
    assert cluster_status(cluster).workers == workers


@pytest.mark.parametrize(
    ("groups", "status", "generation", "pods", "complete"),
    [
        ([{"replicas": 2}], {"readyWorkerReplicas": 2}, 1, (), True),
        ([{"replicas": 3}], {"readyWorkerReplicas": 2}, 2, (), False),
        ([{"replicas": 1}], {"readyWorkerReplicas": 2}, 2, (), False),
        ([{"replicas": 1, "minReplicas": 2}], {"readyWorkerReplicas": 2}, 1, (), True),
        ([{"replicas": 1, "numOfHosts": 2}], {"readyWorkerReplicas": 2}, 1, (), True),
        ([{"replicas": 0}], {}, 1, (), True),
        ([{"replicas": 1}], {"availableWorkerReplicas": 1, "conditions": []}, 1, (), False),
        ([{"replicas": 1}], {"readyWorkerReplicas": 1}, 2, ("old",), False),
        ([{"replicas": 1}], {"readyWorkerReplicas": 1}, 2, ("group-0",), True),
        ([{"replicas": 1}], {"readyWorkerReplicas": 1}, 2, (), True),
    ],
    ids=[
        "all are there",
        "more are wanted",
        "fewer are wanted",
        "no fewer than the minimum",
        "replicas of two hosts",
        "none is wanted",
        "one runs and is not ready",
        "as many of another group",
        "a KubeRay that does not count generations",
        "the account may see no Pods",
    ],
)
def test_a_ready_cluster_is_complete_with_the_workers_that_its_specification_asks_for(
    groups: list[Json], status: Json, generation: int, pods: tuple[str, ...], complete: bool
) -> None:
    specs = [{"groupName": f"group-{number}", **group} for number, group in enumerate(groups)]
    cluster = make_cluster(workerGroupSpecs=specs)
    cluster["metadata"]["generation"] = generation
    cluster["status"] = {"state": "ready", "observedGeneration": 1, **status}
    made = [make_pod(name, conditions=[{"type": "Ready", "status": "True"}]) for name in pods]
    for pod, name in zip(made, pods, strict=True):
        pod["metadata"]["labels"]["ray.io/group"] = name
    now = cluster_status(cluster, made)
    assert (now.phase, now.complete) == ("Ready", complete)


def test_with_the_autoscaler_a_cluster_is_complete_with_the_fewest_workers() -> None:
    group = {"groupName": "workers", "replicas": 3, "minReplicas": 1, "maxReplicas": 4}
    cluster = make_cluster(state="ready", workerGroupSpecs=[group], enableInTreeAutoscaling=True)
    status = cluster_status(cluster)
    assert (status.complete, str(status)) == (True, "demo: Ready, 1 of 3 workers")


def test_a_pod_that_waits_for_room_is_named_once_and_one_that_has_found_room_not_at_all() -> None:
    message = "0/1 nodes are available: 1 Insufficient cpu"
    waiting = make_pod("demo-head", conditions=[
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message},
    ])  # fmt: skip
    placed = make_pod("demo-worker")
    placed["spec"]["nodeName"] = "node"
    events = [make_event("Pod", name, "FailedScheduling", message) for name in ("demo-head", "demo-worker")]
    status = cluster_status(make_cluster(), [waiting, placed], events)
    assert [(problem.object, problem.reason) for problem in status.problems] == [
        ("Pod demo-head", "Unschedulable")
    ]


def test_a_cluster_in_a_queue_says_its_place_and_what_it_waits_for() -> None:
    place = QueuePosition("team", "raycluster-demo", 2, 5, "insufficient quota for cpu")
    status = cluster_status(make_cluster(state="suspended", suspend=True), place=place)
    assert (status.phase, status.message) == (
        "Queued",
        "place 2 of 5 in queue team: insufficient quota for cpu",
    )


def test_the_reason_of_a_failure_is_reported() -> None:
    cluster = make_cluster(state="failed")
    cluster["status"]["reason"] = "pods is forbidden: exceeded quota"
    assert "exceeded quota" in str(cluster_status(cluster))


def test_a_cluster_that_is_deleted_says_so() -> None:
    cluster = make_cluster(state="ready")
    cluster["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert cluster_status(cluster).phase == "Deleting"
