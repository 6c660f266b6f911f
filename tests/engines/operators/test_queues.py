"""Queues by the client: versions, order, quota, cohorts, drains."""

from functools import partial

import pytest

from steelyard.clusters import AsyncClient
from steelyard.clusters.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from steelyard.clusters.queues.choice import QueueWarning
from tests.engines.operators.making import Queues, cluster, until


async def test_the_newest_version_that_both_speak_is_used(client: AsyncClient, queues: Queues) -> None:
    await queues.make()
    served = (await client.connection.versions())["kueue.x-k8s.io"]
    assert {"v1beta1", "v1beta2"} <= set(served)
    for kind in (CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD):
        assert (await client.connection.resource(kind)).version == "v1beta2"
    old = CLUSTER_QUEUE.at("v1beta1"), CLUSTER_QUEUE.at("v1beta2")
    read = [await client.connection.api.get(resource, queues.pool) for resource in old]
    assert read[0]["spec"]["resourceGroups"] == read[1]["spec"]["resourceGroups"]


async def test_the_higher_priority_goes_first_and_the_older_one_of_two(
    client: AsyncClient, queues: Queues
) -> None:
    await queues.make()
    high = await queues.priority("high", 100)
    clusters = client.ray.clusters
    await clusters.create(cluster("running", queue="team"))
    await until(lambda: clusters.status("running"), lambda status: status.phase == "Starting")
    for name, priority in (("old", None), ("new", None), ("urgent", high)):
        await clusters.create(cluster(name, queue="team", priority_class=priority))
        await until(partial(clusters.status, name), lambda status: status.place is not None)

    async def places() -> dict[str, int]:
        states = await clusters.list()
        return {status.name: status.place.position for status in states if status.place is not None}

    await until(places, lambda positions: positions.get("urgent") == 1)
    assert (await places())["running"] == 0
    assert {name: place for name, place in (await places()).items() if name in ("old", "new")} in (
        {"old": 2, "new": 3},
        # Both may be of one second, which is all that a time of creation says.
        {"old": 3, "new": 2},
    )
    owners = {view.owner for view in await client.queues.workloads(queue="team")}
    assert owners == {f"RayCluster/{name}" for name in ("running", "old", "new", "urgent")}
    await clusters.delete("running")
    await until(lambda: clusters.status("urgent"), lambda status: status.phase == "Starting")
    assert {(await clusters.status(name)).phase for name in ("old", "new")} == {"Queued"}


async def test_a_drained_queue_evicts_and_a_resumed_one_admits_again(
    client: AsyncClient, queues: Queues
) -> None:
    await queues.make()
    clusters = client.ray.clusters
    await clusters.create(cluster(queue="team"))
    await until(lambda: clusters.status("demo"), lambda status: status.phase == "Starting")
    await client.admin.drain(queues.pool)
    await until(lambda: clusters.status("demo"), lambda status: status.phase == "Queued")
    views = {view.name: view for view in await client.admin.cluster_queues()}
    assert views[queues.pool].stop_policy == "HoldAndDrain"
    await until(lambda: client.queues.get("team"), lambda view: bool(view.stopped))
    await client.admin.resume(queues.pool)
    await until(lambda: clusters.status("demo"), lambda status: status.phase == "Starting")


async def test_a_held_queue_lets_run_what_runs(client: AsyncClient, queues: Queues) -> None:
    await queues.make(cpu="1")
    clusters = client.ray.clusters
    await clusters.create(cluster("runs", queue="team"))
    await until(lambda: clusters.status("runs"), lambda status: status.phase == "Starting")
    await client.admin.drain(queues.pool, evict=False)
    await until(lambda: client.queues.get("team"), lambda view: bool(view.stopped))
    with pytest.warns(QueueWarning, match="team: "):
        await clusters.create(cluster("late", queue="team", queue_policy="warn"))
    await until(lambda: clusters.status("late"), lambda status: status.place is not None)
    assert (await clusters.status("runs")).phase == "Starting"
    assert (await clusters.status("late")).phase == "Queued"


async def test_a_cohort_lends_what_its_other_queue_does_not_use(
    client: AsyncClient, queues: Queues, namespace: str
) -> None:
    cohort = f"cohort-{namespace}"
    await queues.make(cohort=cohort)
    other = Queues(client, f"{namespace}-other")
    try:
        await other.make("other", cohort=cohort)
        members = {view.name: view.queues for view in await client.admin.cohorts()}
        assert sorted(members[cohort]) == sorted([queues.pool, other.pool])
        # One flavour is needed to lend: the other pool's own is another one, so nothing is lent.
        await client.ray.clusters.create(cluster(workers=3, queue="team"))
        status = await until(
            lambda: client.ray.clusters.status("demo"), lambda status: "cpu" in status.message
        )
        assert status.phase == "Queued"
    finally:
        await other.remove()
