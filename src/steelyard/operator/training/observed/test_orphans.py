"""Pods without a controller, and Pods that no cache shows: they are waited for, and never made twice."""

import pytest

from steelyard.operator.edge import Stale
from steelyard.operator.training.labels import ATTEMPT
from steelyard.operator.training.simulation.job_simulation import JobSimulation, make_job

PODS = ["job-master-0", "job-worker-0", "job-worker-1"]


def running() -> JobSimulation:
    return JobSimulation(make_job()).settle().run()


def orphaned(name: str) -> JobSimulation:
    """A job whose Pods all run; one has lost its owner."""
    simulation = running()
    pod = simulation.pods()[name]
    simulation.store.put({**pod, "metadata": {**pod["metadata"], "ownerReferences": []}})
    return simulation


def test_orphans_are_adopted() -> None:
    simulation = orphaned("job-worker-0")
    before = {name: pod["metadata"]["uid"] for name, pod in simulation.pods().items()}
    assert simulation.step().more, (
        "what it does next, it does with the Pod: no watch tells of what the cache knows"
    )
    simulation.settle()
    assert {name: pod["metadata"]["uid"] for name, pod in simulation.pods().items()} == before
    assert simulation.pods()["job-worker-0"]["metadata"]["ownerReferences"][0]["uid"]


def test_what_befalls_the_others_does_not_keep_an_orphan_from_its_job() -> None:
    simulation = orphaned("job-worker-0")
    simulation.evict("job-worker-1").settle()
    assert (sorted(simulation.pods()), simulation.status["disruptions"]) == (PODS, 1)


def test_an_adopted_pod_of_a_later_attempt_is_the_replicas() -> None:
    """A restore may lose the status of a job: its Pods are then at a later attempt than the status says."""
    simulation = orphaned("job-worker-0")
    pod = simulation.pods()["job-worker-0"]
    labels = {**pod["metadata"]["labels"], ATTEMPT: "3"}
    simulation.store.put({**pod, "metadata": {**pod["metadata"], "labels": labels}})
    simulation.settle()
    assert simulation.pods()["job-worker-0"]["metadata"]["uid"] == pod["metadata"]["uid"]
    assert attempts(simulation)["Worker", 0] == 3
    simulation.evict("job-worker-0").settle()
    assert simulation.pods()["job-worker-0"]["metadata"]["labels"][ATTEMPT] == "4"
    assert attempts(simulation)["Worker", 0] == 4


def attempts(simulation: JobSimulation) -> dict[tuple[str, int], int]:
    return {
        (replica["type"], replica["index"]): replica["attempt"] for replica in simulation.status["replicas"]
    }


def test_an_orphan_is_not_taken_for_gone() -> None:
    simulation = orphaned("job-worker-0")
    simulation.caches.blind.add("job-worker-0")
    with pytest.raises(Stale, match="has changed"):
        simulation.step()


def test_an_orphan_that_no_cache_shows_yet_is_waited_for() -> None:
    labels = {
        "training.kubeflow.org/job-name": "job",
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
    }
    simulation = JobSimulation(make_job())
    simulation.step()
    simulation.caches.blind.add("job-worker-0")
    metadata = {"name": "job-worker-0", "namespace": "default", "labels": labels}
    simulation.store.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    with pytest.raises(Stale, match="is to be adopted"):
        simulation.step()


def test_a_pod_that_the_cache_does_not_show_is_not_taken_for_gone() -> None:
    """A new process may have read the Pods before the jobs."""
    simulation = running()
    simulation.caches.blind.add("job-worker-0")
    with pytest.raises(Stale, match="has changed"):
        simulation.step()
