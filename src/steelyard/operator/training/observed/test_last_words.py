"""The result is what the leading replica said at its end, also where that comes a moment after the job's success."""

from steelyard.operator.training.simulation.job_simulation import Stage, make_job

ROLES = {"Scheduler": 1, "Server": 1, "Worker": 2}


def trained() -> Stage:
    """MXNet's scheduler has ended, its workers are about to."""
    return (
        Stage(make_job("MXJob", ROLES, jobMode="MXTrain"))
        .settle()
        .run()
        .settle()
        .end("job-scheduler-0")
        .settle()
    )


def test_a_success_waits_a_moment_for_the_last_words_of_the_leader() -> None:
    stage = trained()
    assert stage.state == "Running"
    stage.end("job-worker-0", message='{"accuracy": 0.9}').settle()
    assert (stage.state, stage.status["results"]) == ("Succeeded", {"accuracy": 0.9})


def test_a_leader_that_goes_on_does_not_hold_the_job() -> None:
    stage = trained()
    stage.wait(4)
    assert stage.state == "Running"
    stage.wait(2)
    assert stage.state == "Succeeded"


def test_a_clock_that_was_set_back_does_not_hold_the_job() -> None:
    stage = trained()
    stage.wait(-3600)
    assert stage.state == "Succeeded"


def test_what_the_leader_does_after_the_success_fails_nothing() -> None:
    stage = trained()
    stage.end("job-worker-0", 1).settle()
    assert stage.state == "Succeeded"
