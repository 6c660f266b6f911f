"""Tests of the requests that the controllers send for a Job: each is work of the one process that serves all Jobs."""

import asyncio
import re
from collections import Counter
from pathlib import Path

from steelyard_common.types import Json, sequence
from steelyard_kube.client import RestCluster
from steelyard_kube.resource import EVENTS, JOBS, PODS
from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.direct import Handler, direct_cluster
from steelyard_local_kubernetes.apiserver.messages import Request, Response
from steelyard_local_kubernetes.apiserver.server import ApiServerConfig, serve
from steelyard_local_kubernetes.controllers.caches import BUILT_IN, Caches
from steelyard_local_kubernetes.controllers.run import run_controllers

PATH = re.compile(r".*/namespaces/default/(?P<kind>\w+)(?P<name>/[^/]+)?(?P<part>/\w+)?")
JOB: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "demo", "namespace": "default"},
    "spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    },
}
REASONS = {"SuccessfulCreate", "Completed"}


class CountingServer:
    """A server that counts the requests that concern objects of the namespace."""

    def __init__(self, core: Handler) -> None:
        self._core = core
        self.requests: Counter[str] = Counter()

    async def handle(self, request: Request) -> Response:
        if (match := PATH.fullmatch(request.path)) and not request.flag("watch"):
            method = "LIST" if request.method == "GET" and not match["name"] else request.method
            self.requests[f"{method} {match['kind']}{match['part'] or ''}"] += 1
        return await self._core.handle(request)


async def active_pod(cluster: RestCluster) -> str:
    """Return the name of the Job's Pod, once the Job's status counts it."""
    async with asyncio.timeout(60):
        while not (await cluster.get(JOBS, "demo", "default")).get("status", {}).get("active"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    [pod] = (await cluster.list(PODS, "default")).items
    return str(pod["metadata"]["name"])


async def wait_for_events(cluster: RestCluster) -> None:
    """Return once the events are there, which are the last that is written of a Job."""
    async with asyncio.timeout(60):
        while {event["reason"] for event in (await cluster.list(EVENTS, "default")).items} != REASONS:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_job_that_runs_alone_takes_eleven_requests_of_the_controllers(tmp_path: Path) -> None:
    config = ApiServerConfig(tmp_path / "kubernetes.db", tmp_path / "pki", {}, tmp_path / "pods")
    async with serve(config) as server, asyncio.TaskGroup() as parts:
        counted, user, stop = CountingServer(server.core), administrator("tester"), asyncio.Event()
        ours, cluster = direct_cluster(counted, user), direct_cluster(server.core, user)
        caches = Caches(ours, resources=BUILT_IN)
        parts.create_task(caches.run(stop))
        parts.create_task(run_controllers(ours, caches, stop=stop))
        await caches.wait_for_sync()
        await cluster.create(JOBS, JOB)
        pod = await active_pod(cluster)
        await cluster.patch(PODS, pod, {"status": {"phase": "Succeeded"}}, "default", subresource="status")
        await wait_for_events(cluster)
        conditions = sequence((await cluster.get(JOBS, "demo", "default"))["status"], "conditions")
        stop.set()
    assert [condition["type"] for condition in conditions] == ["SuccessCriteriaMet", "Complete"]
    assert counted.requests == {
        # To begin it: what is there is read before anything is done, and its children after it.
        # To end it: the same, and then its Pod is counted, released and counted as released.
        "GET jobs": 2,
        "LIST pods": 2,
        "POST pods": 1,
        "PATCH pods": 1,
        "PUT jobs/status": 3,
        "POST events": 2,
    }
