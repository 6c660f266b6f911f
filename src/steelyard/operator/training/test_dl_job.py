"""A job's life as the operator plays it on a cluster in memory: what Pods do, and what the job comes to."""

from steelyard.operator.training.doubles import Stage, make_job


def started(**fields: object) -> Stage:
    return Stage(make_job(**fields)).settle()  # type: ignore[arg-type]


def test_a_job_is_made_runs_and_succeeds() -> None:
    stage = started()
    assert sorted(stage.pods()) == ["job-master-0", "job-worker-0", "job-worker-1"]
    assert stage.services() == sorted(stage.pods())
    assert stage.state == "Created"
    stage.run()
    assert stage.state == "Running"
    assert stage.condition("Running")["message"] == "PyTorchJob job is running."  # type: ignore[index]
    assert stage.status["replicaStatuses"]["Worker"]["active"] == 2
    stage.end("job-worker-0").end("job-master-0", message='{"accuracy": 0.9}').settle()
    assert stage.state == "Succeeded"
    assert stage.status["results"] == {"accuracy": 0.9}
    assert stage.status["completionTime"]
