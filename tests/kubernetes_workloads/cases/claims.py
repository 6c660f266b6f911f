"""Claims that Pods mount: what one Pod writes another reads, and a claim stays as long as a Pod uses it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from steelyard_common.types import Json
from tests.kubernetes_workloads.cases.pods import WAITS
from tests.kubernetes_workloads.cluster import Cluster, container, pod, shape

VOLUMES = "/api/v1/persistentvolumes"
MODES = ["ReadWriteOnce"]
SIZE = {"storage": "1Gi"}
DATA: Json = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]}


@asynccontextmanager
async def bound(cluster: Cluster) -> AsyncIterator[Json]:
    """A claim that has a volume: on a node a folder of a file system that ends with it, here one of its own."""
    name = cluster.namespace
    place = {"path": f"/run/{name}", "type": "DirectoryOrCreate"}
    spec: Json = {"capacity": SIZE, "accessModes": MODES, "storageClassName": name, "hostPath": place}
    await cluster.api.post(VOLUMES, {"metadata": {"name": name}, "spec": spec})
    wanted = {"accessModes": MODES, "storageClassName": name, "resources": {"requests": SIZE}}
    await cluster.create("persistentvolumeclaims", {"metadata": {"name": "claim"}, "spec": wanted})
    try:
        yield await cluster.until(
            "persistentvolumeclaims", "claim", lambda item: item["status"].get("phase") == "Bound"
        )
    finally:
        await cluster.api.delete(f"{VOLUMES}/{name}")


def mounted(*paths: str, **fields: str | bool) -> list[Json]:
    return [{"name": "data", "mountPath": path, **fields} for path in paths]


async def mounted_claim(cluster: Cluster) -> Json:
    async with bound(cluster) as claim:
        script = "echo one > /data/file; echo two > /part/file; mkdir /data/empty; ls /data; stat -c %a /data/empty"
        mounts = [*mounted("/data"), *mounted("/part", subPath="deep/er")]
        first, lines = await cluster.run(pod(container(script, volumeMounts=mounts), **DATA))
        script = "cat /data/file /data/deep/er/file /one; touch /fixed/new 2>/dev/null || echo cannot write"
        mounts = [*mounted("/data"), *mounted("/fixed", readOnly=True), *mounted("/one", subPath="file")]
        second, read = await cluster.run(pod(container(script, volumeMounts=mounts), name="second", **DATA))
        phases = [item["status"]["phase"] for item in (first, second)]
        return {"status": claim["status"], "phases": phases, "written": lines, "read": read}


async def two_pods_share_a_claim(cluster: Cluster) -> Json:
    async with bound(cluster):
        script = "until test -e /data/asked; do sleep 0.1; done; echo answer > /data/answered"
        await cluster.create(
            "pods", pod(container(script, volumeMounts=mounted("/data")), name="other", **DATA)
        )
        script = "touch /data/asked; until test -s /data/answered; do sleep 0.1; done; cat /data/answered"
        seen, lines = await cluster.run(pod(container(script, volumeMounts=mounted("/data")), **DATA))
        return {"pod": shape(seen), "other": shape(await cluster.ended("other")), "lines": lines}


async def claim_deleted_while_in_use(cluster: Cluster) -> Json:
    async with bound(cluster):
        await cluster.create("pods", pod(container(WAITS, volumeMounts=mounted("/data")), **DATA))
        await cluster.ready()
        await cluster.delete("persistentvolumeclaims", "claim")
        claim = await cluster.get("persistentvolumeclaims", "claim")
        await cluster.delete("pods", "pod")
        await cluster.gone("persistentvolumeclaims", "claim")
        metadata = claim["metadata"]
        return {"finalizers": metadata["finalizers"], "deleting": "deletionTimestamp" in metadata}
