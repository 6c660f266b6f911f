"""StatefulSets and CronJobs."""

import time

from steelyard_common.types import Json
from steelyard_kube.objects import owner_references, read_labels, read_status
from steelyard_kube.resource import (
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
)
from tests.kubernetes_controllers.sandbox import Sandbox, make, make_job, make_set, template, until


async def rolled(sandbox: Sandbox, *names: str, generation: int = 1) -> None:
    """Report every Pod as ready until the set has just these, all of its newest revision."""

    async def probe() -> bool:
        for pod in await sandbox.active():
            if read_status(pod).get("phase") != "Running":
                await sandbox.run(pod)
        status = read_status(await sandbox.get(STATEFUL_SETS, "web"))
        numbers = [status.get(key) for key in ("replicas", "readyReplicas", "updatedReplicas")]
        done = status.get("observedGeneration") == generation and numbers == [len(names)] * 3
        return done and await sandbox.names(PODS) == list(names)

    await until(probe, f"just {names}")


async def test_a_stateful_set_makes_one_pod_after_the_other(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("StatefulSet", replicas=2, serviceName="web"))
    (first,) = await sandbox.pods(1)
    assert first["metadata"]["name"] == "web-0"
    assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("web-0", "web")
    labels = read_labels(first)
    assert labels["statefulset.kubernetes.io/pod-name"] == "web-0"
    assert labels["apps.kubernetes.io/pod-index"] == "0"
    await sandbox.status(STATEFUL_SETS, "web", replicas=1)
    await rolled(sandbox, "web-0", "web-1")
    status = await sandbox.status(STATEFUL_SETS, "web", availableReplicas=2, currentReplicas=2)
    assert status["currentRevision"] == status["updateRevision"] == labels["controller-revision-hash"]
    assert await sandbox.names(CONTROLLER_REVISIONS) == [status["updateRevision"]]
    await sandbox.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 1}})
    await rolled(sandbox, "web-0", generation=2)


async def test_an_update_goes_from_the_last_pod_to_the_first(sandbox: Sandbox) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    await sandbox.create(make_set("StatefulSet", replicas=3, serviceName="web", updateStrategy=strategy))
    await rolled(sandbox, "web-0", "web-1", "web-2")
    await sandbox.patch(STATEFUL_SETS, "web", {"spec": {"template": template(image="y")}})

    async def updated() -> bool:
        for pod in await sandbox.active():
            if read_status(pod).get("phase") != "Running":
                await sandbox.run(pod)
        images = [pod["spec"]["containers"][0]["image"] for pod in await sandbox.all(PODS)]
        status = read_status(await sandbox.get(STATEFUL_SETS, "web"))
        return images == ["x", "y", "y"] and status.get("updatedReplicas") == 2 == status["readyReplicas"] - 1

    await until(updated, "two of three")
    status = await sandbox.status(STATEFUL_SETS, "web", currentReplicas=1)
    assert status["currentRevision"] != status["updateRevision"]
    await sandbox.patch(
        STATEFUL_SETS, "web", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
    )
    await rolled(sandbox, "web-0", "web-1", "web-2", generation=3)
    status = await sandbox.status(STATEFUL_SETS, "web", currentReplicas=3)
    assert status["currentRevision"] == status["updateRevision"]


async def test_a_parallel_set_and_its_claims(sandbox: Sandbox) -> None:
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await sandbox.create(
        make_set(
            "StatefulSet", replicas=3, serviceName="web", podManagementPolicy="Parallel",
            volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": storage}],
            persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete", "whenDeleted": "Retain"},
        )
    )  # fmt: skip
    pods = await sandbox.pods(3)
    volumes = [volume for volume in pods[1]["spec"]["volumes"] if volume["name"] == "data"]
    assert volumes == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}]
    assert await sandbox.names(PERSISTENT_VOLUME_CLAIMS) == [f"data-web-{number}" for number in range(3)]
    await sandbox.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 1}})

    async def owned() -> bool:
        claims = await sandbox.all(PERSISTENT_VOLUME_CLAIMS)
        left = [claim["metadata"]["name"] for claim in claims if not owner_references(claim)]
        return await sandbox.names(PODS) == ["web-0"] and left == ["data-web-0"]

    await until(owned, "claims that go with their Pods")
    await sandbox.delete(STATEFUL_SETS, "web")
    await sandbox.gone(PODS, "web-0")
    assert "data-web-0" in await sandbox.names(PERSISTENT_VOLUME_CLAIMS)


async def test_a_cron_job_makes_jobs(sandbox: Sandbox) -> None:
    """One in a minute, by whose number it is named; a suspended one makes none."""
    spec = {"schedule": "@every 1s", "jobTemplate": {"spec": make_job()["spec"]}}
    await sandbox.create(make("batch/v1", "CronJob", "rests", suspend=True, **spec))
    await sandbox.create(make("batch/v1", "CronJob", "often", **spec))
    (pod,) = await sandbox.pods(1)
    job = (await sandbox.all(JOBS))[0]
    assert job["metadata"]["name"].startswith("often-")
    minute = int(job["metadata"]["name"].removeprefix("often-"))
    assert abs(minute - time.time() / 60) < 2

    async def active() -> list[Json]:
        status = read_status(await sandbox.get(CRON_JOBS, "often"))
        return list(status.get("active") or []) if status.get("lastScheduleTime") else []

    (running,) = await until(active, "its Job in the status")
    assert (running["kind"], running["uid"]) == ("Job", job["metadata"]["uid"])
    await sandbox.end(pod)

    async def succeeded() -> bool:
        status = read_status(await sandbox.get(CRON_JOBS, "often"))
        return "lastSuccessfulTime" in status and running not in (status.get("active") or [])

    await until(succeeded, "its success")
    await sandbox.delete(CRON_JOBS, "often")
    await sandbox.gone(JOBS, job["metadata"]["name"])
