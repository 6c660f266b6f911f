"""The result is what the leading replica said at its end, also where that comes a moment after the job's success."""

from steelyard.operator.training.simulation.job_simulation import JobSimulation, make_job

ROLES = {"Scheduler": 1, "Server": 1, "Worker": 2}


def trained() -> JobSimulation:
    """MXNet's scheduler has ended, its workers are about to."""
    return (
        JobSimulation(make_job("MXJob", ROLES, jobMode="MXTrain"))
        .settle()
        .run()
        .settle()
        .end("job-scheduler-0")
        .settle()
    )


def test_a_success_waits_a_moment_for_the_last_words_of_the_leader() -> None:
    simulation = trained()
    assert simulation.state == "Running"
    simulation.end("job-worker-0", message='{"accuracy": 0.9}').settle()
    assert (simulation.state, simulation.status["results"]) == ("Succeeded", {"accuracy": 0.9})


def test_a_leader_that_goes_on_does_not_hold_the_job() -> None:
    simulation = trained()
    simulation.wait(4)
    assert simulation.state == "Running"
    simulation.wait(2)
    assert simulation.state == "Succeeded"


def test_a_clock_that_was_set_back_does_not_hold_the_job() -> None:
    simulation = trained()
    simulation.wait(-3600)
    assert simulation.state == "Succeeded"


def test_what_the_leader_does_after_the_success_fails_nothing() -> None:
    simulation = trained()
    simulation.end("job-worker-0", 1).settle()
    assert simulation.state == "Succeeded"
