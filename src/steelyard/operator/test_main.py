"""The operator as it runs: caches, queue, workers, lease, events and metrics over a cluster in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import orjson
import pytest
from prometheus_client import generate_latest

from steelyard.operator.caches import InformerCaches
from steelyard.operator.controller import UNSEEN
from steelyard.operator.edge import Key
from steelyard.operator.main import LEASE, Operator, run_operator
from steelyard.operator.names import ENTITY, OWNER
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.resources import (
    NAMESPACE,
    make_evaluation,
    make_model,
    make_report,
    make_session,
)
from steelyard.operator.training.simulation.job_simulation import make_job
from steelyard.operator.workflow import workflows
from steelyard.telemetry.monitoring import Address
from steelyard_common.types import Json
from steelyard_kube.cluster import ObjectList, Resource
from steelyard_kube.errors import Conflict, Forbidden
from steelyard_kube.leader import Candidate, SystemClock
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import (
    CONFIG_MAPS,
    EVALUATIONS,
    EVENTS,
    INFERENCE_SESSIONS,
    JOBS,
    LEASES,
    MODELS,
    PODS,
    PYTORCH_JOBS,
    REPORTS,
)

PATIENCE = UNSEEN.total_seconds() - 5
"""Seconds, on a machine that has other work to do; less than the pause after which an operator reconciles again
unasked."""
SETTINGS = OperatorSettings(storage="file:///storage")


def bare(resource: Json) -> Json:
    return {**resource, "metadata": {"name": resource["metadata"]["name"], "namespace": NAMESPACE}}


def now() -> datetime:
    return datetime.now(UTC)


def standing(identity: str) -> Candidate:
    return Candidate(identity, SystemClock())


def make_cluster() -> MemoryCluster:
    return MemoryCluster(now)


@asynccontextmanager
async def running(work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """The work, which is cancelled and has ended afterwards."""
    task = asyncio.ensure_future(work())
    try:
        yield
    finally:
        while not task.done():  # Python 3.11 may lose a cancellation that meets the end of a wait
            task.cancel()
            await asyncio.wait([task], timeout=1)


@asynccontextmanager
async def leading(cluster: MemoryCluster, identity: str) -> AsyncIterator[None]:
    """An operator that is asked to stop, and has given its lease back afterwards."""
    stop = asyncio.Event()
    task = asyncio.ensure_future(run_operator(cluster, SETTINGS, candidate=standing(identity), stop=stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(task, PATIENCE)


async def until(holds: Callable[[], object], within: float = PATIENCE) -> None:
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110 - the store has no event to wait for
            await asyncio.sleep(0.005)


def complete_jobs(cluster: MemoryCluster) -> None:
    for job in cluster.store.objects(JOBS):
        status = {"conditions": [{"type": "Complete", "status": "True"}]}
        cluster.store.set_status(JOBS, job["metadata"]["name"], NAMESPACE, status)


def reason(cluster: MemoryCluster, resource: Any, name: str) -> str:
    stored = cluster.store.find(resource, name, NAMESPACE) or {}
    return str((stored.get("status") or {}).get("reason", ""))


async def test_a_report_is_made_and_announced() -> None:
    cluster = make_cluster()
    operator = Operator(cluster, SETTINGS, now)
    await cluster.create(REPORTS, bare(make_report("r")))
    async with running(operator.work):
        await until(lambda: cluster.store.objects(JOBS))
        complete_jobs(cluster)
        await until(lambda: reason(cluster, REPORTS, "r") == "Complete")
        await until(lambda: len(cluster.store.objects(EVENTS)) == 2)
        events = {event["reason"]: event["type"] for event in cluster.store.objects(EVENTS)}
        assert events == {"Running": "Normal", "Complete": "Normal"}
        text = generate_latest(operator.metrics.registry).decode()
    assert 'steelyard_operator_syncs_total{kind="Report",result="done"}' in text
    assert 'steelyard_operator_api_writes_total{verb="create"} 2.0' in text
    assert "steelyard_operator_queue" in text


async def test_a_name_that_is_taken_fails_the_resource_and_leaves_the_other_alone() -> None:
    cluster = make_cluster()
    theirs = {"metadata": {"name": "r-run-a1", "namespace": NAMESPACE}, "data": {"a": "b"}}
    before = await cluster.create(CONFIG_MAPS, theirs)
    await cluster.create(REPORTS, bare(make_report("r")))
    async with running(Operator(cluster, SETTINGS, now).work):
        await until(lambda: reason(cluster, REPORTS, "r") == "NameConflict")
    assert await cluster.get(CONFIG_MAPS, "r-run-a1", NAMESPACE) == before
    assert not cluster.store.objects(JOBS)


async def test_a_finished_resource_goes_when_its_time_is_over() -> None:
    cluster = make_cluster()
    await cluster.create(MODELS, bare(make_model("m", source="Mock", ttlSecondsAfterFinished=0)))
    async with running(Operator(cluster, SETTINGS, now).work):
        await until(lambda: not cluster.store.objects(MODELS))


# ---- what makes it reconcile again


class Wakes:
    """Receiver of the changes that the caches report."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def note_change(self, key: Key) -> None:
        self.names.append(key.name)

    def replica_changed(self, key: Key, replicas: int) -> None:
        self.names.append(key.name)

    def pod_changed(self, key: Key, old: Json | None, new: Json) -> None:
        """Ignore what Pods report."""


async def test_a_child_that_is_deleted_by_hand_wakes_its_owner() -> None:
    """Check the caches alone: a running operator reconciles again after half a minute in any case."""
    cluster, wakes = make_cluster(), Wakes()
    report = await cluster.create(REPORTS, bare(make_report("r")))
    caches = InformerCaches(cluster, workflows(SETTINGS), SETTINGS, wakes)
    labels = {ENTITY: "r", OWNER: report["metadata"]["uid"]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": NAMESPACE, "labels": labels},
    }
    async with running(caches.run):
        await caches.wait_until_synced()
        await cluster.create(JOBS, job)
        await until(lambda: caches.children(report)[0])
        wakes.names.clear()
        cluster.store.remove(JOBS, "j", NAMESPACE)
        await until(lambda: not caches.children(report)[0])
        await until(lambda: wakes.names == ["r"])


async def test_a_replica_that_is_deleted_by_hand_wakes_its_job() -> None:
    cluster = make_cluster()
    job = make_job(replicas={"Master": 1})
    await cluster.create(PYTORCH_JOBS, {**job, "metadata": {"name": "job", "namespace": NAMESPACE}})

    def uids() -> list[str]:
        return [pod["metadata"]["uid"] for pod in cluster.store.objects(PODS)]

    async with running(Operator(cluster, SETTINGS, now).work):
        await until(uids)
        (first,) = uids()
        cluster.store.set_status(PODS, "job-master-0", NAMESPACE, {"phase": "Running"})
        written = f'"uid":"{first}"'
        await until(lambda: written in orjson.dumps(cluster.store.objects(PYTORCH_JOBS)).decode())
        cluster.store.remove(PODS, "job-master-0", NAMESPACE)
        await until(lambda: uids() and uids() != [first])


async def test_it_reconciles_at_the_time_that_it_named_although_nothing_changes() -> None:
    cluster = make_cluster()
    expires = (now() + timedelta(seconds=0.3)).isoformat()
    await cluster.create(INFERENCE_SESSIONS, bare(make_session("s", expires=expires)))
    async with running(Operator(cluster, SETTINGS, now).work):
        await until(lambda: reason(cluster, INFERENCE_SESSIONS, "s") == "SessionExpired")


async def test_a_status_that_had_changed_meanwhile_is_decided_again_although_nothing_else_changes() -> None:
    cluster, conflicts = make_cluster(), [2]

    def meet(verb: str, resource: Any, name: str) -> None:
        if verb == "patch/status" and conflicts[0]:
            conflicts[0] -= 1
            raise Conflict("the object has been modified")

    cluster.before_call = meet
    await cluster.create(MODELS, bare(make_model("m", source="Mock")))
    async with running(Operator(cluster, SETTINGS, now).work):
        await until(lambda: reason(cluster, MODELS, "m") == "Ready")
    assert conflicts == [0]


async def test_an_operator_that_takes_over_goes_on() -> None:
    cluster = make_cluster()
    evaluation = make_evaluation("e", inferenceSessionReference="b1")
    await cluster.create(EVALUATIONS, bare(evaluation))
    async with leading(cluster, "first"):
        await until(lambda: cluster.store.objects(JOBS))
    complete_jobs(cluster)
    async with leading(cluster, "second"):
        await until(lambda: len(cluster.store.objects(JOBS)) == 2)
        lease = await cluster.get(LEASES, LEASE, "default")
        assert lease["spec"]["holderIdentity"] == "second"
        complete_jobs(cluster)
        await until(lambda: reason(cluster, EVALUATIONS, "e") == "Verified")
    names = [job["metadata"]["name"] for job in cluster.store.objects(JOBS)]
    assert names == ["e-client-a1", "e-verify-a1"]


class OfOneNamespace(MemoryCluster):
    """A cluster that gives its operator rights in one namespace, and none in the whole cluster."""

    async def list(self, resource: Resource, namespace: str | None = None, **selectors: str) -> ObjectList:
        self._refuse_others(resource, namespace)
        return await super().list(resource, namespace, **selectors)

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        self._refuse_others(resource, namespace)
        return await super().get(resource, name, namespace)

    def _refuse_others(self, resource: Resource, namespace: str | None) -> None:
        if namespace != NAMESPACE:
            raise Forbidden(f"{resource.plural} is forbidden in {namespace or 'the whole cluster'}")


async def test_an_operator_of_one_namespace_needs_nothing_of_the_whole_cluster() -> None:
    cluster, stop = OfOneNamespace(now), asyncio.Event()
    settings = SETTINGS.model_copy(update={"namespace": NAMESPACE, "lease_namespace": NAMESPACE})
    await cluster.create(REPORTS, bare(make_report("r")))

    async def work() -> None:
        await run_operator(cluster, settings, candidate=standing("one"), stop=stop)

    async with running(work):
        await until(lambda: cluster.store.objects(JOBS))
        complete_jobs(cluster)
        await until(lambda: reason(cluster, REPORTS, "r") == "Complete")


async def test_an_operator_says_which_kinds_it_cannot_follow() -> None:
    cluster = OfOneNamespace(now)
    operator = Operator(cluster, SETTINGS, now)  # looks at all namespaces, and has rights in one
    assert await operator.missing() == []
    async with running(operator.work):
        await until(lambda: len(operator._caches.troubles()) > 1)
        lines = await operator.missing()
    assert any(line.startswith("cannot follow pods: Forbidden (403): pods is forbidden") for line in lines)
    assert lines[-1] == "the caches are not full yet"


async def test_metrics_are_served() -> None:
    stop, urls = asyncio.Event(), list[str]()
    work = run_operator(
        make_cluster(),
        SETTINGS,
        candidate=standing("me"),
        stop=stop,
        metrics=Address("127.0.0.1", 0),
        listening=urls.append,
    )
    async with running(lambda: work), aiohttp.ClientSession() as http:

        async def get(page: str) -> str:
            async with http.get(urls[0].replace("/metrics", page), raise_for_status=True) as answer:
                return await answer.text()

        await until(lambda: urls)
        async with asyncio.timeout(60):
            while "steelyard_operator_leading 1.0" not in await get("/metrics"):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        assert "training_operator_jobs_created_total" in await get("/metrics")
        assert await get("/healthz") == "ok\n"
        stop.set()


async def test_a_defect_in_one_resource_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    cluster = make_cluster()
    broken = bare(make_report("broken"))
    await cluster.create(REPORTS, broken)
    await cluster.patch(
        REPORTS,
        "broken",
        {"status": {"attempts": {"run": {}}, "observedGeneration": 1}},
        NAMESPACE,
        subresource="status",
    )
    await cluster.create(MODELS, bare(make_model("m", source="Mock")))
    operator = Operator(cluster, SETTINGS, now)
    async with running(operator.work):
        await until(lambda: reason(cluster, MODELS, "m") == "Ready")
        await until(lambda: reason(cluster, REPORTS, "broken") == "Error")
        await until(lambda: any(event["reason"] == "Error" for event in cluster.store.objects(EVENTS)))
    assert "unexpected error" in caplog.text
    text = generate_latest(operator.metrics.registry).decode()
    assert 'steelyard_operator_syncs_total{kind="Report",result="defect"}' in text
