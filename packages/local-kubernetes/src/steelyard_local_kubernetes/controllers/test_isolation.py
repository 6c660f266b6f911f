"""One object that a controller cannot work on, and one that wants more than there is, leave the others alone."""

import asyncio
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_kube.errors import Invalid
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import PODS, REPLICA_SETS, Resource
from steelyard_local_kubernetes.controllers import job, replica_set, stateful_set
from steelyard_local_kubernetes.controllers.decision import (
    FIRST_BATCH,
    MOST_POD_BYTES,
    MOST_PODS,
    Decision,
    Event,
)
from steelyard_local_kubernetes.controllers.edge import Edge
from steelyard_local_kubernetes.controllers.kinds import DEPLOYMENT, JOB, REPLICA_SET
from steelyard_local_kubernetes.controllers.objects import TEMPLATE, StoreView, make_deployment, make_job
from steelyard_local_kubernetes.controllers.pods import is_true, make_condition
from steelyard_local_kubernetes.controllers.ray import cluster as ray_cluster
from steelyard_local_kubernetes.controllers.run import Work, work, work_queue
from steelyard_local_kubernetes.faults import Faults

LARGEST = 2**31 - 1
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Decide = Callable[[Json, list[Json], datetime, set[str]], Decision]
OWNERS: dict[str, Decide] = {
    "ReplicaSet": replica_set.decide,
    "Job": job.decide,
    "StatefulSet": stateful_set.decide,
    "RayCluster": ray_cluster.decide,
}
"""Controllers that make Pods."""


def make_replica_set(name: str = "demo", namespace: str = "default", **spec: Any) -> Json:
    made = make_deployment(name, **spec)
    return {**made, "kind": "ReplicaSet", "metadata": {"name": name, "namespace": namespace}}


class Simulation:
    """Controllers over the in-memory cluster; `turns` lets one worker take its turns until nothing is left."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(now=lambda: NOW)
        self.events: list[tuple[str, Event]] = []
        self.edge = Edge(self.cluster, StoreView(self.cluster), lambda: NOW, self._record)
        self.queue, self.faults = work_queue(), Faults()

    def _record(self, obj: Json, event: Event) -> None:
        self.events.append((obj["metadata"]["name"], event))

    async def turns(self, *items: Work) -> None:
        for item in items:
            self.queue.add(item)
        worker = asyncio.create_task(work(self.edge, self.queue, self.faults))
        while not worker.done() and (len(self.queue) or self.queue.working):  # noqa: ASYNC110 - its turns are ours
            await asyncio.sleep(0)
        if worker.done():
            worker.result()
        worker.cancel()
        self.queue.close()

    def count(self, resource: Resource, namespace: str) -> int:
        return len(self.cluster.store.objects(resource, namespace))


BAD = {
    "a surge that is no number": (
        DEPLOYMENT,
        make_deployment("bad", strategy={"rollingUpdate": {"maxSurge": "abc"}}),
    ),
    "a text for a number": (REPLICA_SET, make_replica_set("bad", replicas="many")),
    "a deadline that is a text": (JOB, make_job("bad", activeDeadlineSeconds="soon")),
    "a Job without a template": (JOB, {**make_job("bad"), "spec": {"parallelism": 1}}),
    "completed indexes without end": (
        JOB,
        make_job("bad", completionMode="Indexed", completions=LARGEST)
        | {"status": {"completedIndexes": f"0-{LARGEST}"}},
    ),
}


@pytest.mark.parametrize("what", BAD)
async def test_an_object_that_cannot_be_processed_stops_no_other(what: str) -> None:
    """Stored in spite of every check, by an older version for one."""
    kind, bad = BAD[what]
    simulation = Simulation()
    simulation.cluster.store.put({**bad, "metadata": {**bad["metadata"], "uid": "uid-bad"}})
    simulation.cluster.store.put(make_job("good"))
    item = (kind, ("default", "bad"))
    await simulation.turns(item, (JOB, ("default", "good")))
    assert simulation.count(PODS, "default") == 1
    assert simulation.faults.number("controllers", kind.resource.kind) == 1
    assert [name for name, event in simulation.events if event.reason == "ControllerError"] == ["bad"]
    if kind is not JOB:
        stored = simulation.cluster.store.find(kind.resource, "bad", "default")
        assert stored is not None
        assert is_true(stored, "ReplicaFailure")


async def test_what_a_template_is_refused_for_is_said_until_it_is_made() -> None:
    simulation = Simulation()
    simulation.cluster.store.put(make_replica_set(replicas=20))

    def refuse(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource) == ("create", PODS):
            raise Invalid("spec.hostname: no")

    simulation.cluster.before_call = refuse
    item = (REPLICA_SET, ("default", "demo"))
    for _ in range(2):
        await simulation.turns(item)
        stored = simulation.cluster.store.find(REPLICA_SETS, "demo", "default")
        assert stored is not None
        failure = make_condition(stored, "ReplicaFailure") or {}
        assert (failure.get("reason"), failure.get("message")) == ("FailedCreate", "spec.hostname: no")
    version = simulation.cluster.store.version
    await simulation.turns(item)
    assert simulation.cluster.store.version == version, "the same refusal again is no news"
    assert [event.reason for _, event in simulation.events] == ["FailedCreate"] * 3, "one try in each turn"
    simulation.cluster.before_call = None
    await simulation.turns(item)
    stored = simulation.cluster.store.find(REPLICA_SETS, "demo", "default")
    assert simulation.count(PODS, "default") == 20
    assert stored is not None
    assert "conditions" not in stored["status"]


def test_children_are_made_in_batches_that_grow() -> None:
    """A batch has as many Pods as can be written at once; no list ever has as many as the owner asks for."""
    owner = make_replica_set(replicas=LARGEST)
    owner["metadata"]["uid"] = "uid"
    pods: list[Json] = []
    sizes: list[int] = []
    while len(sizes) < 8:
        decision = replica_set.decide(owner, pods, NOW)
        assert decision.more
        sizes.append(len(decision.create))
        pods += [
            {**pod, "metadata": {**pod["metadata"], "uid": pod["metadata"]["name"]}}
            for pod in decision.create
        ]
    assert sizes == [8, 8, 16, 32, 64, 128, 256, 256]


def make_owner(kind: str, replicas: int, template: Json) -> Json:
    """Return an owner that asks for so many Pods; a Ray cluster has 300 groups of workers, each of so many."""
    metadata: Json = {"name": "demo", "namespace": "default", "uid": "uid"}
    counted: Json = {"replicas": replicas, "template": template, "selector": {"matchLabels": {"app": "demo"}}}
    if kind == "Job":
        counted = {"completions": replicas, "parallelism": replicas, "template": template}
    elif kind == "StatefulSet":
        counted |= {"serviceName": "demo", "podManagementPolicy": "Parallel"}
    elif kind == "RayCluster":
        groups = [
            {"groupName": f"g{n}", "replicas": replicas, "rayStartParams": {}, "template": template}
            for n in range(300)
        ]
        head = {"rayStartParams": {}, "template": TEMPLATE}
        counted = {"headGroupSpec": head, "workerGroupSpecs": groups}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": counted}


@contextmanager
def memory_limited(more: int) -> Iterator[None]:
    """Let this process take so many bytes more at most: who wants them gets a MemoryError, and not the machine."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def pods_made_for(decide: Decide, owner: Json) -> tuple[list[Json], Decision]:
    """Decide until nothing more is made; return the Pods and the last decision."""
    children: list[Json] = []
    while created := (decision := decide(owner, children, NOW, set())).create:
        children += [{**obj, "metadata": {"uid": str(id(obj)), **obj["metadata"]}} for obj in created]
        if decision.status is not None:
            owner = {**owner, "status": decision.status}
    return [child for child in children if child["kind"] == "Pod"], decision


@pytest.mark.parametrize("size", [0, 100_000])
@pytest.mark.parametrize("kind", OWNERS)
def test_no_owner_has_more_pods_than_a_node_will_ever_run(kind: str, size: int) -> None:
    """Neither more Pods nor a list of them is made, however many it asks for and however large their template is."""
    template = {**TEMPLATE, "metadata": {"labels": {"app": "demo"}, "annotations": {"text": "x" * size}}}
    owner = make_owner(kind, LARGEST, template)
    with memory_limited(128 << 20):
        pods, decision = pods_made_for(OWNERS[kind], owner)
    head = 1 if kind == "RayCluster" else 0
    if size:
        assert len(pods) - head == MOST_POD_BYTES // len(orjson.dumps(template)) < MOST_PODS
    else:
        assert len(pods) - head == MOST_PODS
    if kind in ("ReplicaSet", "StatefulSet"):
        status = decision.status or {}
        assert [condition["reason"] for condition in status["conditions"]] == ["TooManyReplicas"]


@pytest.mark.parametrize("spec", [{}, {"completionMode": "Indexed"}, {"completions": None}])
def test_a_job_of_the_largest_size_makes_a_batch(spec: Json) -> None:
    owner = make_job()
    owner["spec"] |= {"completions": LARGEST, "parallelism": LARGEST, "backoffLimit": LARGEST, **spec}
    owner["metadata"]["uid"] = "uid"
    decision = job.decide(owner, [], NOW)
    assert (len(decision.create), decision.more) == (FIRST_BATCH, True)


@pytest.mark.parametrize("field", ["activeDeadlineSeconds", "ttlSecondsAfterFinished"])
def test_times_beyond_all_dates_are_waited_for(field: str) -> None:
    owner = make_job()
    owner["spec"] = {**owner["spec"], field: 2**63 - 1}
    owner["metadata"]["uid"] = "uid"
    owner["status"] = {"startTime": "2026-01-01T00:00:00Z"}
    if field == "ttlSecondsAfterFinished":
        ended = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        owner["status"]["conditions"] = [ended]
    decision = job.decide(owner, [], NOW)
    assert not decision.delete
    assert decision.requeue_after == 2.0**63


async def test_a_namespace_with_thousands_of_children_delays_another_by_one_batch() -> None:
    """The order of service, whichever came first."""
    simulation = Simulation()
    simulation.cluster.store.put(make_replica_set("many", "crowd", replicas=40))
    simulation.cluster.store.put(make_replica_set("more", "crowd", replicas=40))
    simulation.cluster.store.put(make_replica_set("one", "quiet", replicas=1))
    before: list[int] = []

    def count(verb: str, resource: Resource, name: str) -> None:
        if (verb, resource) == ("create", PODS) and name.startswith("one"):
            before.append(simulation.count(PODS, "crowd"))

    simulation.cluster.before_call = count
    await simulation.turns(
        (REPLICA_SET, ("crowd", "many")), (REPLICA_SET, ("crowd", "more")), (REPLICA_SET, ("quiet", "one"))
    )
    assert before == [FIRST_BATCH]
    assert simulation.count(PODS, "crowd") == 80
