"""Restarts by the kubelet, which replicas of OnFailure and Always have, as v1's Pods do."""

import pytest

from steelyard.operator.training.test_dl_job import PODS, renewed, running, uids


def test_restarts_in_place_are_counted() -> None:
    simulation = running(policy={"backoffLimit": 4})
    before = uids(simulation)
    for count in (1, 3):
        simulation.again("job-worker-0", count).settle()
        assert (simulation.state, simulation.status["restarts"]) == ("Running", count)
    assert simulation.replica("job-worker-0")["inPlace"] == 3
    assert simulation.status["failures"][0]["exitCode"] == 1
    assert renewed(simulation, before) == []


@pytest.mark.parametrize(
    ("limit", "counts", "state", "restarts"),
    [
        pytest.param(0, {"job-worker-0": 1}, "Failed", 0, id="none is allowed"),
        pytest.param(1, {"job-worker-0": 1}, "Failed", 1, id="the first reaches it"),
        pytest.param(3, {"job-worker-0": 2}, "Running", 2, id="below it"),
        pytest.param(3, {"job-worker-0": 2, "job-worker-1": 1}, "Failed", 3, id="the sum over replicas"),
        pytest.param(3, {"job-worker-0": 5}, "Failed", 3, id="the kubelet was faster"),
        pytest.param(None, {"job-worker-0": 6}, "Failed", 6, id="the default of the settings"),
    ],
)
def test_the_kubelets_restarts_end_the_job_when_their_sum_reaches_the_limit_as_in_v1(
    limit: int | None, counts: dict[str, int], state: str, restarts: int
) -> None:
    simulation = running(policy={} if limit is None else {"backoffLimit": limit})
    for name, count in counts.items():
        simulation.again(name, count).settle()
    assert (simulation.state, simulation.status["restarts"]) == (state, restarts)


@pytest.mark.parametrize("scope", [None, "Pod", "ReplicaType", "Job"])
@pytest.mark.parametrize(
    ("restart", "of_pods"),
    [("Always", "Always"), ("OnFailure", "OnFailure"), ("Never", "Never"), ("ExitCode", "Never")],
)
def test_pods_have_the_policy_of_v1_whatever_the_scope(restart: str, of_pods: str, scope: str | None) -> None:
    annotations = {"steelyard/restart-scope": scope} if scope else None
    simulation = running(restart=restart, annotations=annotations)
    assert {pod["spec"]["restartPolicy"] for pod in simulation.pods().values()} == {of_pods}


@pytest.mark.parametrize(
    ("scope", "again"), [("ReplicaType", ["job-worker-0", "job-worker-1"]), ("Job", PODS)]
)
def test_with_a_wider_scope_others_start_again_with_what_the_kubelet_has_restarted(
    scope: str, again: list[str]
) -> None:
    simulation = running(policy={"backoffLimit": 2}, annotations={"steelyard/restart-scope": scope})
    before = uids(simulation)
    simulation.again("job-worker-1", 1).settle()
    assert (renewed(simulation, before), simulation.status["restarts"]) == (again, 1)
    simulation.run().again("job-worker-0", 1).settle()
    assert (simulation.state, simulation.status["restarts"]) == ("Failed", 2)
