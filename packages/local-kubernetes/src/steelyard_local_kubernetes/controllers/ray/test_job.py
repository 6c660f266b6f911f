"""The RayJob controller: its cluster, its submitter, retries and deadlines."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.memory import Crash, CrashAt, MemoryCluster
from steelyard_kube.resource import JOBS, RAY_CLUSTERS, RAY_JOBS
from steelyard_local_kubernetes.controllers.kinds import RAY_JOB
from steelyard_local_kubernetes.controllers.objects import edge
from steelyard_local_kubernetes.controllers.ray.dashboard import submission
from steelyard_local_kubernetes.controllers.ray.job import SUBMISSION, invalid
from steelyard_local_kubernetes.controllers.ray.submitter import command
from steelyard_local_kubernetes.controllers.ray.test_cluster import make_ray_cluster
from steelyard_local_kubernetes.controllers.sync import sync

KEY = ("default", "demo")


def make_ray_job(**spec: Any) -> Json:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "demo", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {
            "entrypoint": "python -c 'print(1)'",
            "rayClusterSpec": make_ray_cluster()["spec"],
            "shutdownAfterJobFinishes": True,
            **spec,
        },
    }


class Simulation:
    """A RayJob on the in-memory cluster, and a head whose answer tests set."""

    def __init__(self, **spec: Any) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.cluster = MemoryCluster(now=lambda: self.time)
        self.cluster.store.create(RAY_JOBS, make_ray_job(**spec))
        self.edge = edge(self.cluster)
        self.info: Json = {}
        self.kind = replace(RAY_JOB, observe=self.observe)

    async def observe(self, cluster: Cluster, job: Json, children: list[Json]) -> list[Json]:
        if job.get("status", {}).get("jobDeploymentStatus") != "Running" or not self.info:
            return []
        return [{"kind": SUBMISSION, "metadata": {"uid": SUBMISSION}, "info": self.info}]

    async def settle(self) -> None:
        for _ in range(20):
            before = self.cluster.store.version
            await sync(self.edge, self.kind, KEY)
            once = self.cluster.store.version
            await sync(self.edge, self.kind, KEY)
            assert self.cluster.store.version == once, "a second sync of the same state must change nothing"
            if self.cluster.store.version == before:
                return
        raise AssertionError("the job does not come to rest")

    def ready(self) -> None:
        for cluster in self.clusters:
            status = {"state": "ready", "head": {"serviceIP": "127.1.0.1"}}
            self.cluster.store.set_status(RAY_CLUSTERS, cluster["metadata"]["name"], "default", status)

    async def running(self) -> None:
        await self.settle()
        self.ready()
        await self.settle()

    def change(self, **spec: Any) -> None:
        self.cluster.store.put({**self.job, "spec": {**self.job["spec"], **spec}})

    @property
    def job(self) -> Json:
        stored = self.cluster.store.find(RAY_JOBS, "demo", "default")
        assert stored is not None
        return stored

    @property
    def status(self) -> Json:
        status: Json = self.job["status"]
        return status

    @property
    def state(self) -> str:
        return str(self.status["jobDeploymentStatus"])

    @property
    def clusters(self) -> list[Json]:
        return self.cluster.store.objects(RAY_CLUSTERS)

    @property
    def submitters(self) -> list[Json]:
        return self.cluster.store.objects(JOBS)


async def test_a_job_makes_its_cluster_submits_and_ends_with_the_program() -> None:
    simulation = Simulation()
    await simulation.settle()
    (cluster,) = simulation.clusters
    assert (simulation.state, simulation.status["rayClusterName"]) == (
        "Initializing",
        cluster["metadata"]["name"],
    )
    assert simulation.submitters == []
    assert "kueue.x-k8s.io/queue-name" not in cluster["metadata"]["labels"]
    simulation.ready()
    await simulation.settle()
    (submitter,) = simulation.submitters
    assert submitter["metadata"]["name"] == "demo"
    assert simulation.status["dashboardURL"].endswith("-head-svc.default.svc.cluster.local:8265")
    assert simulation.state == "Running"
    simulation.info = {"status": "RUNNING", "start_time": 1767225600000}
    await simulation.settle()
    assert (simulation.state, simulation.status["jobStatus"]) == ("Running", "RUNNING")
    simulation.info |= {"status": "SUCCEEDED", "end_time": 1767225660000}
    simulation.time += timedelta(minutes=2)
    await simulation.settle()
    assert (simulation.state, simulation.status["jobStatus"], simulation.status["succeeded"]) == (
        "Complete",
        "SUCCEEDED",
        1,
    )
    assert simulation.status["rayJobInfo"] == {
        "startTime": "2026-01-01T00:00:00Z",
        "endTime": "2026-01-01T00:01:00Z",
    }
    assert simulation.clusters == []


@pytest.mark.parametrize("outcome", ["SUCCEEDED", "FAILED"])
async def test_the_cluster_stays_until_the_submitter_has_written_the_log(outcome: str) -> None:
    simulation = Simulation()
    await simulation.running()
    simulation.info = {"status": outcome, "end_time": int(simulation.time.timestamp() * 1000)}
    simulation.cluster.store.set_status(JOBS, "demo", "default", {"active": 1})
    await simulation.settle()
    assert (simulation.state, len(simulation.clusters)) == ("Running", 1)
    simulation.cluster.store.set_status(JOBS, "demo", "default", {"active": 0, "succeeded": 1})
    await simulation.settle()
    assert (simulation.state in ("Complete", "Failed"), simulation.clusters) == (True, [])


async def test_a_submitter_that_hangs_does_not_keep_the_cluster() -> None:
    simulation = Simulation()
    await simulation.running()
    simulation.info = {"status": "SUCCEEDED", "end_time": int(simulation.time.timestamp() * 1000)}
    simulation.cluster.store.set_status(JOBS, "demo", "default", {"active": 1})
    simulation.time += timedelta(seconds=29)
    await simulation.settle()
    assert simulation.state == "Running"
    simulation.time += timedelta(seconds=1)
    await simulation.settle()
    assert (simulation.state, simulation.clusters) == ("Complete", [])


async def test_the_cluster_stays_for_its_time_to_live() -> None:
    simulation = Simulation(ttlSecondsAfterFinished=60)
    await simulation.running()
    simulation.info = {"status": "SUCCEEDED"}
    await simulation.settle()
    assert len(simulation.clusters) == 1
    assert await sync(simulation.edge, simulation.kind, KEY) == 60
    simulation.time += timedelta(seconds=61)
    await simulation.settle()
    assert (simulation.clusters, simulation.state) == ([], "Complete")


async def test_a_failure_is_tried_again_with_a_cluster_of_its_own() -> None:
    simulation = Simulation(backoffLimit=1)
    await simulation.running()
    first = simulation.status["rayClusterName"], simulation.status["jobId"]
    simulation.info = {"status": "FAILED", "message": "exit code 1"}
    await sync(simulation.edge, simulation.kind, KEY)
    simulation.info = {}
    await simulation.running()
    second = simulation.status["rayClusterName"], simulation.status["jobId"]
    assert not set(first) & set(second)
    assert (simulation.state, simulation.status["failed"]) == ("Running", 1)
    simulation.info = {"status": "FAILED", "message": "exit code 1"}
    await simulation.settle()
    assert (simulation.state, simulation.status["failed"], simulation.status["reason"]) == (
        "Failed",
        2,
        "AppFailed",
    )
    assert (simulation.status["message"], "endTime" in simulation.status) == ("exit code 1", True)


async def test_a_suspended_job_has_no_cluster_and_starts_again() -> None:
    simulation = Simulation(suspend=True)
    await simulation.settle()
    assert (simulation.state, simulation.clusters) == ("Suspended", [])
    simulation.change(suspend=False)
    await simulation.running()
    assert simulation.state == "Running"
    simulation.change(suspend=True)
    await simulation.settle()
    assert (simulation.state, simulation.clusters, simulation.submitters) == ("Suspended", [], [])
    assert "jobId" not in simulation.status
    simulation.change(suspend=False)
    await simulation.running()
    assert simulation.state == "Running"


async def test_a_deadline_ends_the_job_without_another_attempt() -> None:
    simulation = Simulation(activeDeadlineSeconds=30, backoffLimit=3)
    await simulation.running()
    simulation.time += timedelta(seconds=31)
    await simulation.settle()
    assert (simulation.state, simulation.status["reason"]) == ("Failed", "DeadlineExceeded")


async def test_a_submitter_that_fails_is_a_failed_submission() -> None:
    simulation = Simulation()
    await simulation.running()
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    simulation.cluster.store.set_status(JOBS, "demo", "default", {"conditions": [failed]})
    await simulation.settle()
    assert (simulation.state, simulation.status["reason"]) == ("Failed", "SubmissionFailed")


async def test_a_job_may_choose_a_cluster_which_stays() -> None:
    selector = {"clusterSelector": {"ray.io/cluster": "mine"}, "rayClusterSpec": None}
    simulation = Simulation(**selector, shutdownAfterJobFinishes=False)
    await simulation.settle()
    assert (simulation.state, simulation.clusters) == ("Initializing", [])
    simulation.cluster.store.create(RAY_CLUSTERS, make_ray_cluster("mine"))
    await simulation.running()
    assert (simulation.state, simulation.status["rayClusterName"]) == ("Running", "mine")
    simulation.info = {"status": "SUCCEEDED"}
    await simulation.settle()
    assert (simulation.state, len(simulation.clusters)) == ("Complete", 1)


async def test_jobs_by_http_have_no_submitter() -> None:
    simulation = Simulation(submissionMode="HTTPMode", entrypointResources='{"slot": 0.5}')
    await simulation.running()
    assert (simulation.state, simulation.submitters) == ("Running", [])
    body = submission(simulation.job)
    assert body["submission_id"] == simulation.status["jobId"]
    assert body["entrypoint"] == "python -c 'print(1)'"
    assert body["entrypoint_resources"] == {"slot": 0.5}


@pytest.mark.parametrize("after", [False, True], ids=["before a call", "after a call"])
async def test_a_crash_between_any_two_calls_makes_one_cluster_and_one_submission(after: bool) -> None:
    for call in range(1, 60):
        simulation = Simulation()
        crash = CrashAt(call)
        setattr(simulation.cluster, "after_call" if after else "before_call", crash)
        for _ in range(8):
            try:
                await sync(simulation.edge, simulation.kind, KEY)
            except Crash:
                continue
            simulation.ready()
        assert (simulation.state, len(simulation.clusters), len(simulation.submitters)) == ("Running", 1, 1)
        if crash.calls < call:
            return
    raise AssertionError("no run without a crash")


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({}, ""),
        ({"rayClusterSpec": None}, "one of RayClusterSpec or ClusterSelector must be set"),
        ({"entrypoint": ""}, "entrypoint is required"),
        (
            {"suspend": True, "shutdownAfterJobFinishes": False},
            "a RayJob with shutdownAfterJobFinishes set to false",
        ),
        ({"activeDeadlineSeconds": 0}, "activeDeadlineSeconds must be a positive integer"),
    ],
)
async def test_a_specification_that_cannot_be_carried_out_is_reported(spec: Json, fault: str) -> None:
    assert invalid(make_ray_job(**spec)).startswith(fault)
    if fault:
        simulation = Simulation(**spec)
        await simulation.settle()
        assert (simulation.state, simulation.status["message"]) == (
            "ValidationFailed",
            invalid(simulation.job),
        )


def test_the_submitter_submits_once_and_follows_the_log() -> None:
    job = make_ray_job(runtimeEnvYAML="env_vars: {A: it's}\n", entrypointNumCpus=1)
    job["status"] = {"dashboardURL": "head:8265", "jobId": "id"}
    program = command(job)
    assert program.startswith(
        "if ! ray job status --address http://head:8265 id >/dev/null 2>&1 ; then ray job submit"
    )
    assert (
        """--runtime-env-json '{"env_vars": {"A": "it'"'"'s"}}' --entrypoint-num-cpus 1 -- python -c"""
        in program
    )
    assert program.endswith("ray job logs --address http://head:8265 --follow id")
