"""Ownership: adoption and release by v1's rules, names that belong to others, children that the API refuses."""

from typing import Any

import pytest

from steelyard.operator.controller import Controller
from steelyard.operator.desired import Event
from steelyard.operator.edge import NullRecorder
from steelyard.operator.training.simulation.job_simulation import (
    NAMESPACE,
    SETTINGS,
    JobSimulation,
    StoreCaches,
    make_job,
)
from steelyard_common.types import Json
from steelyard_kube.errors import ApiError, BadRequest, Forbidden, Invalid
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.objects import find_controller
from steelyard_kube.resource import PODS, PYTORCH_JOBS, Resource

NAMES = ["job-master-0", "job-worker-0", "job-worker-1"]


def orphan(name: str = "job-worker-0", index: str = "0", **labels: str) -> Json:
    given = {
        "training.kubeflow.org/job-name": "job",
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": index,
        **labels,
    }
    metadata = {"name": name, "namespace": NAMESPACE, "labels": given}
    return {"metadata": metadata, "spec": {"containers": [{"name": "pytorch", "image": "train"}]}}


def owner(simulation: JobSimulation, name: str) -> Json | None:
    return find_controller(simulation.pods()[name])


def test_an_object_with_the_labels_and_no_controller_is_adopted() -> None:
    simulation = JobSimulation(make_job())
    uid = simulation.store.create(PODS, orphan())["metadata"]["uid"]
    simulation.settle()
    assert sorted(simulation.pods()) == NAMES
    assert simulation.pods()["job-worker-0"]["metadata"]["uid"] == uid
    assert (owner(simulation, "job-worker-0") or {})["uid"] == simulation.job["metadata"]["uid"]
    assert simulation.run().end("job-master-0").settle().state == "Succeeded"


def test_a_finished_or_suspended_job_adopts_nothing() -> None:
    simulation = JobSimulation(make_job(policy={"suspend": True})).settle()
    simulation.store.create(PODS, orphan())
    simulation.settle()
    assert owner(simulation, "job-worker-0") is None


def test_what_has_lost_its_labels_is_let_go_and_stands_in_the_way_of_its_name() -> None:
    simulation = JobSimulation(make_job()).settle().run()
    pod = simulation.pods()["job-worker-0"]
    pod["metadata"]["labels"]["training.kubeflow.org/operator-name"] = "somebody-else"
    simulation.store.put(pod)
    simulation.settle()
    assert owner(simulation, "job-worker-0") is None
    assert simulation.state == "Failed"
    assert (
        simulation.read_message("Failed") == "Pod job-worker-0 exists and belongs to nobody that controls it"
    )


def test_what_has_lost_the_label_by_which_it_is_watched_is_let_go() -> None:
    simulation = JobSimulation(make_job()).settle().run()
    pod = simulation.pods()["job-worker-0"]
    del pod["metadata"]["labels"]["training.kubeflow.org/job-name"]
    simulation.store.put(pod)
    simulation.settle()
    assert owner(simulation, "job-worker-0") is None
    assert simulation.state == "Failed"


@pytest.mark.parametrize(
    ("labels", "whose"),
    [
        ({"training.kubeflow.org/job-name": "other"}, "nobody that controls it"),
        ({"training.kubeflow.org/operator-name": "tfjob-controller"}, "nobody that controls it"),
    ],
)
def test_a_name_that_is_taken_fails_the_job_and_leaves_the_other_alone(labels: Json, whose: str) -> None:
    simulation = JobSimulation(make_job())
    theirs = simulation.store.create(PODS, orphan(**labels))
    simulation.settle()
    assert simulation.state == "Failed"
    assert simulation.condition("Failed") is not None
    assert (simulation.condition("Failed") or {})["reason"] == "PyTorchJobFailed"
    assert simulation.read_message("Failed") == f"Pod job-worker-0 exists and belongs to {whose}"
    assert simulation.pods()["job-worker-0"] == theirs
    assert simulation.status["completionTime"]


def test_two_jobs_of_one_name_and_of_two_kinds_do_not_share_pods() -> None:
    simulation = JobSimulation(make_job()).settle()
    before = simulation.pods()
    other = make_job("XGBoostJob")
    simulation.store.create(
        simulation.key.resource, {**other, "metadata": {"name": "x", "namespace": NAMESPACE}}
    )
    assert simulation.settle().pods() == before


def refuse(simulation: JobSimulation, error: Exception) -> None:
    def before(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource, name) == ("create", PODS, "job-worker-1"):
            raise error

    simulation.cluster.before_call = before


@pytest.mark.parametrize("error", [Invalid, BadRequest])
def test_a_pod_that_the_api_finds_invalid_or_cannot_read_fails_the_job(error: type[ApiError]) -> None:
    simulation = JobSimulation(make_job())
    refuse(simulation, error("spec.containers[0].image: is required"))
    simulation.settle()
    assert simulation.state == "Failed"
    assert (simulation.condition("Failed") or {})["reason"] == "PyTorchJobFailedValidation"
    assert simulation.read_message("Failed") == "Pod job-worker-1: spec.containers[0].image: is required"


def test_a_pod_that_exceeds_a_quota_is_tried_again() -> None:
    simulation = JobSimulation(make_job())
    refuse(simulation, Forbidden("exceeded quota"))
    simulation.step()
    with pytest.raises(Forbidden):
        simulation.step()
    simulation.cluster.before_call = None
    assert sorted(simulation.settle().pods()) == NAMES


def test_a_job_of_many_replicas_is_made_in_one_reconciliation_many_at_a_time() -> None:
    simulation = JobSimulation(make_job(replicas={"Worker": 100}))
    simulation.settle()
    assert len(simulation.pods()) == 100
    assert simulation.key.resource == PYTORCH_JOBS


def test_a_job_of_many_hundred_replicas_leaves_turns_to_others() -> None:
    simulation, made = JobSimulation(make_job(replicas={"Worker": 200})), list[int]()
    simulation.step()
    for _ in range(2):
        simulation.step()
        made.append(len(simulation.pods()) + len(simulation.services()))
        assert simulation.look is None or simulation.look > simulation.now
    assert made == [256, 400]
    assert simulation.settle().look is None


def test_of_many_that_fail_the_rest_is_not_tried() -> None:
    simulation, tried = JobSimulation(make_job(replicas={"Worker": 100})), list[str]()

    def before(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource) == ("create", PODS):
            tried.append(name)
            raise Forbidden("exceeded quota")

    simulation.step()
    simulation.cluster.before_call = before
    with pytest.raises(Forbidden):
        simulation.step()
    assert len(tried) == 1, "in memory no call waits, so the first refusal comes before the second call"


def test_a_definition_that_keeps_no_status_of_ours_is_reported_and_not_written_to_for_ever() -> None:
    reasons: list[str] = []

    class Pruning(MemoryCluster):
        async def patch(self, resource: Resource, name: str, patch: Any, *rest: Any, **more: Any) -> Json:
            if resource == PYTORCH_JOBS:
                kept = {"conditions", "replicaStatuses", "startTime", "completionTime"}
                patch = {
                    **patch,
                    "status": {key: patch["status"][key] for key in kept & patch["status"].keys()},
                }
            return await super().patch(resource, name, patch, *rest, **more)

    class EventReasons(NullRecorder):
        def record_event(self, resource: Json, event: Event) -> None:
            reasons.append(event.reason)

    simulation = JobSimulation(make_job())
    pruning = Pruning()
    pruning.store = simulation.store
    simulation.controller = Controller(pruning, StoreCaches(simulation.cluster, SETTINGS), EventReasons())
    simulation.settle()
    assert "StatusNotKept" in reasons
    assert sorted(simulation.pods()) == NAMES
