"""The policies of a job, as it lives: clean-up, time to live, deadline, suspension, gangs, autoscaling, ports."""

import re
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from steelyard.operator.children import Children
from steelyard.operator.controller import Controller
from steelyard.operator.settings import OperatorSettings, TrainingSettings
from steelyard.operator.training.dl_job import reconcile
from steelyard.operator.training.simulation.job_simulation import (
    BEGIN,
    NAMESPACE,
    JobSimulation,
    make_job,
    make_template,
)
from steelyard_common.awake import Sleep, Sleeps
from steelyard_common.types import Json
from steelyard_kube.errors import ApiError, NotFound
from steelyard_kube.resource import HORIZONTAL_POD_AUTOSCALERS, VOLCANO_POD_GROUPS, Resource

MASTER, FIRST, SECOND = PODS = ["job-master-0", "job-worker-0", "job-worker-1"]
DEADLINE = "PyTorchJob job has failed because it was active longer than specified deadline"


def running(**fields: Any) -> JobSimulation:
    return JobSimulation(make_job(**fields)).settle().run()


# ---- clean-up


@pytest.mark.parametrize(
    ("policy", "pods", "services"),
    [
        (None, PODS, PODS),
        ("None", PODS, PODS),
        ("Running", [MASTER, FIRST], [MASTER, FIRST]),
        ("All", [], []),
    ],
)
def test_what_stays_of_a_finished_job(policy: str | None, pods: list[str], services: list[str]) -> None:
    simulation = running(policy={"cleanPodPolicy": policy} if policy else {})
    simulation.end(FIRST).settle().end(MASTER).settle()
    assert simulation.state == "Succeeded"
    assert (sorted(simulation.pods()), simulation.services()) == (pods, services)
    assert simulation.status["replicaStatuses"]["Worker"]["succeeded"] == 2, (
        "v1: who still ran has done enough"
    )
    assert "active" not in simulation.status["replicaStatuses"]["Worker"]


def test_a_finished_job_goes_when_its_time_is_over_and_not_before() -> None:
    simulation = running(policy={"ttlSecondsAfterFinished": 60}).end(MASTER).settle()
    ended = simulation.status
    assert simulation.wait(59).status == ended
    simulation.wait_unseen(1).step()
    assert simulation.store.find(simulation.key.resource, "job", NAMESPACE) is None


def test_a_time_to_live_of_nothing_deletes_at_once() -> None:
    simulation = running(policy={"ttlSecondsAfterFinished": 0}).end(MASTER)
    simulation.step()
    simulation.step()
    assert simulation.store.find(simulation.key.resource, "job", NAMESPACE) is None


def test_a_failed_job_has_a_time_to_live_too() -> None:
    simulation = running(restart="ExitCode", policy={"ttlSecondsAfterFinished": 60}).end(FIRST, 1).settle()
    assert simulation.state == "Failed"
    simulation.wait_unseen(60).step()
    assert simulation.store.find(simulation.key.resource, "job", NAMESPACE) is None


# ---- deadline


def test_a_deadline_holds_without_any_event() -> None:
    simulation = running(policy={"activeDeadlineSeconds": 100, "cleanPodPolicy": "None"}).end(FIRST).settle()
    assert simulation.wait(99).state == "Running"
    assert simulation.look == simulation.now.replace(second=40), "the queue is told when"
    simulation.wait(1)
    assert (simulation.state, simulation.read_message("Failed")) == ("Failed", DEADLINE)
    assert sorted(simulation.pods()) == [FIRST], (
        "what had to be stopped does not go on, whatever the policy is"
    )


def test_a_deadline_counts_time_awake() -> None:
    simulation = running(policy={"activeDeadlineSeconds": 100})
    sleeps = Sleeps((Sleep(simulation.now + timedelta(seconds=3610), 3600.0),))
    simulation.controller = Controller(simulation.cluster, simulation.caches, sleeps=lambda: sleeps)
    assert simulation.wait(3699).state == "Running"
    assert simulation.wait(1).state == "Failed"


def test_a_deadline_is_no_reason_to_end_who_has_succeeded() -> None:
    simulation = running(policy={"activeDeadlineSeconds": 100}).end(MASTER).wait(100)
    assert simulation.state == "Succeeded"


def test_a_deadline_starts_again_after_a_suspension() -> None:
    simulation = running(policy={"activeDeadlineSeconds": 100}).wait(90)
    simulation.patch_spec(runPolicy={"activeDeadlineSeconds": 100, "suspend": True}).wait(1000)
    assert simulation.state == "Suspended"
    simulation.patch_spec(runPolicy={"activeDeadlineSeconds": 100}).run()
    assert simulation.wait(99).state == "Running"
    assert simulation.wait(1).state == "Failed"


# ---- suspension


def test_a_job_suspended_from_the_start_has_nothing() -> None:
    simulation = JobSimulation(make_job(policy={"suspend": True})).settle()
    assert [condition["type"] for condition in simulation.status["conditions"]] == ["Created", "Suspended"]
    assert simulation.read_message("Suspended") == "PyTorchJob job is suspended."
    assert (simulation.pods(), simulation.services(), simulation.status.get("startTime")) == ({}, [], None)


def test_a_suspension_takes_all_away_and_its_end_brings_it_back() -> None:
    simulation = running(restart="Never").end(FIRST).settle()
    started = simulation.status["startTime"]
    simulation.wait(5).patch_spec(runPolicy={"suspend": True})
    assert (simulation.pods(), simulation.services()) == ({}, [])
    assert simulation.condition("Running") is not None
    assert (simulation.condition("Running") or {})["reason"] == "PyTorchJobSuspended"
    assert (simulation.status["startTime"], simulation.status["replicaStatuses"]["Worker"].get("active")) == (
        started,
        None,
    )
    simulation.patch_spec(runPolicy={})
    assert sorted(simulation.pods()) == PODS, "who had succeeded too: the job begins anew"
    assert simulation.read_message("Suspended") == "PyTorchJob job is resumed."
    assert simulation.status["startTime"] > started
    assert (simulation.status["restarts"], simulation.status["disruptions"]) == (0, 0)


def test_a_suspended_job_counts_as_active_until_its_pods_are_gone() -> None:
    """Kueue gives the room away when nothing is active any more."""
    simulation = running().on_node(*PODS).patch_spec(runPolicy={"suspend": True})
    assert sorted(simulation.pods()) == PODS, "they are being deleted"
    for name in PODS:
        simulation.confirm_end(name).settle()
    assert (simulation.state, simulation.pods()) == ("Suspended", {})
    assert all("active" not in counts for counts in simulation.status["replicaStatuses"].values())


# ---- gangs


def gang(scheduler: str) -> OperatorSettings:
    return OperatorSettings(training=TrainingSettings(gang_scheduler=scheduler))


def test_volcano_admits_a_group_before_there_are_pods() -> None:
    policy = {"schedulingPolicy": {"queue": "q", "priorityClass": "high"}}
    simulation = JobSimulation(make_job(policy=policy), gang("volcano")).settle()
    (group,) = simulation.store.objects(VOLCANO_POD_GROUPS)
    assert group["spec"] == {"minMember": 3, "queue": "q", "priorityClassName": "high"}
    assert simulation.pods() == {}
    simulation.store.set_status(VOLCANO_POD_GROUPS, "job", NAMESPACE, {"phase": "Pending"})
    assert simulation.settle().pods() == {}
    simulation.store.set_status(VOLCANO_POD_GROUPS, "job", NAMESPACE, {"phase": "Inqueue"})
    pod = simulation.settle().pods()[FIRST]
    assert pod["spec"]["schedulerName"] == "volcano"
    annotations = {"scheduling.k8s.io/group-name": "job", "volcano.sh/task-spec": "worker"}
    assert pod["metadata"]["annotations"] == annotations
    simulation.scale("Worker", 4)
    (group,) = simulation.store.objects(VOLCANO_POD_GROUPS)
    assert group["spec"]["minMember"] == 5
    simulation.run().end(MASTER).settle()
    assert (simulation.state, simulation.store.objects(VOLCANO_POD_GROUPS)) == ("Succeeded", [])


def test_coscheduling_groups_pods_by_a_label_and_reckons_what_they_need() -> None:
    job = make_job(policy={"schedulingPolicy": {"minAvailable": 2, "scheduleTimeoutSeconds": 9}})
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "nvidia.com/gpu": "1"}}
    for role in job["spec"]["pytorchReplicaSpecs"].values():
        role["template"] = make_template("pytorch", resources=resources)
    simulation = JobSimulation(job, gang("coscheduler")).settle()
    pod = simulation.pods()[FIRST]
    assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "job"
    assert pod["spec"]["schedulerName"] == "coscheduler"
    group = next(obj for obj in simulation.store.objects() if obj["kind"] == "PodGroup")
    needs = {"cpu": "1", "nvidia.com/gpu": "2"}
    assert group["spec"] == {"minMember": 2, "scheduleTimeoutSeconds": 9, "minResources": needs}


@pytest.mark.parametrize(
    ("scheduler", "definition"),
    [
        ("volcano", "podgroups.scheduling.volcano.sh (v1beta1)"),
        ("coscheduler", "podgroups.scheduling.x-k8s.io (v1alpha1)"),
    ],
)
@pytest.mark.parametrize(
    "words", ["404 page not found\n", "the server could not find the requested resource"]
)
def test_a_gang_whose_definition_is_missing_says_which_and_waits(
    scheduler: str, definition: str, words: str
) -> None:
    simulation = JobSimulation(make_job(), gang(scheduler))

    def before(verb: str, resource: Resource, name: str) -> None:
        if verb == "create" and resource.kind == "PodGroup":
            raise NotFound(words)

    simulation.cluster.before_call = before
    for _ in range(3):
        with suppress(ApiError):
            simulation.step()
    version = simulation.store.version
    simulation.wait_unseen(1)
    with pytest.raises(NotFound, match=re.escape(definition)):
        simulation.step()
    assert simulation.store.version == version, "a status that differs at each try would wake its writer"
    waits = simulation.condition("Running")
    assert waits is not None
    assert (waits["status"], waits["reason"], simulation.state) == ("False", "FailedCreate", "Created")
    assert waits["message"] == (
        f"PodGroup job: the definition {definition} is not installed in the cluster: {words.strip()}; without it, "
        "operator.training.gang_scheduler has to be empty"
    )
    simulation.cluster.before_call = None
    assert simulation.settle().condition("Running") is None


@pytest.mark.parametrize("least", [0, 9])
def test_the_least_size_of_a_gang_is_passed_on_as_v1_does(least: int) -> None:
    job = make_job(policy={"schedulingPolicy": {"minAvailable": least}})
    simulation = JobSimulation(job, gang("coscheduler")).settle().run()
    group = next(obj for obj in simulation.store.objects() if obj["kind"] == "PodGroup")
    assert (group["spec"]["minMember"], simulation.state) == (least, "Running")


def test_a_gang_without_a_scheduler_is_reported_once() -> None:
    def messages(scheduler: str, **policy: Any) -> list[str]:
        job = make_job(policy={"schedulingPolicy": policy})
        first = reconcile(job, Children(), BEGIN, gang(scheduler))
        again = reconcile({**job, "status": first.status}, Children(), BEGIN, gang(scheduler))
        assert not again.events
        return [event.message for event in first.events]

    assert messages("volcano", minAvailable=2) == messages("", queue="q", priorityClass="p") == []
    assert messages("") == []
    (message,) = messages("", minAvailable=0, scheduleTimeoutSeconds=9)
    assert (
        "schedulingPolicy.minAvailable, spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds: wi" in message
    )


def test_another_scheduler_that_the_user_named_stays() -> None:
    job = make_job()
    for role in job["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["schedulerName"] = "mine"
    assert JobSimulation(job, gang("volcano")).settle().pods() == {}
    assert JobSimulation(job, gang("other")).settle().pods()[FIRST]["spec"]["schedulerName"] == "mine"


# ---- autoscaling


def test_an_elastic_job_with_metrics_has_an_autoscaler_that_follows_it() -> None:
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]
    elastic = {"minReplicas": 1, "maxReplicas": 3, "metrics": metrics}
    simulation = JobSimulation(make_job(replicas={"Worker": 2}, elasticPolicy=elastic)).settle()
    (scaler,) = simulation.store.objects(HORIZONTAL_POD_AUTOSCALERS)
    assert scaler["spec"]["scaleTargetRef"] == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "name": "job",
    }
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (1, 3)
    simulation.patch_spec(elasticPolicy={**elastic, "maxReplicas": 5})
    (scaler,) = simulation.store.objects(HORIZONTAL_POD_AUTOSCALERS)
    assert scaler["spec"]["maxReplicas"] == 5
    simulation.patch_spec(runPolicy={"suspend": True})
    assert simulation.store.objects(HORIZONTAL_POD_AUTOSCALERS) == []


# ---- ports


def on_hosts(ports: str) -> Json:
    job = make_job(annotations={"steelyard/port-range": ports})
    for role in job["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["hostNetwork"] = True
    return job


def test_replicas_on_their_hosts_network_have_ports_of_their_own() -> None:
    simulation = JobSimulation(on_hosts("20000-20002")).settle()
    ports = {entry["port"] for entry in simulation.status["ports"]}
    assert ports == {20000, 20001, 20002}
    before = simulation.status["ports"]
    simulation.run().end(FIRST, 1).settle()
    assert simulation.status["ports"] == before, "a restarted replica is where the others look for it"
    container = simulation.pods()[MASTER]["spec"]["containers"][0]
    (master,) = (entry["port"] for entry in before if entry["type"] == "Master")
    assert [port["containerPort"] for port in container["ports"]] == [master]
    assert {variable["name"]: variable.get("value") for variable in container["env"]}["MASTER_PORT"] == str(
        master
    )


@pytest.mark.parametrize("ports", ["20000-20001", "20001-20000", "many", "0-5", "1-70000"])
def test_a_range_that_cannot_be_used_is_named(ports: str) -> None:
    simulation = JobSimulation(on_hosts(ports)).settle()
    assert simulation.state == "Failed"
    assert simulation.read_message("Failed").startswith("metadata.annotations[steelyard/port-range]: ")
    assert ports in simulation.read_message("Failed")
