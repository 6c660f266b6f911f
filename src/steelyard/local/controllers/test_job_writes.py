"""Tests of how few writes a Job takes: a status is written when it has something to tell that cannot wait."""

from datetime import timedelta

import pytest

from steelyard.kube.errors import Forbidden
from steelyard.kube.resource import PODS, Resource
from steelyard.local.controllers.job import decide
from steelyard.local.controllers.job_world import KEY, World
from steelyard.local.controllers.kinds import JOB
from steelyard.local.controllers.sync import sync
from steelyard.types import Json


def record_writes(world: World) -> list[str]:
    writes: list[str] = []

    def note(verb: str, resource: Resource, name: str) -> None:
        if verb not in ("get", "list"):
            writes.append(f"{verb} {resource.kind}")

    world.cluster.before_call = note
    return writes


def become_ready(world: World, number: int) -> None:
    at = world.time.strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at}
    pod = world.pods[number]
    status = {"phase": "Running", "conditions": [ready]}
    world.cluster.store.set_status(PODS, pod["metadata"]["name"], "default", status)


async def test_a_job_of_one_pod_takes_five_writes() -> None:
    world = World()
    writes = record_writes(world)
    await sync(world.edge, JOB, KEY)
    assert writes == ["create Pod", "replace/status Job"]
    assert (world.status["active"], "startTime" in world.status) == (1, True)
    world.end("Succeeded")
    await sync(world.edge, JOB, KEY)
    assert writes[2:] == ["replace/status Job", "patch Pod", "replace/status Job"]
    assert "Complete" in world.true_conditions()


async def test_a_job_whose_pod_is_refused_has_a_start_from_which_its_deadline_counts() -> None:
    world = World(activeDeadlineSeconds=60)

    def refuse(verb: str, resource: Resource, name: str) -> None:
        if verb == "create":
            raise Forbidden("exceeded quota")

    world.cluster.before_call = refuse
    with pytest.raises(Forbidden):
        await sync(world.edge, JOB, KEY)
    assert world.status["startTime"]
    world.time += timedelta(seconds=61)
    await sync(world.edge, JOB, KEY)
    assert world.true_conditions()["FailureTarget"] == "DeadlineExceeded"


async def test_a_resumed_job_says_so_before_it_has_pods() -> None:
    world = World(suspend=True)
    await world.settle()
    world.change(suspend=False)
    writes = record_writes(world)
    await sync(world.edge, JOB, KEY)
    assert writes == ["replace/status Job", "create Pod", "replace/status Job"]


async def test_the_number_of_ready_pods_is_written_a_second_later() -> None:
    world = World(parallelism=2, completions=2)
    await world.settle()
    become_ready(world, 0)
    assert await sync(world.edge, JOB, KEY) == 1.0
    assert not world.status["ready"]
    world.time += timedelta(seconds=0.8)
    become_ready(world, 1)  # does not put off what the first one made due
    assert await sync(world.edge, JOB, KEY) == pytest.approx(0.2)
    world.time += timedelta(seconds=0.2)
    await sync(world.edge, JOB, KEY)
    assert world.status["ready"] == 2


@pytest.mark.parametrize(
    ("conditions", "wait"),
    [
        ([{"type": "Ready", "status": "True"}], None),
        ([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T05:00:00Z"}], None),
    ],
    ids=["readiness without a time", "a clock that was set back"],
)
async def test_readiness_is_told_at_once_where_its_time_says_nothing(
    conditions: list[Json], wait: float | None
) -> None:
    world = World()
    await world.settle()
    status = {"phase": "Running", "conditions": conditions}
    world.cluster.store.set_status(PODS, world.pods[0]["metadata"]["name"], "default", status)
    decision = decide(world.job, world.pods, world.time)
    assert decision.status is not None
    assert (decision.status["ready"], decision.requeue_after) == (1, wait)


async def test_an_end_is_told_whatever_waits() -> None:
    world = World(parallelism=2, completions=2)
    await world.settle()
    become_ready(world, 0)
    world.end("Succeeded", of=world.pods[1])
    await sync(world.edge, JOB, KEY)
    assert (world.status["succeeded"], world.status["ready"]) == (1, 1)
