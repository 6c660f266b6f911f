"""Tests of Jobs through crashes, lost answers, lagging caches and taken names."""

import pytest

from steelyard_kube.errors import ServerTimeout
from steelyard_kube.memory import Crash, CrashAt
from steelyard_kube.resource import JOBS, PODS
from steelyard_local_kubernetes.controllers.edge import Edge
from steelyard_local_kubernetes.controllers.job import decide
from steelyard_local_kubernetes.controllers.job_simulation import ENDED, KEY, JobSimulation
from steelyard_local_kubernetes.controllers.kinds import JOB
from steelyard_local_kubernetes.controllers.objects import StoreView
from steelyard_local_kubernetes.controllers.sync import sync
from steelyard_local_kubernetes.controllers.writes import Refused


async def test_a_create_that_was_not_acknowledged_is_not_repeated_as_a_second_pod() -> None:
    simulation = JobSimulation()

    def lose_the_answer(verb: str, resource: object, name: str) -> None:
        if verb == "create":
            raise ServerTimeout("no answer")

    simulation.cluster.after_call = lose_the_answer
    lagging = StoreView(simulation.cluster)
    lagging.freeze(JOBS, PODS)
    blind = Edge(simulation.cluster, lagging, lambda: simulation.time)
    with pytest.raises(Refused, match="no answer"):
        await sync(blind, JOB, KEY)
    simulation.cluster.after_call = None
    await sync(blind, JOB, KEY)
    assert len(simulation.pods) == 1


async def test_a_name_that_anothers_pod_has_is_passed_over() -> None:
    simulation = JobSimulation()
    (wanted,) = decide(simulation.job, [], simulation.time).create
    foreign = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": wanted["metadata"]["name"], "namespace": "default"},
    }
    simulation.cluster.store.put(foreign)
    await simulation.settle()
    ours = [pod for pod in simulation.pods if pod["metadata"].get("ownerReferences")]
    assert len(ours) == 1
    assert len(simulation.pods) == 2


@pytest.mark.parametrize("outcome", ["Succeeded", "Failed"])
async def test_a_crash_between_any_two_calls_counts_each_pod_once(outcome: str) -> None:
    """The controller dies before, or just after, call n of its way from a new Job to its end, for every n."""
    want = {"Succeeded": ("Complete", 1, None), "Failed": ("Failed", None, 1)}[outcome]
    for after in (False, True):
        for call in range(1, 40):
            simulation = JobSimulation()
            crashed = await _run_with_crash(simulation, outcome, call, after=after)
            names = simulation.true_conditions()
            assert want == (
                "Complete" if "Complete" in names else "Failed" if "Failed" in names else None,
                simulation.status.get("succeeded"),
                simulation.status.get("failed"),
            ), f"crash at call {call}"
            assert len(simulation.pods) == 1
            if not crashed:
                break
        else:
            raise AssertionError("no run without a crash")


async def _run_with_crash(simulation: JobSimulation, outcome: str, call: int, *, after: bool) -> bool:
    crash = CrashAt(call)
    setattr(simulation.cluster, "after_call" if after else "before_call", crash)
    for _ in range(8):
        try:
            await sync(simulation.edge, JOB, KEY)
        except Crash:
            continue
        running = [pod for pod in simulation.pods if pod.get("status", {}).get("phase") not in ENDED]
        if running:
            simulation.end(outcome)
    return crash.calls >= call


async def test_a_lagging_cache_neither_doubles_pods_nor_counts() -> None:
    simulation = JobSimulation(completions=2)
    await simulation.settle()
    simulation.end("Succeeded")
    lagging = StoreView(simulation.cluster)
    lagging.freeze(JOBS, PODS)  # from here on it shows an end that is not counted yet
    behind = Edge(simulation.cluster, lagging, lambda: simulation.time)
    await simulation.settle()
    for _ in range(3):
        await sync(behind, JOB, KEY)
    await simulation.settle()
    assert simulation.status["succeeded"] == 1
    assert len(simulation.pods) == 2
