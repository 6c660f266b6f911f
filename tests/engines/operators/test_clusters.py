"""Ray clusters by the client: started, explained, queued, changed, deleted."""

import asyncio
from functools import partial

import pytest

from steelyard.clusters import AsyncClient, JobConfig, errors
from steelyard.clusters.queues.choice import QueueWarning
from steelyard.clusters.ray.status import STUCK
from tests.engines.operators.making import SECONDS, Queues, cluster, until
from tests.kubernetes_api.api import Api

READY, PATIENCE = 600.0, 120.0
"""Seconds for Ray's own start, which a busy machine repeats: its dashboard ends after 30 s without a processor."""

PAUSE = "time.sleep(10)"
"""End of a program whose last line is looked for.

`ray job logs --follow`, the command of the submitter, can lose lines of the last second (Ray's issue 48701).
"""
COUNT_NODES = "; ".join(
    (
        "import ray, time",
        "ray.init()",
        "alive = lambda: sum(node['Alive'] for node in ray.nodes())",
        "any(alive() == 2 or time.sleep(0.5) for _ in iter(int, 1))",
        "print('nodes', alive(), flush=True)",
        PAUSE,
    )
)
"""Program of one line that waits for two nodes.

On a busy machine Ray gives up a node that was silent, and lists it beside the one that its Pod starts in its place.
"""


@pytest.mark.timeout(1500)
async def test_a_cluster_starts_and_runs_jobs(client: AsyncClient) -> None:
    clusters, jobs = client.ray.clusters, client.ray.jobs
    await clusters.create(cluster("first", runs=True))
    await until(lambda: clusters.status("first"), lambda status: status.phase == "Starting")
    ready = await clusters.wait("first", timeout=READY, poll=0.5, patience=PATIENCE)
    assert (ready.phase, ready.workers, ready.wanted) == ("Ready", 1, 1)
    await jobs.submit(JobConfig(name="counts", entrypoint=f'python -c "{COUNT_NODES}"', cluster="first"))
    await jobs.wait("counts", timeout=READY, poll=0.5, patience=PATIENCE)
    log = [line async for line in jobs.logs("counts")]
    assert "nodes 2" in log, "\n".join(log)
    await jobs.submit(JobConfig(name="fails", entrypoint="python -c 'raise SystemExit(3)'", cluster="first"))
    with pytest.raises(errors.Failed) as raised:
        await jobs.wait("fails", timeout=READY, poll=0.5, patience=PATIENCE)
    assert raised.value.status.phase == "Failed"


async def test_a_cluster_waits_for_the_quota_of_another_one(client: AsyncClient, queues: Queues) -> None:
    await queues.make()
    clusters = client.ray.clusters
    await clusters.create(cluster("first", queue="team"))
    await until(lambda: clusters.status("first"), lambda status: status.phase == "Starting")
    await clusters.create(cluster("second", queue="team"))
    waiting = await until(lambda: clusters.status("second"), lambda status: "cpu" in status.message)
    assert waiting.phase == "Queued"
    assert waiting.place is not None
    assert (waiting.place.position, waiting.place.pending, waiting.place.queue) == (1, 1, "team")
    assert "insufficient" in waiting.place.message
    assert {status.name: status.phase for status in await clusters.list()} == {
        "first": "Starting",
        "second": "Queued",
    }

    async def used_cpu() -> str:
        usages = await client.admin.usage()
        return next(str(usage) for usage in usages if (usage.queue, usage.resource) == (queues.pool, "cpu"))

    # Kueue writes the usage of a queue some time after it has admitted to it.
    await until(used_cpu, lambda shown: shown.endswith("(0.2 of 0.25)"))
    await clusters.delete("first")
    started = await until(lambda: clusters.status("second"), lambda status: status.phase == "Starting")
    assert started.place is not None
    assert started.place.admitted


async def test_an_image_that_cannot_be_had_ends_the_wait_and_is_named(client: AsyncClient) -> None:
    await client.ray.clusters.create(cluster(image="localhost/nowhere:1", runs=True, workers=0))
    with pytest.raises(errors.Failed, match="localhost/nowhere:1") as raised:
        await client.ray.clusters.wait("demo", timeout=SECONDS, poll=0.2, patience=1)
    status = raised.value.status
    assert status.phase == "Starting"
    assert status.reason in STUCK
    assert [problem.object for problem in status.problems if problem.stuck]


async def test_pods_that_no_node_fits_are_said_with_the_schedulers_reason(client: AsyncClient) -> None:
    await client.ray.clusters.create(cluster(workers=2))
    status = await until(lambda: client.ray.clusters.status("demo"), lambda status: len(status.problems) >= 3)
    assert (status.phase, status.reason, status.wanted) == ("Starting", "Unschedulable", 2)
    assert "selector" in status.message
    with pytest.raises(errors.WaitTimeout) as raised:
        await client.ray.clusters.wait("demo", timeout=0.5, poll=0.1)
    assert raised.value.status.reason == "Unschedulable"


async def test_a_queue_that_is_not_there_is_refused_warned_of_or_not_asked_for(
    client: AsyncClient, queues: Queues
) -> None:
    await queues.make()
    clusters = client.ray.clusters
    with pytest.raises(errors.BadConfig, match="there is no such queue"):
        await clusters.create(cluster("strict", queue="other"))
    with pytest.raises(errors.BadConfig, match="no queue is the default"):
        await clusters.create(cluster("unnamed"))
    with pytest.warns(QueueWarning, match="there is no such queue"):
        await clusters.create(cluster("warned", queue="other", queue_policy="warn"))
    await clusters.create(cluster("off", queue_policy="off"))
    states = await until(
        clusters.list, lambda states: [status.phase for status in states] == ["Starting", "Queued"]
    )
    assert [(status.name, status.resource["metadata"].get("labels")) for status in states] == [
        ("off", None),
        ("warned", {"kueue.x-k8s.io/queue-name": "other"}),
    ]


async def test_the_default_queue_is_used_and_a_stopped_one_is_refused(
    client: AsyncClient, queues: Queues
) -> None:
    await queues.make("own", cpu="1")
    await queues.add("usual", default=True)
    assert (await client.ray.clusters.create(cluster("unnamed"))).queue == "usual"
    await client.admin.drain(queues.pool)
    await until(lambda: client.queues.get("own"), lambda view: bool(view.stopped))
    with pytest.raises(errors.BadConfig, match="own: "):
        await client.ray.clusters.create(cluster("late", queue="own"))


async def pods(api: Api, namespace: str) -> int:
    """The number of Pods of the cluster demo."""
    answer = await api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=ray.io/cluster=demo")
    return len(answer.ok().json["items"])


async def test_a_dry_run_keeps_nothing_and_an_apply_changes_what_it_says(
    client: AsyncClient, api: Api, namespace: str
) -> None:
    clusters = client.ray.clusters
    assert (await clusters.dry_run(cluster())).new
    assert await clusters.list() == []
    await clusters.apply(cluster())
    plan = await clusters.dry_run(cluster(workers=3))
    assert {change.field for change in plan.changes} == {
        f"spec.workerGroupSpecs[0].{field}" for field in ("replicas", "minReplicas", "maxReplicas")
    }
    await clusters.apply(cluster(workers=3))
    await until(partial(pods, api, namespace), lambda count: count == 4)
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/demo"
    other = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": {"rayVersion": "2.55.2"}}
    query, type = "?fieldManager=other&force=true", "application/apply-patch+yaml"
    (await api.request("PATCH", f"{path}{query}", other, type=type)).ok()
    with pytest.raises(errors.Conflict, match="other"):
        await clusters.apply(cluster(workers=3))
    assert (await clusters.apply(cluster(), force=True)).resource["spec"]["rayVersion"] == "2.55.1"
    await until(partial(pods, api, namespace), lambda count: count == 2)


async def test_a_cluster_is_read_changed_and_written_without_losses(client: AsyncClient) -> None:
    clusters = client.ray.clusters
    await clusters.create(cluster(labels={"team": "a"}))

    async def change() -> None:
        while True:
            read = await clusters.get("demo")
            read.resource["metadata"].setdefault("annotations", {})["own"] = "note"
            read.resource["spec"]["headGroupSpec"]["template"]["spec"]["hostname"] = "head"
            try:
                await clusters.save(read)
            except errors.Conflict:
                continue  # its operator wrote meanwhile
            return

    before = (await clusters.get("demo")).resource["spec"]
    await change()
    after = await clusters.get("demo")
    assert after.annotations["own"] == "note"
    before["headGroupSpec"]["template"]["spec"]["hostname"] = "head"
    assert after.resource["spec"] == before
    after.resource["metadata"]["resourceVersion"] = "1"
    with pytest.raises(errors.Conflict):
        await clusters.save(after)


async def test_a_cluster_is_suspended_resumed_scaled_and_deleted_with_its_pods(
    client: AsyncClient, api: Api, namespace: str
) -> None:
    clusters = client.ray.clusters
    await clusters.create(cluster())
    count_pods = partial(pods, api, namespace)
    await until(count_pods, lambda count: count == 2)
    await clusters.scale("demo", 3)
    await until(count_pods, lambda count: count == 4)
    await clusters.suspend("demo")
    await until(lambda: clusters.status("demo"), lambda status: status.phase == "Suspended")
    await until(count_pods, lambda count: count == 0)
    await clusters.resume("demo")
    await until(count_pods, lambda count: count == 4)
    await clusters.delete("demo")
    await until(count_pods, lambda count: count == 0)
    with pytest.raises(errors.NotFound, match="demo"):
        await clusters.status("demo")


async def test_many_clusters_are_listed_with_their_states(client: AsyncClient, queues: Queues) -> None:
    await queues.make(cpu="1")
    configs = [cluster(f"c-{number:02}", workers=0, queue="team") for number in range(15)]
    await asyncio.gather(*map(client.ray.clusters.create, configs))

    states = await until(
        client.ray.clusters.list,
        lambda states: sorted(status.phase for status in states) == ["Queued"] * 5 + ["Starting"] * 10,
    )
    places = [status.place for status in states if status.phase == "Queued"]
    assert sorted(place.position for place in places if place is not None) == [1, 2, 3, 4, 5]
