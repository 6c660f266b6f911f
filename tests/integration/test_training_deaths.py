"""E of `test_training.py`: an operator that dies at any of its calls comes to the same end, its timers kept."""

import json
import re
from contextlib import suppress
from datetime import timedelta

import pytest

from steelyard.operator.controller import Controller
from steelyard.operator.names import OWNER
from steelyard.operator.settings import TrainingSettings
from steelyard.operator.training.simulation.job_simulation import (
    SETTINGS,
    JobSimulation,
    StoreCaches,
    make_job,
)
from steelyard_common.types import Json
from steelyard_kube.errors import NotFound
from steelyard_kube.memory import Crash
from steelyard_kube.resource import CONFIG_MAPS, JOBS, MODELS, PODS, PYTORCH_JOBS, Resource

WITH_OUTPUTS = SETTINGS.model_copy(update={"training": TrainingSettings(outputs="/outputs")})


def fails_once(simulation: JobSimulation) -> None:
    """All run, a worker fails, the job starts again after a while, all succeed."""
    play(simulation, "run")
    play(simulation, "fail")
    play(simulation, "wait")
    play(simulation, "run")
    play(simulation, "succeed")


def play(simulation: JobSimulation, what: str) -> None:
    """One turn of events. The operator reconciles until nothing changes, however often it dies meanwhile."""
    match what:
        case "run":
            for name, pod in simulation.pods().items():
                if (pod.get("status") or {}).get("phase", "Pending") == "Pending":
                    put(simulation, name, "Running", {"running": {}})
        case "fail":
            put(
                simulation,
                "job-worker-0",
                "Failed",
                {"terminated": {"exitCode": 139, "message": "Segmentation fault"}},
            )
        case "succeed":
            for name in simulation.pods():
                put(simulation, name, "Succeeded", {"terminated": {"exitCode": 0}})
        case "wait":
            simulation.now += timedelta(hours=1)
    settle(simulation)


def put(simulation: JobSimulation, name: str, phase: str, state: Json) -> None:
    container = {"name": "pytorch", "restartCount": 0, "state": state}
    simulation.set_status(name, {"phase": phase, "containerStatuses": [container]})


def settle(simulation: JobSimulation) -> None:
    for _ in range(5):
        try:
            simulation.settle()
        except Crash:
            continue  # it starts again
        return
    raise AssertionError("it died more than once")


class Death:
    """The operator dies once, right before or right after its Nth call of the API."""

    def __init__(self, simulation: JobSimulation, number: int, when: str) -> None:
        self.calls = 0
        self._number = number
        simulation.cluster.before_call = self._before if when == "before" else None
        simulation.cluster.after_call = self._after

    def _before(self, verb: str, resource: Resource, name: str) -> None:
        if self.calls == self._number:
            self.calls += 1
            raise Crash(verb)

    def _after(self, verb: str, resource: Resource, name: str) -> None:
        self.calls += 1
        if self.calls == self._number:
            raise Crash(verb)


def story(number: int, when: str) -> tuple[JobSimulation, Death]:
    simulation = JobSimulation(make_job(restart="ExitCode", policy={"cleanPodPolicy": "Running"}))
    death = Death(simulation, number, when)
    settle(simulation)
    fails_once(simulation)
    return simulation, death


def outcome(simulation: JobSimulation) -> Json:
    """Return what must be the same after every order of events: all but times and versions."""
    made = {name: pod["metadata"]["labels"]["steelyard/attempt"] for name, pod in simulation.pods().items()}
    uids = {name: pod["metadata"]["uid"] for name, pod in simulation.pods().items()}
    status = re.sub(r'"resourceVersion": "\d+"', "", str(simulation.status))
    return {"pods": made, "services": simulation.services(), "status": status, "uids": uids}


@pytest.mark.parametrize("when", ["before", "after"])
def test_E_the_operator_killed_at_any_call_comes_to_the_same_end(when: str) -> None:
    undisturbed, death = story(-1, when)
    wanted, calls = outcome(undisturbed), death.calls
    assert undisturbed.state == "Succeeded"
    assert undisturbed.status["restarts"] == 1
    assert calls > 20
    for number in range(calls):
        simulation, _ = story(number, when)
        assert outcome(simulation) == wanted, f"killed {when} call {number}"


@pytest.mark.parametrize("when", ["before", "after"])
def test_E_a_deadline_outlives_the_operator(when: str) -> None:
    for number in range(8):
        simulation = JobSimulation(make_job(replicas={"Master": 1}, policy={"activeDeadlineSeconds": 600}))
        Death(simulation, number, when)
        settle(simulation)
        play(simulation, "run")
        simulation.now += timedelta(seconds=599)
        settle(simulation)
        assert simulation.state == "Running"
        assert simulation.look == simulation.now + timedelta(seconds=1)
        simulation.now += timedelta(seconds=1)
        settle(simulation)
        assert simulation.state == "Failed", f"killed {when} call {number}"


class WithJobs(StoreCaches):
    """Shows also what carries a job's output."""

    def __init__(self, simulation: JobSimulation) -> None:
        super().__init__(simulation.cluster, WITH_OUTPUTS)
        self.store = simulation.store

    def children(self, resource: Json) -> tuple[list[Json], list[Json]]:
        objects, pods = super().children(resource)
        uid = resource["metadata"]["uid"]
        carrying = [
            [
                obj
                for obj in self.store.objects(kind)
                if (obj["metadata"].get("labels") or {}).get(OWNER) == uid
            ]
            for kind in (CONFIG_MAPS, JOBS, PODS)
        ]
        return [*objects, *carrying[0], *carrying[1]], [*pods, *carrying[2]]


def carried(number: int, when: str) -> tuple[JobSimulation, Death]:
    """A job succeeds, and its output is carried away."""
    annotations = {"steelyard/output-model": "digits"}
    policy = {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 60}
    simulation = JobSimulation(
        make_job(replicas={"Master": 1}, annotations=annotations, policy=policy), WITH_OUTPUTS
    )
    simulation.controller = Controller(simulation.cluster, WithJobs(simulation))
    settle(simulation)
    play(simulation, "run")
    death = Death(simulation, number, when)
    play(simulation, "succeed")
    simulation.now += timedelta(seconds=90)
    settle(simulation)
    (carrier,) = simulation.store.objects(JOBS)
    words = json.dumps({"code": "Complete", "message": json.dumps({"bytes": 1, "output": "sha256:o"})})
    ended = {"terminated": {"exitCode": 0, "message": words}}
    labels = carrier["spec"]["template"]["metadata"]["labels"]
    metadata = {"name": "carrier", "namespace": "default", "labels": labels}
    metadata["ownerReferences"] = [{"uid": carrier["metadata"]["uid"], "controller": True}]
    status = {"phase": "Succeeded", "containerStatuses": [{"name": "step", "state": ended}]}
    simulation.store.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})
    complete = {"conditions": [{"type": "Complete", "status": "True"}]}
    simulation.store.set_status(JOBS, carrier["metadata"]["name"], "default", complete)
    with suppress(NotFound):  # it has gone: its time was over
        settle(simulation)
    return simulation, death


@pytest.mark.parametrize("when", ["before", "after"])
def test_E_an_output_becomes_one_model_wherever_the_operator_dies(when: str) -> None:
    undisturbed, death = carried(-1, when)
    (wanted,) = undisturbed.store.objects(MODELS)
    assert death.calls > 8
    for number in range(death.calls):
        simulation, _ = carried(number, when)
        (made,) = simulation.store.objects(MODELS)
        assert made["spec"] == wanted["spec"], f"killed {when} call {number}"
        assert len(simulation.store.objects(JOBS)) == 1
        assert simulation.store.objects(PYTORCH_JOBS) == [], "its time is over, and its output is kept"
