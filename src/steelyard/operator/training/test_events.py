"""Events and metrics of a job, by v1's names."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from steelyard.operator.main import Operator
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.test_main import running, until
from steelyard.operator.training import events
from steelyard.operator.training.metrics import TrainingMetrics
from steelyard.operator.training.simulation.job_simulation import NAMESPACE, make_job
from steelyard_common.types import Json
from steelyard_kube.errors import NotFound
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import EVENTS, PODS, PYTORCH_JOBS, TF_JOBS, Resource


def condition(type: str, status: str = "True", reason: str | None = None) -> Json:
    return {
        "type": type,
        "status": status,
        "reason": reason or f"PyTorchJob{type}",
        "message": f"it is {type}",
    }


def new_events(before: list[Json], after: list[Json]) -> list[tuple[str, str]]:
    new = events.status_events(make_job(), {"conditions": before}, {"conditions": after})
    return [(event.type, event.reason) for event in new]


@pytest.mark.parametrize(
    ("after", "reasons"),
    [
        (condition("Created"), []),
        (condition("Running"), []),
        (condition("Running", reason="MPIJobRunning"), [("Normal", "MPIJobRunning")]),
        (condition("Restarting"), [("Warning", "PyTorchJobRestarting")]),
        (condition("Succeeded"), [("Normal", "PyTorchJobSucceeded")]),
        (condition("Failed"), [("Normal", "PyTorchJobFailed")]),
        (condition("Suspended"), [("Normal", "PyTorchJobSuspended")]),
        (condition("Suspended", "False", "PyTorchJobResumed"), [("Normal", "PyTorchJobResumed")]),
    ],
)
def test_a_condition_that_comes_is_reported_once(after: Json, reasons: list[tuple[str, str]]) -> None:
    assert new_events([], [after]) == reasons
    assert new_events([after], [after]) == []


def test_a_restart_policy_in_a_template_is_told_to_be_overwritten() -> None:
    job = make_job()
    status = {"conditions": [condition("Created")]}
    assert not list(events.status_events(job, {}, status))
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["restartPolicy"] = "Always"
    assert [event.reason for event in events.status_events(job, {}, status)] == [
        "SetPodTemplateRestartPolicy"
    ]


def test_an_exit_is_reported_once_with_its_code() -> None:
    one = {"uid": "u", "pod": "job-worker-0", "exitCode": 137}
    status: Json = {"replicas": [{**one, "phase": "Failed"}], "failures": [one]}
    new = list(events.status_events(make_job(), {}, status))
    assert [event.message for event in new] == ["Pod: default.job-worker-0 exited with code 137"]
    assert list(events.status_events(make_job(), status, status)) == []


def pod(reason: str, message: str = "why") -> Json:
    waiting = {"name": "pytorch", "state": {"waiting": {"reason": reason, "message": message}}}
    return {"metadata": {"name": "p"}, "status": {"containerStatuses": [waiting]}}


def test_what_keeps_a_container_from_running_is_reported_by_its_own_reason() -> None:
    (trouble,) = events.pod_trouble(None, pod("ImagePullBackOff"))
    assert (trouble.type, trouble.reason) == ("Warning", "ImagePullBackOff")
    assert trouble.message == "Error pod p container pytorch waiting message: why"
    assert not list(events.pod_trouble(pod("ImagePullBackOff"), pod("ImagePullBackOff")))
    assert not list(events.pod_trouble(None, pod("ContainerCreating")))


def test_jobs_are_counted_by_namespace_and_framework() -> None:
    registry = CollectorRegistry()
    metrics, job = TrainingMetrics(registry), make_job("TFJob", {"Worker": 1})
    status: Json = {"conditions": [condition("Created")]}
    metrics.record_write("status", job, {**job, "status": status})
    failure = {"uid": "u", "exitCode": 1}
    restarted = {**status, "restarts": 1, "failures": [failure]}
    metrics.record_write("status", {**job, "status": status}, {**job, "status": restarted})
    failed = {**restarted, "conditions": [condition("Created"), condition("Failed")]}
    metrics.record_write("status", {**job, "status": restarted}, {**job, "status": failed})
    metrics.record_write("create", job, {"kind": "Pod", "metadata": {"uid": "p"}})
    metrics.record_write("delete", job, job)
    text = generate_latest(registry).decode()
    for word in ("created", "restarted", "failed", "deleted"):
        labels = 'framework="tensorflow",job_namespace="default"'
        assert f"training_operator_jobs_{word}_total{{{labels}}} 1.0" in text
    assert "successful_total{" not in text
    assert "\ncreated_pods_total 1.0" in text
    assert "\nfailed_pods_total 1.0" in text


def finish(cluster: MemoryCluster) -> None:
    for pod in cluster.store.objects(PODS):
        ended = {"name": "pytorch", "state": {"terminated": {"exitCode": 0}}}
        status = {"phase": "Succeeded", "containerStatuses": [ended]}
        cluster.store.set_status(PODS, pod["metadata"]["name"], NAMESPACE, status)


async def test_the_operator_plays_a_job_although_other_kinds_are_not_installed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster, calls = MemoryCluster(lambda: datetime.now(UTC)), Counter[str]()

    def before(verb: str, resource: Resource, name: str) -> None:
        calls[f"{verb} {resource.plural}"] += 1
        if resource == TF_JOBS or resource.plural == "horizontalpodautoscalers":
            raise NotFound("the server could not find the requested resource")

    cluster.before_call = before
    operator = Operator(cluster, OperatorSettings(), lambda: datetime.now(UTC))
    job = make_job()
    await cluster.create(PYTORCH_JOBS, {**job, "metadata": {"name": "job", "namespace": NAMESPACE}})
    async with running(operator.work):
        await until(lambda: len(cluster.store.objects(PODS)) == 3)
        finish(cluster)
        await until(lambda: "Succeeded" in str(cluster.store.objects(PYTORCH_JOBS)))
        async with asyncio.timeout(30):
            while len(cluster.store.objects(EVENTS)) < 10:
                await operator._events.flush()
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # and none comes twice
        await operator._events.flush()
    reasons = Counter(event["reason"] for event in cluster.store.objects(EVENTS))
    assert reasons == {
        "SuccessfulCreatePod": 3,
        "SuccessfulCreateService": 3,
        "ExitedWithCode": 3,
        "PyTorchJobSucceeded": 1,
    }
    assert "Created pod: job-worker-1" in {event["message"] for event in cluster.store.objects(EVENTS)}
    assert caplog.text.count("doing without tfjobs") == 1
    writes = {name: count for name, count in calls.items() if not name.startswith(("list", "watch"))}
    assert writes["create pods"] == writes["create services"] == 3, "what was made is known to be there"
    assert writes["get pytorchjobs"] == 1
    assert writes["patch/status pytorchjobs"] <= 4
