"""StatefulSets, CronJobs and Jobs with policies on the real API server of this package: what its controllers write
passes its validation and defaults.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.client import connect
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import Invalid
from steelyard_kube.resource import (
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STATEFUL_SETS,
    Resource,
)
from tests.kubernetes_differential.embedded import embedded_server

SPACE = "default"
TEMPLATE: Json = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "x"}]},
}
ONCE: Json = {
    "metadata": {},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]},
}


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    with embedded_server() as kubeconfig:
        client = await connect(kubeconfig)
        try:
            yield client
        finally:
            await client.close()


async def until(look: Callable[[], Any], seconds: float = 30) -> Any:
    """Return the first answer that is true."""
    async with asyncio.timeout(seconds):
        while not (answer := await look()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return answer


async def names(client: Cluster, resource: Resource) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in (await client.list(resource, SPACE)).items)


async def run_pod(client: Cluster, name: str) -> None:
    """Report of a Pod what a kubelet would: it runs and is ready."""
    conditions = [{"type": "Ready", "status": "True"}]
    await client.patch(
        PODS, name, {"status": {"phase": "Running", "conditions": conditions}}, SPACE, subresource="status"
    )


async def end_pod(client: Cluster, name: str, code: int) -> None:
    ended = {"exitCode": code, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": "Failed", "containerStatuses": [{**container, "state": {"terminated": ended}}]}
    await client.patch(PODS, name, {"status": status}, SPACE, subresource="status")


def make(api_version: str, kind: str, name: str, **spec: Any) -> Json:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": SPACE},
        "spec": spec,
    }


async def test_a_stateful_set_gets_its_pods_claims_and_revisions() -> None:
    async with cluster() as client:
        storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claims = [{"metadata": {"name": "data"}, "spec": storage}]
        selector = {"matchLabels": {"app": "web"}}
        wanted = make(
            "apps/v1", "StatefulSet", "web", replicas=2, serviceName="web", selector=selector, template=TEMPLATE,
            volumeClaimTemplates=claims, persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"},
        )  # fmt: skip
        await client.create(STATEFUL_SETS, wanted)
        for name in ("web-0", "web-1"):
            await until(partial(_has, client, PODS, name))
            await run_pod(client, name)

        async def status() -> Json:
            stored = await client.get(STATEFUL_SETS, "web", SPACE)
            return stored["status"] if stored["status"].get("availableReplicas") == 2 else {}

        said = await until(status)
        assert said["currentRevision"] == said["updateRevision"]
        assert await names(client, CONTROLLER_REVISIONS) == [said["updateRevision"]]
        assert await names(client, PERSISTENT_VOLUME_CLAIMS) == ["data-web-0", "data-web-1"]
        assert await until(partial(_phases, client)) == {"Bound"}
        await client.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 1}}, SPACE)

        async def shrunk() -> bool:
            pods, left = await names(client, PODS), await names(client, PERSISTENT_VOLUME_CLAIMS)
            return (pods, left) == (["web-0"], ["data-web-0"])

        await until(shrunk)


async def _phases(client: Cluster) -> set[str]:
    """Return the phases of claims and volumes once all of them have the same."""
    objects = [
        *(await client.list(PERSISTENT_VOLUME_CLAIMS)).items,
        *(await client.list(PERSISTENT_VOLUMES)).items,
    ]
    phases = {obj["status"]["phase"] for obj in objects}
    return phases if len(phases) == 1 and len(objects) == 4 else set()


async def _has(client: Cluster, resource: Resource, name: str) -> bool:
    return name in await names(client, resource)


async def test_a_cron_job_makes_jobs_and_bad_schedules_are_refused() -> None:
    async with cluster() as client:
        job = {"spec": {"template": ONCE}}
        await client.create(
            CRON_JOBS, make("batch/v1", "CronJob", "often", schedule="@every 1s", jobTemplate=job)
        )
        await until(lambda: names(client, JOBS))

        async def status() -> Json:
            status: Json = (await client.get(CRON_JOBS, "often", SPACE))["status"]
            return status

        said = await until(status)
        assert said["active"][0]["name"] in await names(client, JOBS)
        for spec in ({"schedule": "61 * * * *"}, {"schedule": "@daily", "timeZone": "Mars/Olympus"}):
            with pytest.raises(Invalid):
                await client.create(CRON_JOBS, make("batch/v1", "CronJob", "bad", jobTemplate=job, **spec))


async def test_an_indexed_job_with_limits_by_index_fails_with_its_reason() -> None:
    async with cluster() as client:
        wanted = make(
            "batch/v1", "Job", "sweep", completions=2, parallelism=2, completionMode="Indexed",
            backoffLimitPerIndex=0, maxFailedIndexes=0, template=ONCE,
        )  # fmt: skip
        made = await client.create(JOBS, wanted)
        assert made["spec"]["backoffLimit"] == 2**31 - 1

        async def both() -> list[str]:
            pods = await names(client, PODS)
            return pods if len(pods) == 2 else []

        await end_pod(client, (await until(both))[1], 3)

        async def ended() -> Json:
            status: Json = (await client.get(JOBS, "sweep", SPACE))["status"]
            return status if any(said["type"] == "Failed" for said in status.get("conditions", ())) else {}

        status = await until(ended)
        assert status["failedIndexes"] == "1"
        assert status["conditions"][-1]["reason"] == "MaxFailedIndexesExceeded"
