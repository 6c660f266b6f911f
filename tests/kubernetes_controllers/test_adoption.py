"""Adoption and release: objects without a controller that a selector selects, and owned ones that it no longer does."""

from typing import Any

import pytest

from steelyard.kube.objects import controller_uid, finalizers_of, is_deleting, labels_of
from steelyard.kube.resource import (
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from steelyard.types import Json
from tests.kubernetes_controllers.world import World, make_job, make_set, template, until

TRACKING = "batch.kubernetes.io/job-tracking"


def bare_pod(name: str, app: str = "web", **metadata: Any) -> Json:
    labels = {"app": app}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, **metadata},
        "spec": template()["spec"],
    }


async def owned(world: World, resource: Resource, name: str, owner: Json | None) -> Json:
    """The object once this is its controller, or nobody."""
    uid = owner and owner["metadata"]["uid"]

    async def probe() -> Json | None:
        obj = await world.get(resource, name)
        return obj if controller_uid(obj) == uid else None

    return await until(probe, f"{resource.kind} {name} of {uid}") or {}


async def orphan(world: World, resource: Resource, name: str) -> None:
    await world.cluster.delete(resource, name, world.namespace, propagation="Orphan")
    await world.gone(resource, name)


async def test_a_replica_set_adopts_a_pod_and_releases_it(world: World) -> None:
    """A Pod whose labels no longer match is let go, and replaced."""
    await world.create(bare_pod("orphan"))
    made = await world.create(make_set("ReplicaSet", replicas=2))
    await owned(world, PODS, "orphan", made)
    pods = await world.pods(2)
    assert {controller_uid(pod) for pod in pods} == {made["metadata"]["uid"]}
    await world.patch(PODS, "orphan", {"metadata": {"labels": {"app": "other"}}})
    let_go = await owned(world, PODS, "orphan", None)
    assert not is_deleting(let_go)
    await world.pods(3)


async def test_a_pod_is_adopted_that_begins_to_match(world: World) -> None:
    """A Pod more than wanted is deleted: the one that is worth least."""
    made = await world.create(make_set("ReplicaSet", replicas=1))
    (own,) = await world.run_all(1)
    await world.create(bare_pod("late", "other"))
    await world.patch(PODS, "late", {"metadata": {"labels": {"app": "web"}}})
    await world.gone(PODS, "late")
    (left,) = await world.pods(1)
    assert (left["metadata"]["uid"], controller_uid(left)) == (
        own["metadata"]["uid"],
        made["metadata"]["uid"],
    )


async def test_what_has_a_controller_or_has_ended_is_not_adopted(world: World) -> None:
    other = await world.create(make_set("ReplicaSet", "other", replicas=1))
    (theirs,) = await world.pods(1)
    await world.create(bare_pod("ended", "later"))
    await world.end(await world.get(PODS, "ended"))
    await world.patch(PODS, "ended", {"metadata": {"labels": {"app": "web"}}})
    made = await world.create(make_set("ReplicaSet", replicas=1))
    await world.status(REPLICA_SETS, "web", replicas=1)
    owners = {pod["metadata"]["name"]: controller_uid(pod) for pod in await world.all(PODS)}
    assert owners.pop("ended") is None
    assert owners.pop(theirs["metadata"]["name"]) == other["metadata"]["uid"]
    assert list(owners.values()) == [made["metadata"]["uid"]]


async def test_orphaned_pods_are_adopted_by_the_next_set_of_the_same_selector(world: World) -> None:
    await world.create(make_set("ReplicaSet", replicas=2))
    before = {pod["metadata"]["uid"] for pod in await world.pods(2)}
    await orphan(world, REPLICA_SETS, "web")
    made = await world.create(make_set("ReplicaSet", "second", replicas=2))
    for pod in await world.pods(2):
        await owned(world, PODS, pod["metadata"]["name"], made)
    await world.status(REPLICA_SETS, "second", replicas=2)
    assert {pod["metadata"]["uid"] for pod in await world.pods(2)} == before


async def test_a_deployment_made_anew_takes_up_its_replica_set(world: World) -> None:
    await world.create(make_set("Deployment", replicas=1))
    await world.run_all(1)
    await world.status(DEPLOYMENTS, "web", readyReplicas=1)
    (before,) = await world.all(REPLICA_SETS)
    await orphan(world, DEPLOYMENTS, "web")
    made = await world.create(make_set("Deployment", replicas=2))
    (after,) = [await owned(world, REPLICA_SETS, name, made) for name in await world.names(REPLICA_SETS)]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    await world.pods(2)
    assert len(await world.names(REPLICA_SETS)) == 1


async def test_a_deployment_replaces_an_adopted_replica_set_of_another_template(world: World) -> None:
    old = make_set("ReplicaSet", "old", replicas=1, template=template(image="y"))
    old["metadata"]["labels"] = {"app": "web"}
    await world.create(old)
    await world.run_all(1)
    made = await world.create(make_set("Deployment", replicas=1))
    await owned(world, REPLICA_SETS, "old", made)

    async def rolled() -> bool:
        for pod in await world.active():
            await world.run(pod)
        (old,) = [obj for obj in await world.all(REPLICA_SETS) if obj["metadata"]["name"] == "old"]
        return old["spec"]["replicas"] == 0 and not (old.get("status") or {}).get("replicas")

    await until(rolled, "the old one empty")
    (pod,) = await world.pods(1)
    assert pod["spec"]["containers"][0]["image"] == "x"


async def test_a_deployment_whose_replica_set_lost_its_labels_makes_another_of_another_name(
    world: World,
) -> None:
    await world.create(make_set("Deployment", replicas=1))
    await world.pods(1)
    (first,) = await world.all(REPLICA_SETS)
    name = first["metadata"]["name"]
    await world.patch(REPLICA_SETS, name, {"metadata": {"labels": {"app": "other"}}})
    await owned(world, REPLICA_SETS, name, None)

    async def second() -> str | None:
        names = await world.names(REPLICA_SETS)
        return next((other for other in names if other != name), None)

    assert await until(second, "another ReplicaSet") != name
    await world.status(DEPLOYMENTS, "web", collisionCount=1)


async def test_a_job_with_its_own_selector_adopts_and_counts_a_pod(world: World) -> None:
    pod = bare_pod("mine", "batch")
    pod["spec"]["restartPolicy"] = "Never"
    await world.create(pod)
    spec: Json = {"manualSelector": True, "selector": {"matchLabels": {"app": "batch"}}}
    job = await world.create(make_job(completions=1, **spec, template=template("Never", app="batch")))
    adopted = await owned(world, PODS, "mine", job)
    assert TRACKING in finalizers_of(adopted)
    assert len(await world.active()) == 1
    await world.end(adopted)
    await world.condition(JOBS, "demo", "Complete")
    await world.status(JOBS, "demo", succeeded=1)


async def test_a_job_releases_a_pod_that_no_longer_matches_with_its_finalizer(world: World) -> None:
    await world.create(make_job())
    (pod,) = await world.pods(1)
    name, labels = pod["metadata"]["name"], dict.fromkeys(labels_of(pod))
    await world.patch(PODS, name, {"metadata": {"labels": {**labels, "app": "debug"}}})
    let_go = await owned(world, PODS, name, None)

    async def free() -> bool:
        return TRACKING not in finalizers_of(await world.get(PODS, name))

    await until(free, "its finalizer gone")
    assert not is_deleting(let_go)
    await world.pods(2)


@pytest.mark.parametrize("name", ["web-0", "other-0"])
async def test_a_stateful_set_adopts_pods_of_its_names_alone(world: World, name: str) -> None:
    await world.create(bare_pod(name))
    made = await world.create(make_set("StatefulSet", replicas=1, serviceName="web"))
    if name == "web-0":
        await owned(world, PODS, name, made)
    else:
        await world.pods(2)
        assert controller_uid(await world.get(PODS, name)) is None


async def test_a_stateful_set_made_anew_takes_up_its_pods_and_revision(world: World) -> None:
    await world.create(make_set("StatefulSet", replicas=1, serviceName="web"))
    (pod,) = await world.run_all(1)
    (revision,) = await world.names(CONTROLLER_REVISIONS)
    await orphan(world, STATEFUL_SETS, "web")
    made = await world.create(make_set("StatefulSet", replicas=1, serviceName="web"))
    adopted = await owned(world, PODS, "web-0", made)
    assert adopted["metadata"]["uid"] == pod["metadata"]["uid"]
    await owned(world, CONTROLLER_REVISIONS, revision, made)
    await world.status(STATEFUL_SETS, "web", currentRevision=revision, readyReplicas=1)
    assert await world.names(CONTROLLER_REVISIONS) == [revision]
