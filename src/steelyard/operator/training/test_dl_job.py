"""A job's life as the operator plays it on a cluster in memory: what Pods do, and what the job comes to."""

from typing import Any

import pytest

from steelyard.operator.edge import Stale
from steelyard.operator.training.simulation.job_simulation import JobSimulation, make_job

PODS = ["job-master-0", "job-worker-0", "job-worker-1"]


TOGETHER = {"steelyard/restart-scope": "Job"}


def running(**fields: Any) -> JobSimulation:
    return JobSimulation(make_job(**fields)).settle().run()


def uids(simulation: JobSimulation) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in simulation.pods().items()}


def renewed(simulation: JobSimulation, before: dict[str, str]) -> list[str]:
    return [name for name, uid in uids(simulation).items() if before.get(name) != uid]


def test_a_job_is_made_runs_and_succeeds() -> None:
    simulation = JobSimulation(make_job()).settle()
    assert sorted(simulation.pods()) == PODS
    assert simulation.services() == PODS
    assert simulation.state == "Created"
    simulation.run()
    assert simulation.state == "Running"
    assert simulation.read_message("Running") == "PyTorchJob job is running."
    assert simulation.status["replicaStatuses"]["Worker"]["active"] == 2
    simulation.end("job-worker-0").end("job-master-0", message='{"accuracy": 0.9}').settle()
    assert simulation.state == "Succeeded"
    assert simulation.status["results"] == {"accuracy": 0.9}
    assert simulation.status["completionTime"]


# ---- restarts


def test_one_failure_starts_the_whole_job_again_and_counts_one() -> None:
    simulation = running(policy={"backoffLimit": 3}, annotations=TOGETHER)
    before = uids(simulation)
    simulation.end("job-worker-1", 1, "Traceback: the last line").settle()
    assert renewed(simulation, before) == PODS
    assert simulation.status["restarts"] == 1
    (failure,) = simulation.status["failures"]
    assert (failure["pod"], failure["exitCode"], failure["reason"]) == ("job-worker-1", 1, "Error")
    assert failure["message"] == "Traceback: the last line"
    assert simulation.state == "Restarting"
    assert simulation.run().state == "Running"
    assert simulation.condition("Restarting") is None


def test_no_pod_is_made_while_one_of_the_past_is_there() -> None:
    simulation = running(annotations=TOGETHER)
    simulation.on_node("job-master-0").end("job-worker-1", 1).settle()
    assert list(simulation.pods()) == ["job-master-0"], "the others are gone, and wait for it"
    simulation.confirm_end("job-master-0").settle()
    assert sorted(simulation.pods()) == PODS


def test_nor_while_the_cache_does_not_show_it() -> None:
    simulation = running(annotations=TOGETHER).end("job-worker-0", 1)
    simulation.step()
    simulation.on_node("job-worker-1").caches.blind.add("job-worker-1")
    simulation.step()
    assert list(simulation.pods()) == ["job-worker-1"]
    with pytest.raises(Stale, match="Pod job-worker-1 has changed"):
        simulation.step()


def test_a_job_that_the_cache_still_shows_as_suspended_loses_no_pod() -> None:
    """Another operator may have started them; the job itself is read before each deletion."""
    simulation = JobSimulation(make_job(policy={"suspend": True})).settle()
    suspended = simulation.job
    simulation.patch_spec(runPolicy={"suspend": False}).run()
    simulation.caches.stale = suspended
    with pytest.raises(Stale, match="has changed"):
        simulation.step()
    assert sorted(simulation.pods()) == PODS


def test_restarts_are_bounded() -> None:
    """137 again and again, with a limit of 3: it has failed after 3 restarts."""
    simulation = running(restart="ExitCode", policy={"backoffLimit": 3})
    for restarts in (1, 2, 3):
        simulation.end("job-worker-0", 137).settle().wait(300).run()
        assert (simulation.state, simulation.status["restarts"]) == ("Running", restarts)
    simulation.end("job-worker-0", 137).settle()
    assert simulation.state == "Failed"
    assert (
        simulation.read_message("Failed")
        == "Job job has failed because it has reached the specified backoff limit"
    )
    assert simulation.status["restarts"] == 3
    assert simulation.status["completionTime"]


def test_restarts_after_the_first_wait_longer_and_longer() -> None:
    simulation = running(annotations=TOGETHER)
    simulation.end("job-worker-0", 1).settle()
    assert sorted(simulation.pods()) == PODS, "the first starts at once"
    for seconds in (10, 20, 40):
        simulation.run().end("job-worker-0", 1).settle()
        assert not simulation.pods()
        assert simulation.wait(seconds - 1).pods() == {}
        assert sorted(simulation.wait(1).pods()) == PODS


def test_a_clock_that_was_set_back_delays_no_restart() -> None:
    simulation = running(annotations=TOGETHER)
    for _ in range(2):
        simulation.run().end("job-worker-0", 1).settle()
    assert not simulation.pods()
    assert sorted(simulation.wait(-3600).pods()) == PODS


@pytest.mark.parametrize(
    ("restart", "code", "state"),
    [
        ("Never", 137, "Failed"),
        ("ExitCode", 1, "Failed"),
        ("ExitCode", 127, "Failed"),
        ("ExitCode", 128, "Restarting"),
        ("ExitCode", 143, "Restarting"),
        ("OnFailure", 1, "Restarting"),
        ("Always", 1, "Restarting"),
    ],
)
def test_the_exit_code_decides_by_the_restart_policy(restart: str, code: int, state: str) -> None:
    assert running(restart=restart).end("job-worker-0", code).settle().state == state


def test_the_messages_of_failure_are_those_of_v1() -> None:
    simulation = running(restart="Never").end("job-worker-0", 1).settle()
    assert simulation.read_message("Failed") == "PyTorchJob job is failed because 1 Worker replica(s) failed."
    simulation = running(restart="ExitCode").end("job-worker-0", 1).settle()
    assert simulation.read_message("Failed") == 'job "job" is failing because "Worker" replica(s) failed.'
    kinds = {"kind": "TFJob", "replicas": {"Chief": 1, "Worker": 2}}
    simulation = running(**kinds).end("job-worker-0", 1).end("job-worker-1", 2).settle()
    assert (
        simulation.read_message("Failed")
        == "TFJob default/job has failed because 2 Worker replica(s) failed."
    )


@pytest.mark.parametrize(
    ("scope", "again"),
    [("Pod", ["job-worker-1"]), ("ReplicaType", ["job-worker-0", "job-worker-1"]), ("Job", PODS)],
)
def test_the_scope_says_what_starts_again(scope: str, again: list[str]) -> None:
    simulation = running(restart="ExitCode", annotations={"steelyard/restart-scope": scope})
    before = uids(simulation)
    simulation.end("job-worker-1", 137).settle()
    assert (renewed(simulation, before), simulation.status["restarts"]) == (again, 1)


def test_what_has_succeeded_is_not_made_again_unless_all_start_again() -> None:
    alone = running(restart="ExitCode", annotations={"steelyard/restart-scope": "Pod"})
    alone.end("job-worker-0").settle().remove("job-worker-0").settle()
    assert "job-worker-0" not in alone.pods()
    assert alone.status["replicaStatuses"]["Worker"]["succeeded"] == 1
    together = running(annotations=TOGETHER)
    together.end("job-worker-0").settle().end("job-worker-1", 1).settle()
    assert sorted(together.pods()) == PODS
    assert "succeeded" not in together.status["replicaStatuses"]["Worker"]


# ---- disruptions


@pytest.mark.parametrize("restart", ["Never", "ExitCode", "OnFailure", "Always"])
def test_a_pod_deleted_by_hand_is_replaced_and_not_counted(restart: str) -> None:
    simulation = running(restart=restart)
    before = uids(simulation)
    simulation.remove("job-worker-0").settle()
    assert sorted(simulation.pods()) == PODS
    assert "job-worker-0" in renewed(simulation, before)
    assert (simulation.state, simulation.status["restarts"], simulation.status["disruptions"]) == (
        "Restarting",
        0,
        1,
    )
    assert simulation.run().state == "Running"


def test_a_pod_that_was_asked_to_end_is_no_success() -> None:
    """The program saves its state on SIGTERM, and exits with code 0."""
    simulation = running(restart="Never")
    simulation.remove("job-master-0", grace=30).end("job-master-0", 0).settle()
    assert (simulation.state, simulation.status["disruptions"]) == ("Restarting", 1)


def test_a_pod_that_had_ended_before_it_was_deleted_is_one() -> None:
    simulation = running(restart="Never").end("job-master-0", 0)
    simulation.wait_unseen(1)
    simulation.store.put({**simulation.pods()["job-master-0"], "metadata": {
        "name": "job-master-0", "namespace": "default",
        "deletionTimestamp": "2026-01-01T00:00:31Z", "deletionGracePeriodSeconds": 30,
    }})  # fmt: skip
    assert simulation.settle().state == "Succeeded"


@pytest.mark.parametrize("reason", ["Evicted", "Preempting", "NodeShutdown", "OutOfmemory"])
def test_an_evicted_pod_is_replaced_and_not_counted(reason: str) -> None:
    simulation = running(restart="Never", policy={"backoffLimit": 0}).evict("job-worker-0", reason).settle()
    assert (simulation.state, simulation.status["restarts"], simulation.status["disruptions"]) == (
        "Restarting",
        0,
        1,
    )
    assert simulation.status["failures"][0]["reason"] == reason


def test_disruptions_one_after_the_other_make_it_wait() -> None:
    simulation = running(restart="Never")
    simulation.evict("job-worker-0").settle()
    simulation.run().evict("job-worker-0").settle()
    assert not simulation.pods()
    assert sorted(simulation.wait(10).pods()) == PODS


def test_what_a_rule_does_not_count_makes_it_wait_too() -> None:
    rules = '[{"action": "Restart", "exitCodes": [9], "counted": false}]'
    simulation = running(
        restart="Never", policy={"backoffLimit": 0}, annotations={"steelyard/failure-rules": rules}
    )
    simulation.end("job-worker-0", 9).settle()
    simulation.run().end("job-worker-0", 9).settle()
    assert not simulation.pods()
    assert sorted(simulation.wait(10).pods()) == PODS


def test_a_pod_on_a_lost_node_is_replaced_by_force() -> None:
    simulation = running(restart="Never").on_node("job-worker-0")
    simulation.lose("job-worker-0").settle()
    assert simulation.state == "Running", "the node may come back"
    simulation.wait(120)
    assert simulation.state == "Restarting"
    assert list(simulation.pods()) == ["job-worker-0"], "it is asked to end, and the others wait for it"
    assert list(simulation.wait(89).pods()) == ["job-worker-0"]
    assert sorted(simulation.wait(1).pods()) == PODS, "grace period and waiting time are over"
    assert simulation.status["disruptions"] == 1


# ---- suspension, scale


def test_suspended_and_resumed() -> None:
    simulation = running(policy={"suspend": True}, annotations=TOGETHER)
    assert [condition["type"] for condition in simulation.status["conditions"]] == ["Created", "Suspended"]
    assert not simulation.pods()
    assert "startTime" not in simulation.status
    simulation.patch_spec(runPolicy={"suspend": False}).run()
    assert (simulation.state, simulation.condition("Suspended")["status"]) == ("Running", "False")  # type: ignore[index]
    simulation.on_node("job-worker-0").patch_spec(runPolicy={"suspend": True})
    assert simulation.state == "Suspended"
    assert "active" not in simulation.status["replicaStatuses"]["Master"]
    assert list(simulation.pods()) == ["job-worker-0"], "it is ending"
    simulation.patch_spec(runPolicy={"suspend": False})
    assert list(simulation.pods()) == ["job-worker-0"], "the others wait for it"
    simulation.confirm_end("job-worker-0").settle()
    assert sorted(simulation.pods()) == PODS
    assert (simulation.run().state, simulation.status["disruptions"]) == ("Running", 0)


def test_scaled_down_and_up() -> None:
    simulation = running(kind="PyTorchJob", replicas={"Worker": 3})
    before = uids(simulation)
    simulation.on_node("job-worker-2").scale("Worker", 2)
    assert simulation.pods()["job-worker-2"]["metadata"]["deletionTimestamp"]
    assert simulation.services() == ["job-worker-0", "job-worker-1"]
    simulation.scale("Worker", 3)
    assert simulation.status["disruptions"] == 0
    simulation.confirm_end("job-worker-2").settle()
    assert renewed(simulation, before) == ["job-worker-2"]
    simulation.scale("Worker", 1).scale("Worker", 3)
    assert renewed(simulation, before) == ["job-worker-1", "job-worker-2"]
    assert simulation.run().state == "Running"


def test_a_replica_that_is_no_more_is_on_record_until_its_pod_is_gone() -> None:
    simulation = running(replicas={"Worker": 2}).on_node("job-worker-1").scale("Worker", 1)
    simulation.caches.blind = {"job-worker-1"}  # a new process may not have read it yet
    with pytest.raises(Stale, match="Pod job-worker-1 has changed"):
        simulation.step()
    assert simulation.replica("job-worker-1")["attempt"] == 1
    simulation.confirm_end("job-worker-1").settle()
    assert [replica["pod"] for replica in simulation.status["replicas"]] == ["job-worker-0"]


# ---- the end


def test_a_finished_job_never_changes() -> None:
    simulation = running().end("job-master-0").settle()
    before = simulation.status
    simulation.end("job-worker-0", 1).settle().wait(1000)
    simulation.remove("job-worker-1").settle()
    assert simulation.status == before


def test_the_deadline_holds_without_any_event() -> None:
    simulation = running(policy={"activeDeadlineSeconds": 100})
    simulation.now = simulation.look  # type: ignore[assignment]
    simulation.settle()
    assert simulation.state == "Failed"
    assert "longer than specified deadline" in simulation.read_message("Failed")


def test_the_time_to_live_deletes_the_job() -> None:
    simulation = running(policy={"ttlSecondsAfterFinished": 60}).end("job-master-0").settle()
    simulation.now = simulation.look  # type: ignore[assignment]
    simulation.step()
    assert not simulation.store.objects(simulation.key.resource)


def test_success_wins_over_a_failure_seen_with_it() -> None:
    simulation = running(restart="Never").end("job-worker-0", 1).end("job-master-0").settle()
    assert simulation.state == "Succeeded"
    assert simulation.condition("Failed") is None


def test_a_failure_together_with_a_lost_node_is_its_consequence() -> None:
    """The others lose their connection long before the node is given up."""
    simulation = running(restart="ExitCode")
    simulation.lose("job-worker-0").wait(30).end("job-worker-1", 1).settle()
    assert (simulation.state, simulation.status["restarts"], simulation.status["disruptions"]) == (
        "Restarting",
        0,
        1,
    )


def test_what_waits_for_a_replica_that_has_failed_does_not_run_on() -> None:
    simulation = running(restart="Never").end("job-worker-0", 1).settle()
    assert list(simulation.pods()) == ["job-worker-0"], "the failed one stays, with its logs"
    simulation = running(restart="Never", policy={"cleanPodPolicy": "None"}).end("job-worker-0", 1).settle()
    assert sorted(simulation.pods()) == PODS


def test_a_failure_is_the_consequence_of_an_earlier_disruption() -> None:
    """One replica is evicted, another then loses its connection: the second failure does not count."""
    simulation = running(restart="Never")
    simulation.evict("job-worker-0").end("job-worker-1", 1).settle()
    assert simulation.state == "Restarting"


# ---- what is whose


def test_a_name_that_is_anothers_fails_the_job() -> None:
    simulation = JobSimulation(make_job())
    other = {"uid": "1", "kind": "Job", "name": "other", "apiVersion": "batch/v1", "controller": True}
    metadata = {"name": "job-worker-0", "namespace": "default", "ownerReferences": [other]}
    simulation.store.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    simulation.settle()
    assert simulation.state == "Failed"
    assert "Job other" in simulation.read_message("Failed")


def test_users_variables_win_and_the_rest_is_given() -> None:
    job = make_job()
    container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "RANK", "value": "7"}]
    env = JobSimulation(job).settle().pods()["job-worker-0"]["spec"]["containers"][0]["env"]
    assert [variable["value"] for variable in env if variable["name"] == "RANK"] == ["7"]
    assert {"name": "WORLD_SIZE", "value": "3"} in env


def test_a_name_too_long_is_refused_naming_the_field() -> None:
    simulation = JobSimulation(make_job(name="n" * 55)).settle()
    assert simulation.state == "Failed"
    assert simulation.condition("Failed")["reason"] == "PyTorchJobFailedValidation"  # type: ignore[index]
    assert "metadata.name: is 1 character too long" in simulation.read_message("Failed")
    assert not simulation.pods()
    assert JobSimulation(make_job(name="n" * 54)).settle().state == "Created"
