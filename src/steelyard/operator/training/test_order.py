"""Order of roles, and the number of successes that is enough: a DLJob gives both as data."""

import pytest

from steelyard.operator.training.frameworks import ALL
from steelyard.operator.training.model import Counts, Tally
from steelyard.operator.training.parse import parse_job
from steelyard.operator.training.policies import success
from steelyard.operator.training.simulation.job_simulation import SETTINGS, JobSimulation, make_job
from steelyard_common.types import Json

MASTER, FIRST, SECOND = "job-master-0", "job-worker-0", "job-worker-1"


def waiting(condition: str) -> JobSimulation:
    """Two workers that wait for the master."""
    job = make_job(annotations={"steelyard/restart-scope": "Job"})
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["dependsOn"] = [{"role": "Master", "condition": condition}]
    return JobSimulation(job).settle()


def ready(word: str) -> list[Json]:
    return [{"type": "Ready", "status": word, "lastTransitionTime": "2026-01-01T00:00:00Z"}]


def test_a_role_waits_until_another_runs() -> None:
    simulation = waiting("Running")
    assert sorted(simulation.pods()) == [MASTER]
    assert sorted(simulation.run(MASTER).pods()) == [MASTER, FIRST, SECOND]


def test_a_role_waits_until_another_is_ready() -> None:
    simulation = waiting("Ready")
    assert sorted(simulation.run(MASTER, conditions=ready("False")).pods()) == [MASTER]
    assert sorted(simulation.run(MASTER, conditions=ready("True")).pods()) == [MASTER, FIRST, SECOND]


def test_a_role_waits_until_another_has_succeeded() -> None:
    job = make_job("TFJob", {"PS": 1, "Worker": 1})
    job["spec"]["tfReplicaSpecs"]["Worker"]["dependsOn"] = [{"role": "PS", "condition": "Succeeded"}]
    simulation = JobSimulation(job).settle().run()
    assert sorted(simulation.pods()) == ["job-ps-0"]
    assert sorted(simulation.end("job-ps-0").settle().pods()) == ["job-ps-0", "job-worker-0"]


def test_what_runs_stays_when_what_it_waited_for_does_not_hold_any_more() -> None:
    simulation = waiting("Ready").run(MASTER, conditions=ready("True")).run()
    simulation.run(MASTER, conditions=ready("False"))
    assert sorted(simulation.pods()) == [MASTER, FIRST, SECOND]


def test_the_order_holds_for_a_restart_too() -> None:
    simulation = waiting("Running").run(MASTER).run()
    simulation.end(FIRST, 1).settle()
    assert sorted(simulation.pods()) == [MASTER]
    assert sorted(simulation.run(MASTER).pods()) == [MASTER, FIRST, SECOND]


@pytest.mark.parametrize(
    ("policy", "master", "workers", "succeeded"),
    [
        ({}, 1, 3, False),
        ({}, 1, 4, True),
        ({"all": True}, 1, 4, True),
        ({"roles": ["Worker"]}, 0, 4, True),
        ({"roles": ["Worker"], "count": 2}, 1, 1, False),
        ({"roles": ["Worker"], "count": 2}, 0, 2, True),
        ({"roles": ["Worker"], "percent": 60}, 0, 2, False),
        ({"roles": ["Worker"], "percent": 60}, 0, 3, True),
        ({"roles": ["Worker"], "percent": 0}, 0, 0, False),
        ({"roles": ["Evaluator"]}, 1, 4, False),
        ({"count": 9}, 1, 4, False),
    ],
)
def test_how_many_are_enough(policy: Json, master: int, workers: int, succeeded: bool) -> None:
    job = parse_job(make_job(replicas={"Master": 1, "Worker": 4}), ALL["PyTorchJob"], SETTINGS)
    counts = {"Master": Counts(1 - master, master), "Worker": Counts(4 - workers, workers)}
    assert success.rule(policy)(job, Tally(counts)).succeeded is succeeded
