"""Small clusters, jobs and queues for the tests, with defaults: a test shows only what matters."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from steelyard.clusters import (
    AsyncClient,
    ClusterConfig,
    ClusterQueueConfig,
    FlavorConfig,
    FlavorQuota,
    HeadGroup,
    LocalQueueConfig,
    PriorityClassConfig,
    Quota,
    QuotaGroup,
    Resources,
    WorkerGroup,
    errors,
)
from steelyard_common.types import Json

KUBECONFIG = "KUBECONFIG_OPERATORS"
"""Name of the variable that names the kubeconfig of the server under test."""
IMAGE = "localhost/ray:1"
SECONDS = 240.0
SMALL = Resources(cpu="100m", memory="512Mi", cpu_limit=1, memory_limit="2Gi")
NOWHERE = {"nowhere": "at-all"}
"""A selector that no node fits: the cluster's Pods are made and never start, which costs nothing."""
T = TypeVar("T")


def cluster(name: str = "demo", *, runs: bool = False, workers: int = 1, **values: Any) -> ClusterConfig:
    """A cluster of 100m for the head and for each worker; unless it `runs`, no node fits its Pods."""
    selector = {} if runs else NOWHERE
    return ClusterConfig(
        name=name,
        image=values.pop("image", IMAGE),
        ray_version="2.55.1",
        head=HeadGroup(resources=SMALL, node_selector=selector),
        workers=[WorkerGroup(replicas=workers, resources=SMALL, node_selector=selector)] if workers else [],
        **values,
    )


def job_part(name: str, program: str) -> Json:
    """A Job of Kubernetes' own that runs a Python program once."""
    container: Json = {"name": "main", "image": IMAGE, "command": ["python", "-c", program]}
    container["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    spec = {"backoffLimit": 0, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def until(read: Callable[[], Awaitable[T]], done: Callable[[T], bool], seconds: float = SECONDS) -> T:
    """The first state that is `done`. Fails with the last state where there is none within `seconds`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not done(state := await read()):
        assert loop.time() < end, f"not within {seconds:g} s; last: {state}"
        await asyncio.sleep(0.2)
    return state


class Queues:
    """Queues that a test makes, and removes when it ends."""

    def __init__(self, client: AsyncClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._made: list[Any] = []

    @property
    def pool(self) -> str:
        return f"pool-{self._namespace}"

    async def make(self, name: str = "team", *, cpu: str = "250m", **values: Any) -> None:
        """A local queue that leads to a pool of its own; active when it returns."""
        flavor = FlavorConfig(name=f"flavor-{self._namespace}")
        quotas = {"cpu": Quota(nominal=cpu), "memory": Quota(nominal="64Gi")}
        groups = (QuotaGroup(flavors=(FlavorQuota(flavor=flavor.name, quotas=quotas),)),)
        pool = ClusterQueueConfig(name=self.pool, groups=groups, **values)
        await self.create(flavor)
        await self.create(pool)
        await self.add(name)

    async def add(self, name: str, **values: Any) -> None:
        """A further local queue that leads to the same pool."""
        await self.create(LocalQueueConfig(name=name, cluster_queue=self.pool, **values))
        await until(
            lambda: self._client.queues.get(name), lambda view: not view.stopped and _active(view.resource)
        )

    async def priority(self, name: str, value: int) -> str:
        """A priority class that no other test has; its name."""
        config = PriorityClassConfig(name=f"{name}-{self._namespace}", value=value)
        await self.create(config)
        return config.name

    async def create(self, config: Any) -> None:
        await self._client.admin.create(config)
        self._made.append(config)

    async def remove(self) -> None:
        for config in reversed(self._made):
            with suppress(errors.NotFound):  # the test has removed it
                await self._client.admin.delete(config)


def _active(resource: Json) -> bool:
    conditions = resource.get("status", {}).get("conditions", [])
    return any(row["type"] == "Active" and row["status"] == "True" for row in conditions)
