"""The in-memory double: the contract, and what only tests can do to a cluster."""

import asyncio
from datetime import UTC, datetime

import pytest

from steelyard_common.types import Json
from steelyard_kube.cluster import Resource, WatchEvent
from steelyard_kube.errors import Conflict, Gone
from steelyard_kube.memory import Crash, MemoryCluster
from steelyard_kube.resource import CONFIG_MAPS, EVALUATIONS, JOBS, PODS
from steelyard_kube.simulation import contract
from steelyard_kube.simulation.contract import config_map, pod


@pytest.mark.parametrize("case", contract.CASES, ids=lambda case: case.__name__)
async def test_the_contract_holds(case: contract.Case) -> None:
    await case(MemoryCluster(), "default")


async def test_the_clock_comes_in() -> None:
    cluster = MemoryCluster(now=lambda: datetime(2031, 2, 3, 4, 5, 6, 789, tzinfo=UTC))
    made = await cluster.create(CONFIG_MAPS, config_map("default", "a"))
    assert made["metadata"]["creationTimestamp"] == "2031-02-03T04:05:06Z"


async def test_a_watch_from_before_a_compaction_is_gone() -> None:
    cluster = MemoryCluster()
    made = await cluster.create(CONFIG_MAPS, config_map("default", "a"))
    await cluster.create(CONFIG_MAPS, config_map("default", "b"))
    cluster.store.compact()
    with pytest.raises(Gone):
        await anext(cluster.watch(CONFIG_MAPS, resource_version=made["metadata"]["resourceVersion"]))


async def test_history_is_bounded() -> None:
    cluster = MemoryCluster()
    cluster.store.history_limit = 10
    start = str(cluster.store.version)
    for index in range(11):
        await cluster.create(CONFIG_MAPS, config_map("default", f"a{index}"))
    with pytest.raises(Gone):
        await anext(cluster.watch(CONFIG_MAPS, resource_version=start))


async def test_what_is_stored_cannot_be_changed() -> None:
    cluster = MemoryCluster()
    obj = config_map("default", "a", {"n": "0"})
    made = await cluster.create(CONFIG_MAPS, obj)
    made["data"]["n"] = obj["data"]["n"] = "1"
    (await cluster.list(CONFIG_MAPS)).items[0]["data"]["n"] = "1"
    assert (await cluster.get(CONFIG_MAPS, "a", "default"))["data"] == {"n": "0"}


async def test_a_snapshot_comes_back_whole() -> None:
    cluster = MemoryCluster()
    await cluster.create(CONFIG_MAPS, config_map("default", "kept", {"n": "0"}))
    before = cluster.snapshot()
    await cluster.patch(CONFIG_MAPS, "kept", {"data": {"n": "1"}}, "default")
    other = await cluster.create(CONFIG_MAPS, config_map("default", "other"))
    after = cluster.snapshot()
    cluster.restore(before)
    assert [obj["data"] for obj in cluster.store.objects()] == [{"n": "0"}]
    assert cluster.snapshot() == before
    assert (await cluster.create(CONFIG_MAPS, config_map("default", "other")))["metadata"] | {
        "resourceVersion": other["metadata"]["resourceVersion"]
    } == other["metadata"]
    await cluster.patch(CONFIG_MAPS, "kept", {"data": {"n": "1"}}, "default")
    assert cluster.snapshot().content == after.content


async def test_restoring_ends_watches() -> None:
    cluster = MemoryCluster()
    before = cluster.snapshot()
    following = asyncio.ensure_future(_all(cluster, CONFIG_MAPS))
    await asyncio.sleep(0)
    await cluster.create(CONFIG_MAPS, config_map("default", "a"))
    await asyncio.sleep(0)
    cluster.restore(before)
    assert [event.type for event in await following] == ["ADDED"]


async def _all(cluster: MemoryCluster, resource: Resource) -> list[WatchEvent]:
    version = str(cluster.store.version)
    return [event async for event in cluster.watch(resource, resource_version=version)]


async def test_a_uid_depends_on_the_name_and_how_often_it_was_made() -> None:
    one, two = MemoryCluster(), MemoryCluster()
    await two.create(CONFIG_MAPS, config_map("default", "before"))
    uids = []
    for cluster in (one, two):
        first = await cluster.create(CONFIG_MAPS, config_map("default", "a"))
        await cluster.delete(CONFIG_MAPS, "a", "default")
        second = await cluster.create(CONFIG_MAPS, config_map("default", "a"))
        uids.append((first["metadata"]["uid"], second["metadata"]["uid"]))
    assert uids[0] == uids[1]
    assert uids[0][0] != uids[0][1]


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
async def test_a_call_can_crash(after: bool) -> None:
    cluster = MemoryCluster()
    seen = []

    def crash(verb: str, resource: Resource, name: str) -> None:
        seen.append((verb, resource.plural, name))
        raise Crash

    if after:
        cluster.after_call = crash
    else:
        cluster.before_call = crash
    with pytest.raises(Crash):
        await cluster.create(CONFIG_MAPS, config_map("default", "a"))
    assert seen == [("create", "configmaps", "a")]
    assert (cluster.store.find(CONFIG_MAPS, "a", "default") is not None) is after


async def test_a_conflict_can_be_injected() -> None:
    cluster = MemoryCluster()
    cluster.store.put(evaluation())

    def conflict(verb: str, resource: Resource, name: str) -> None:
        if verb == "patch/status":
            raise Conflict(f"{resource.plural} {name!r} was changed by another")

    cluster.before_call = conflict
    with pytest.raises(Conflict):
        await cluster.patch(EVALUATIONS, "e", {"status": {"a": 1}}, "default", subresource="status")
    assert "status" not in await cluster.get(EVALUATIONS, "e", "default")


def evaluation(**metadata: str) -> Json:
    names = {"name": "e", "namespace": "default", **metadata}
    return {"apiVersion": "dyff.io/v1alpha1", "kind": "Evaluation", "metadata": names, "spec": {}}


def child(of: Json, name: str) -> Json:
    owner = {key: of[key] for key in ("apiVersion", "kind")}
    owner |= {"name": of["metadata"]["name"], "uid": of["metadata"]["uid"], "controller": True}
    metadata = {"name": name, "namespace": "default", "ownerReferences": [owner]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}}


async def test_collection_follows_owners_by_uid() -> None:
    cluster = MemoryCluster()
    owner = await cluster.create(EVALUATIONS, evaluation())
    job = await cluster.create(JOBS, child(owner, "job"))
    await cluster.create(JOBS, child(job, "grandchild"))
    await cluster.create(JOBS, {**child(owner, "free"), "metadata": {"name": "free", "namespace": "default"}})
    assert cluster.collect() == 0
    await cluster.delete(EVALUATIONS, "e", "default")
    await cluster.create(EVALUATIONS, evaluation())  # the same name is another owner
    assert cluster.collect() == 2
    assert [job["metadata"]["name"] for job in cluster.store.objects(JOBS)] == ["free"]


async def test_orphans_stay() -> None:
    cluster = MemoryCluster()
    owner = await cluster.create(EVALUATIONS, evaluation())
    await cluster.create(JOBS, child(owner, "job"))
    await cluster.delete(EVALUATIONS, "e", "default", propagation="Orphan")
    assert cluster.collect() == 0


async def test_collection_lets_pods_end_gracefully() -> None:
    cluster = MemoryCluster()
    owner = await cluster.create(EVALUATIONS, evaluation())
    running = pod("default", "p", "node")
    running["metadata"]["ownerReferences"] = child(owner, "")["metadata"]["ownerReferences"]
    cluster.store.put({**running, "status": {"phase": "Running"}})
    await cluster.delete(EVALUATIONS, "e", "default")
    assert cluster.collect() == 1
    assert cluster.collect() == 0
    assert (await cluster.get(PODS, "p", "default"))["metadata"]["deletionTimestamp"]
    cluster.store.set_status(PODS, "p", "default", {"phase": "Failed"})
    await cluster.delete(PODS, "p", "default")
    assert cluster.store.find(PODS, "p", "default") is None


def test_tests_write_what_they_want() -> None:
    cluster = MemoryCluster()
    cluster.store.put({**evaluation(uid="mine"), "status": {"a": 1}})
    put = cluster.store.put({**evaluation(), "status": {"a": 2}})
    assert (put["metadata"]["uid"], put["status"]) == ("mine", {"a": 2})
