"""The controllers of the embedded Kubernetes, and admission to queues."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

from steelyard.operator.training.frameworks.test_definition import make_dl_job
from steelyard.operator.training.simulation.job_simulation import make_job as make_training_job
from steelyard_common.types import Json
from steelyard_kube.resource import (
    APP_WRAPPERS,
    CRON_JOBS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    RAY_CLUSTERS,
    RAY_JOBS,
    REPLICA_SETS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    WORKLOADS,
    Resource,
)
from steelyard_local_kubernetes.controllers.app_wrapper.test_app_wrapper import make_wrapper
from steelyard_local_kubernetes.controllers.caches import Caches
from steelyard_local_kubernetes.controllers.kinds import KINDS
from steelyard_local_kubernetes.controllers.objects import (
    TEMPLATE,
    make_deployment,
    make_job,
    make_pod,
    make_service,
)
from steelyard_local_kubernetes.controllers.queued_kinds import MANAGED
from steelyard_local_kubernetes.controllers.ray.test_cluster import make_ray_cluster
from steelyard_local_kubernetes.controllers.ray.test_job import make_ray_job
from steelyard_local_kubernetes.controllers.run import run_controllers
from steelyard_local_kubernetes.controllers.test_disruption import make_budget
from steelyard_local_kubernetes.controllers.test_stateful_set import make_set
from steelyard_local_kubernetes.queues.run import run_queues
from tests.exploration.virtual_time import run
from tests.refusals.judging import MINUTE, judge
from tests.refusals.refusing import NAMESPACE, TAKEN, WAYS, RefusingCluster, ways_of


def make_replica_set() -> Json:
    return {**make_deployment(), "kind": "ReplicaSet"}


def make_cron_job() -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "demo", "namespace": NAMESPACE, "creationTimestamp": "2025-12-31T23:50:00Z"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}},
    }


def make_claim() -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "demo", "namespace": NAMESPACE},
        "spec": spec,
        "status": {"phase": "Pending"},
    }


QUEUED = {"kueue.x-k8s.io/queue-name": "queue"}
OWNERS: dict[Resource, Callable[[], Json]] = {
    JOBS: make_job,
    REPLICA_SETS: make_replica_set,
    DEPLOYMENTS: make_deployment,
    CRON_JOBS: make_cron_job,
    STATEFUL_SETS: lambda: make_set(volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {}}]),
    PERSISTENT_VOLUME_CLAIMS: make_claim,
    RAY_CLUSTERS: lambda: make_ray_cluster(enableInTreeAutoscaling=True),
    RAY_JOBS: make_ray_job,
    APP_WRAPPERS: lambda: make_wrapper(make_job("inner")),
    SERVICES: make_service,
    POD_DISRUPTION_BUDGETS: make_budget,
}
"""An object of each controller of the embedded Kubernetes, which makes all that the controller makes."""


SHARED = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, PERSISTENT_VOLUME_CLAIMS)
"""Children that are used as they are where their name is taken, as by Kubernetes' and KubeRay's own controllers."""


def queued(resource: Resource) -> Json:
    """Return an object of a kind that queues admit, in a queue."""
    owner = OWNERS[resource]() if resource in OWNERS else make_training(resource.kind)
    return {**owner, "metadata": {"name": "demo", "namespace": NAMESPACE, "labels": {**QUEUED}}}


TYPES = {
    "MXJob": {"Scheduler": 1, "Server": 1, "Worker": 1},
    "MPIJob": {"Launcher": 1, "Worker": 1},
    "JAXJob": {"Worker": 2},
}
"""Replica types of the kinds that have no master."""


def make_training(kind: str) -> Json:
    mode: dict[str, Any] = {"jobMode": "MXTrain"} if kind == "MXJob" else {}
    return make_dl_job() if kind == "DLJob" else make_training_job(kind, TYPES.get(kind), **mode)


async def live(cluster: RefusingCluster, owner: Json, seconds: float) -> RefusingCluster:
    """Let all controllers work with an object, and with Pods that a kubelet would have started."""
    stop = cluster.stop
    cluster.store.put(make_pod("there", "127.0.0.9", ready=True))
    cluster.store.put(owner)
    caches = Caches(cluster)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(caches.run(stop))
        tasks.create_task(run_controllers(cluster, caches, stop=stop, now=cluster.clock.now))
        tasks.create_task(run_queues(cluster, caches, stop=stop, now=cluster.clock.now))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await stop.wait()
        stop.set()
    return cluster


@cache
def written(resource: Resource, *, queue: bool = False) -> tuple[tuple[str, Resource], ...]:
    """Return the writes that are made where nothing is refused, events left out: all, or those of the queue alone."""

    async def case() -> RefusingCluster:
        owner = queued(resource) if queue else OWNERS[resource]()
        return await live(RefusingCluster("a quota", lambda attempt: False), owner, MINUTE)

    writes = {(attempt.verb, attempt.resource) for attempt in run(case()).tried if attempt.resource != EVENTS}
    of_queues = {(verb, kind) for verb, kind in writes if kind in (WORKLOADS, resource) and "/" not in verb}
    return tuple(sorted(of_queues if queue else writes, key=str))


def try_each(writes: Iterable[tuple[str, Resource]], owner: Callable[[], Json], way: str) -> None:
    """Refuse the writes of one kind after the other."""
    for verb, kind in writes:
        if way not in ways_of(verb):
            continue

        async def case(verb: str = verb, kind: Resource = kind) -> RefusingCluster:
            refuses = lambda attempt: (attempt.verb, attempt.resource) == (verb, kind)  # noqa: E731
            return await live(RefusingCluster(way, refuses), owner(), 2 * MINUTE)

        # A status that cannot be written is known to the log alone, as with Kubernetes' controllers.
        silent = "/status" in verb or (way == TAKEN and kind in SHARED)
        judge(run(case()), silent=silent)


def test_each_controller_has_a_case() -> None:
    """The controllers are those whose objects become work: a new one needs a row above."""
    assert OWNERS.keys() == {kind.resource for kind in KINDS} | {SERVICES, POD_DISRUPTION_BUDGETS}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("resource", OWNERS, ids=lambda resource: resource.kind)
def test_a_refused_controller_says_it_and_waits(resource: Resource, way: str) -> None:
    try_each(written(resource), OWNERS[resource], way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("resource", MANAGED, ids=lambda resource: resource.kind)
def test_a_refused_queue_says_it_and_waits(resource: Resource, way: str) -> None:
    try_each(written(resource, queue=True), lambda: queued(resource), way)


def test_a_job_that_is_refused_delays_no_other_account() -> None:
    """The Workloads of one namespace are refused: those of another are made at once."""

    async def case() -> RefusingCluster:
        refuses = lambda attempt: attempt.resource == WORKLOADS and attempt.name.startswith("job-demo")  # noqa: E731
        cluster = RefusingCluster("a namespace that ends", refuses)
        for name, namespace in (("demo", "default"), ("other", "quiet")):
            metadata = {"name": name, "namespace": namespace, "labels": {**QUEUED}}
            cluster.store.put({**make_job(), "metadata": metadata})
        return await live(cluster, make_service(), 5.0)

    cluster = run(case())
    assert cluster.refused
    assert [obj["metadata"]["namespace"] for obj in cluster.store.objects(WORKLOADS)] == ["quiet"]
