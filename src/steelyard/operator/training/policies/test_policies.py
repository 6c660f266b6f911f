"""The policies of a job, as it lives: clean-up, time to live, deadline, suspension, gangs, autoscaling, ports."""

from datetime import timedelta
from typing import Any

import pytest

from steelyard.awake import Sleep, Sleeps
from steelyard.kube.resource import HORIZONTAL_POD_AUTOSCALERS, VOLCANO_POD_GROUPS
from steelyard.operator.children import Children
from steelyard.operator.controller import Controller
from steelyard.operator.settings import OperatorSettings, TrainingSettings
from steelyard.operator.training.dl_job import reconcile
from steelyard.operator.training.simulation.job_simulation import (
    BEGIN,
    NAMESPACE,
    Stage,
    make_job,
    make_template,
)
from steelyard.types import Json

MASTER, FIRST, SECOND = PODS = ["job-master-0", "job-worker-0", "job-worker-1"]
DEADLINE = "PyTorchJob job has failed because it was active longer than specified deadline"


def running(**fields: Any) -> Stage:
    return Stage(make_job(**fields)).settle().run()


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
    stage = running(policy={"cleanPodPolicy": policy} if policy else {})
    stage.end(FIRST).settle().end(MASTER).settle()
    assert stage.state == "Succeeded"
    assert (sorted(stage.pods()), stage.services()) == (pods, services)
    assert stage.status["replicaStatuses"]["Worker"]["succeeded"] == 2, "v1: who still ran has done enough"
    assert "active" not in stage.status["replicaStatuses"]["Worker"]


def test_a_finished_job_goes_when_its_time_is_over_and_not_before() -> None:
    stage = running(policy={"ttlSecondsAfterFinished": 60}).end(MASTER).settle()
    ended = stage.status
    assert stage.wait(59).status == ended
    stage.wait_unseen(1).step()
    assert stage.store.find(stage.key.resource, "job", NAMESPACE) is None


def test_a_time_to_live_of_nothing_deletes_at_once() -> None:
    stage = running(policy={"ttlSecondsAfterFinished": 0}).end(MASTER)
    stage.step()
    stage.step()
    assert stage.store.find(stage.key.resource, "job", NAMESPACE) is None


def test_a_failed_job_has_a_time_to_live_too() -> None:
    stage = running(restart="ExitCode", policy={"ttlSecondsAfterFinished": 60}).end(FIRST, 1).settle()
    assert stage.state == "Failed"
    stage.wait_unseen(60).step()
    assert stage.store.find(stage.key.resource, "job", NAMESPACE) is None


# ---- deadline


def test_a_deadline_holds_without_any_event() -> None:
    stage = running(policy={"activeDeadlineSeconds": 100, "cleanPodPolicy": "None"}).end(FIRST).settle()
    assert stage.wait(99).state == "Running"
    assert stage.look == stage.now.replace(second=40), "the queue is told when"
    stage.wait(1)
    assert (stage.state, stage.said("Failed")) == ("Failed", DEADLINE)
    assert sorted(stage.pods()) == [FIRST], "what had to be stopped does not go on, whatever the policy is"


def test_a_deadline_counts_time_awake() -> None:
    stage = running(policy={"activeDeadlineSeconds": 100})
    sleeps = Sleeps((Sleep(stage.now + timedelta(seconds=3610), 3600.0),))
    stage.controller = Controller(stage.cluster, stage.caches, sleeps=lambda: sleeps)
    assert stage.wait(3699).state == "Running"
    assert stage.wait(1).state == "Failed"


def test_a_deadline_is_no_reason_to_end_who_has_succeeded() -> None:
    stage = running(policy={"activeDeadlineSeconds": 100}).end(MASTER).wait(100)
    assert stage.state == "Succeeded"


def test_a_deadline_begins_anew_after_a_suspension() -> None:
    stage = running(policy={"activeDeadlineSeconds": 100}).wait(90)
    stage.patch_spec(runPolicy={"activeDeadlineSeconds": 100, "suspend": True}).wait(1000)
    assert stage.state == "Suspended"
    stage.patch_spec(runPolicy={"activeDeadlineSeconds": 100}).run()
    assert stage.wait(99).state == "Running"
    assert stage.wait(1).state == "Failed"


# ---- suspension


def test_a_job_suspended_from_the_start_has_nothing() -> None:
    stage = Stage(make_job(policy={"suspend": True})).settle()
    assert [each["type"] for each in stage.status["conditions"]] == ["Created", "Suspended"]
    assert stage.said("Suspended") == "PyTorchJob job is suspended."
    assert (stage.pods(), stage.services(), stage.status.get("startTime")) == ({}, [], None)


def test_a_suspension_takes_all_away_and_its_end_brings_it_back() -> None:
    stage = running(restart="Never").end(FIRST).settle()
    started = stage.status["startTime"]
    stage.wait(5).patch_spec(runPolicy={"suspend": True})
    assert (stage.pods(), stage.services()) == ({}, [])
    assert stage.condition("Running") is not None
    assert (stage.condition("Running") or {})["reason"] == "PyTorchJobSuspended"
    assert (stage.status["startTime"], stage.status["replicaStatuses"]["Worker"].get("active")) == (
        started,
        None,
    )
    stage.patch_spec(runPolicy={})
    assert sorted(stage.pods()) == PODS, "who had succeeded too: the job begins anew"
    assert stage.said("Suspended") == "PyTorchJob job is resumed."
    assert stage.status["startTime"] > started
    assert (stage.status["restarts"], stage.status["disruptions"]) == (0, 0)


def test_a_suspended_job_counts_as_active_until_its_pods_are_gone() -> None:
    """Kueue gives the room away when nothing is active any more."""
    stage = running().on_node(*PODS).patch_spec(runPolicy={"suspend": True})
    assert sorted(stage.pods()) == PODS, "they are being deleted"
    for name in PODS:
        stage.gone(name).settle()
    assert (stage.state, stage.pods()) == ("Suspended", {})
    assert all("active" not in each for each in stage.status["replicaStatuses"].values())


# ---- gangs


def gang(scheduler: str) -> OperatorSettings:
    return OperatorSettings(training=TrainingSettings(gang_scheduler=scheduler))


def test_volcano_admits_a_group_before_there_are_pods() -> None:
    policy = {"schedulingPolicy": {"queue": "q", "priorityClass": "high"}}
    stage = Stage(make_job(policy=policy), gang("volcano")).settle()
    (group,) = stage.store.objects(VOLCANO_POD_GROUPS)
    assert group["spec"] == {"minMember": 3, "queue": "q", "priorityClassName": "high"}
    assert stage.pods() == {}
    stage.store.set_status(VOLCANO_POD_GROUPS, "job", NAMESPACE, {"phase": "Pending"})
    assert stage.settle().pods() == {}
    stage.store.set_status(VOLCANO_POD_GROUPS, "job", NAMESPACE, {"phase": "Inqueue"})
    pod = stage.settle().pods()[FIRST]
    assert pod["spec"]["schedulerName"] == "volcano"
    annotations = {"scheduling.k8s.io/group-name": "job", "volcano.sh/task-spec": "worker"}
    assert pod["metadata"]["annotations"] == annotations
    stage.scale("Worker", 4)
    (group,) = stage.store.objects(VOLCANO_POD_GROUPS)
    assert group["spec"]["minMember"] == 5
    stage.run().end(MASTER).settle()
    assert (stage.state, stage.store.objects(VOLCANO_POD_GROUPS)) == ("Succeeded", [])


def test_coscheduling_groups_pods_by_a_label_and_reckons_what_they_need() -> None:
    job = make_job(policy={"schedulingPolicy": {"minAvailable": 2, "scheduleTimeoutSeconds": 9}})
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "nvidia.com/gpu": "1"}}
    for role in job["spec"]["pytorchReplicaSpecs"].values():
        role["template"] = make_template("pytorch", resources=resources)
    stage = Stage(job, gang("coscheduler")).settle()
    pod = stage.pods()[FIRST]
    assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "job"
    assert pod["spec"]["schedulerName"] == "coscheduler"
    group = next(each for each in stage.store.objects() if each["kind"] == "PodGroup")
    needs = {"cpu": "1", "nvidia.com/gpu": "2"}
    assert group["spec"] == {"minMember": 2, "scheduleTimeoutSeconds": 9, "minResources": needs}


@pytest.mark.parametrize("least", [0, 9])
def test_the_least_size_of_a_gang_is_passed_on_as_v1_does(least: int) -> None:
    job = make_job(policy={"schedulingPolicy": {"minAvailable": least}})
    stage = Stage(job, gang("coscheduler")).settle().run()
    group = next(obj for obj in stage.store.objects() if obj["kind"] == "PodGroup")
    assert (group["spec"]["minMember"], stage.state) == (least, "Running")


def test_a_gang_without_a_scheduler_is_told_once() -> None:
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
    assert Stage(job, gang("volcano")).settle().pods() == {}
    assert Stage(job, gang("other")).settle().pods()[FIRST]["spec"]["schedulerName"] == "mine"


# ---- autoscaling


def test_an_elastic_job_with_metrics_has_an_autoscaler_that_follows_it() -> None:
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]
    elastic = {"minReplicas": 1, "maxReplicas": 3, "metrics": metrics}
    stage = Stage(make_job(replicas={"Worker": 2}, elasticPolicy=elastic)).settle()
    (scaler,) = stage.store.objects(HORIZONTAL_POD_AUTOSCALERS)
    assert scaler["spec"]["scaleTargetRef"] == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "name": "job",
    }
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (1, 3)
    stage.patch_spec(elasticPolicy={**elastic, "maxReplicas": 5})
    (scaler,) = stage.store.objects(HORIZONTAL_POD_AUTOSCALERS)
    assert scaler["spec"]["maxReplicas"] == 5
    stage.patch_spec(runPolicy={"suspend": True})
    assert stage.store.objects(HORIZONTAL_POD_AUTOSCALERS) == []


# ---- ports


def on_hosts(ports: str) -> Json:
    job = make_job(annotations={"steelyard/port-range": ports})
    for role in job["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["hostNetwork"] = True
    return job


def test_replicas_on_their_hosts_network_have_ports_of_their_own() -> None:
    stage = Stage(on_hosts("20000-20002")).settle()
    ports = {each["port"] for each in stage.status["ports"]}
    assert ports == {20000, 20001, 20002}
    before = stage.status["ports"]
    stage.run().end(FIRST, 1).settle()
    assert stage.status["ports"] == before, "a restarted replica is where the others look for it"
    container = stage.pods()[MASTER]["spec"]["containers"][0]
    (master,) = (each["port"] for each in before if each["type"] == "Master")
    assert [each["containerPort"] for each in container["ports"]] == [master]
    assert {each["name"]: each.get("value") for each in container["env"]}["MASTER_PORT"] == str(master)


@pytest.mark.parametrize("ports", ["20000-20001", "20001-20000", "many", "0-5", "1-70000"])
def test_a_range_that_cannot_be_used_is_named(ports: str) -> None:
    stage = Stage(on_hosts(ports)).settle()
    assert stage.state == "Failed"
    assert stage.said("Failed").startswith("metadata.annotations[steelyard/port-range]: ")
    assert ports in stage.said("Failed")
