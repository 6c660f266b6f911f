"""Tests of how few writes a Job takes: a status is written when it has something to report that cannot wait."""

from datetime import timedelta

import pytest

from steelyard_common.types import Json
from steelyard_kube.errors import Forbidden
from steelyard_kube.resource import PODS, Resource
from steelyard_local_kubernetes.controllers.job import decide
from steelyard_local_kubernetes.controllers.job_simulation import KEY, JobSimulation
from steelyard_local_kubernetes.controllers.kinds import JOB
from steelyard_local_kubernetes.controllers.sync import sync
from steelyard_local_kubernetes.controllers.writes import Refused


def record_writes(simulation: JobSimulation) -> list[str]:
    writes: list[str] = []

    def note(verb: str, resource: Resource, name: str) -> None:
        if verb not in ("get", "list"):
            writes.append(f"{verb} {resource.kind}")

    simulation.cluster.before_call = note
    return writes


def become_ready(simulation: JobSimulation, number: int) -> None:
    at = simulation.time.strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at}
    pod = simulation.pods[number]
    status = {"phase": "Running", "conditions": [ready]}
    simulation.cluster.store.set_status(PODS, pod["metadata"]["name"], "default", status)


async def test_a_job_of_one_pod_takes_five_writes() -> None:
    simulation = JobSimulation()
    writes = record_writes(simulation)
    await sync(simulation.edge, JOB, KEY)
    assert writes == ["create Pod", "replace/status Job"]
    assert (simulation.status["active"], "startTime" in simulation.status) == (1, True)
    simulation.end("Succeeded")
    await sync(simulation.edge, JOB, KEY)
    assert writes[2:] == ["replace/status Job", "patch Pod", "replace/status Job"]
    assert "Complete" in simulation.true_conditions()


async def test_a_job_whose_pod_is_refused_has_a_start_from_which_its_deadline_counts() -> None:
    simulation = JobSimulation(activeDeadlineSeconds=60)

    def refuse(verb: str, resource: Resource, name: str) -> None:
        if verb == "create":
            raise Forbidden("exceeded quota")

    simulation.cluster.before_call = refuse
    with pytest.raises(Refused, match="exceeded quota"):
        await sync(simulation.edge, JOB, KEY)
    assert simulation.status["startTime"]
    simulation.time += timedelta(seconds=61)
    await sync(simulation.edge, JOB, KEY)
    assert simulation.true_conditions()["FailureTarget"] == "DeadlineExceeded"


async def test_a_resumed_job_says_so_before_it_has_pods() -> None:
    simulation = JobSimulation(suspend=True)
    await simulation.settle()
    simulation.change(suspend=False)
    writes = record_writes(simulation)
    await sync(simulation.edge, JOB, KEY)
    assert writes == ["replace/status Job", "create Pod", "replace/status Job"]


async def test_the_number_of_ready_pods_is_written_a_second_later() -> None:
    simulation = JobSimulation(parallelism=2, completions=2)
    await simulation.settle()
    become_ready(simulation, 0)
    assert await sync(simulation.edge, JOB, KEY) == 1.0
    assert not simulation.status["ready"]
    simulation.time += timedelta(seconds=0.8)
    become_ready(simulation, 1)  # does not put off what the first one made due
    assert await sync(simulation.edge, JOB, KEY) == pytest.approx(0.2)
    simulation.time += timedelta(seconds=0.2)
    await sync(simulation.edge, JOB, KEY)
    assert simulation.status["ready"] == 2


@pytest.mark.parametrize(
    ("conditions", "wait"),
    [
        ([{"type": "Ready", "status": "True"}], None),
        ([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T05:00:00Z"}], None),
    ],
    ids=["readiness without a time", "a clock that was set back"],
)
async def test_readiness_is_reported_at_once_where_its_time_says_nothing(
    conditions: list[Json], wait: float | None
) -> None:
    simulation = JobSimulation()
    await simulation.settle()
    status = {"phase": "Running", "conditions": conditions}
    simulation.cluster.store.set_status(PODS, simulation.pods[0]["metadata"]["name"], "default", status)
    decision = decide(simulation.job, simulation.pods, simulation.time)
    assert decision.status is not None
    assert (decision.status["ready"], decision.requeue_after) == (1, wait)


async def test_an_end_is_reported_whatever_waits() -> None:
    simulation = JobSimulation(parallelism=2, completions=2)
    await simulation.settle()
    become_ready(simulation, 0)
    simulation.end("Succeeded", of=simulation.pods[1])
    await sync(simulation.edge, JOB, KEY)
    assert (simulation.status["succeeded"], simulation.status["ready"]) == (1, 1)
