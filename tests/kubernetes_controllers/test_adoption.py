"""Adoption and release: objects without a controller that a selector selects, and owned ones that it no longer does."""

from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.objects import controller_uid, is_deleting, read_finalizers, read_labels
from steelyard_kube.resource import (
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from tests.kubernetes_controllers.sandbox import Sandbox, make_job, make_set, template, until

TRACKING = "batch.kubernetes.io/job-tracking"


def bare_pod(name: str, app: str = "web", **metadata: Any) -> Json:
    labels = {"app": app}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, **metadata},
        "spec": template()["spec"],
    }


async def owned(sandbox: Sandbox, resource: Resource, name: str, owner: Json | None) -> Json:
    """The object once this is its controller, or it is without one."""
    uid = owner and owner["metadata"]["uid"]

    async def probe() -> Json | None:
        obj = await sandbox.get(resource, name)
        return obj if controller_uid(obj) == uid else None

    return await until(probe, f"{resource.kind} {name} of {uid}") or {}


async def orphan(sandbox: Sandbox, resource: Resource, name: str) -> None:
    await sandbox.cluster.delete(resource, name, sandbox.namespace, propagation="Orphan")
    await sandbox.gone(resource, name)


async def test_a_replica_set_adopts_a_pod_and_releases_it(sandbox: Sandbox) -> None:
    """A Pod whose labels no longer match is let go, and replaced."""
    await sandbox.create(bare_pod("orphan"))
    made = await sandbox.create(make_set("ReplicaSet", replicas=2))
    await owned(sandbox, PODS, "orphan", made)
    pods = await sandbox.pods(2)
    assert {controller_uid(pod) for pod in pods} == {made["metadata"]["uid"]}
    await sandbox.patch(PODS, "orphan", {"metadata": {"labels": {"app": "other"}}})
    let_go = await owned(sandbox, PODS, "orphan", None)
    assert not is_deleting(let_go)
    await sandbox.pods(3)


async def test_a_pod_is_adopted_that_begins_to_match(sandbox: Sandbox) -> None:
    """A Pod more than wanted is deleted: the one that is worth least."""
    made = await sandbox.create(make_set("ReplicaSet", replicas=1))
    (own,) = await sandbox.run_all(1)
    await sandbox.create(bare_pod("late", "other"))
    await sandbox.patch(PODS, "late", {"metadata": {"labels": {"app": "web"}}})
    await sandbox.gone(PODS, "late")
    (left,) = await sandbox.pods(1)
    assert (left["metadata"]["uid"], controller_uid(left)) == (
        own["metadata"]["uid"],
        made["metadata"]["uid"],
    )


async def test_what_has_a_controller_or_has_ended_is_not_adopted(sandbox: Sandbox) -> None:
    other = await sandbox.create(make_set("ReplicaSet", "other", replicas=1))
    (theirs,) = await sandbox.pods(1)
    await sandbox.create(bare_pod("ended", "later"))
    await sandbox.end(await sandbox.get(PODS, "ended"))
    await sandbox.patch(PODS, "ended", {"metadata": {"labels": {"app": "web"}}})
    made = await sandbox.create(make_set("ReplicaSet", replicas=1))
    await sandbox.status(REPLICA_SETS, "web", replicas=1)
    owners = {pod["metadata"]["name"]: controller_uid(pod) for pod in await sandbox.all(PODS)}
    assert owners.pop("ended") is None
    assert owners.pop(theirs["metadata"]["name"]) == other["metadata"]["uid"]
    assert list(owners.values()) == [made["metadata"]["uid"]]


async def test_orphaned_pods_are_adopted_by_the_next_set_of_the_same_selector(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("ReplicaSet", replicas=2))
    before = {pod["metadata"]["uid"] for pod in await sandbox.pods(2)}
    await orphan(sandbox, REPLICA_SETS, "web")
    made = await sandbox.create(make_set("ReplicaSet", "second", replicas=2))
    for pod in await sandbox.pods(2):
        await owned(sandbox, PODS, pod["metadata"]["name"], made)
    await sandbox.status(REPLICA_SETS, "second", replicas=2)
    assert {pod["metadata"]["uid"] for pod in await sandbox.pods(2)} == before


async def test_a_deployment_made_again_takes_up_its_replica_set(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("Deployment", replicas=1))
    await sandbox.run_all(1)
    await sandbox.status(DEPLOYMENTS, "web", readyReplicas=1)
    (before,) = await sandbox.all(REPLICA_SETS)
    await orphan(sandbox, DEPLOYMENTS, "web")
    made = await sandbox.create(make_set("Deployment", replicas=2))
    (after,) = [await owned(sandbox, REPLICA_SETS, name, made) for name in await sandbox.names(REPLICA_SETS)]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    await sandbox.pods(2)
    assert len(await sandbox.names(REPLICA_SETS)) == 1


async def test_a_deployment_replaces_an_adopted_replica_set_of_another_template(sandbox: Sandbox) -> None:
    old = make_set("ReplicaSet", "old", replicas=1, template=template(image="y"))
    old["metadata"]["labels"] = {"app": "web"}
    await sandbox.create(old)
    await sandbox.run_all(1)
    made = await sandbox.create(make_set("Deployment", replicas=1))
    await owned(sandbox, REPLICA_SETS, "old", made)

    async def rolled() -> bool:
        for pod in await sandbox.active():
            await sandbox.run(pod)
        (old,) = [obj for obj in await sandbox.all(REPLICA_SETS) if obj["metadata"]["name"] == "old"]
        return old["spec"]["replicas"] == 0 and not (old.get("status") or {}).get("replicas")

    await until(rolled, "the old one empty")
    (pod,) = await sandbox.pods(1)
    assert pod["spec"]["containers"][0]["image"] == "x"


async def test_a_deployment_whose_replica_set_lost_its_labels_makes_another_of_another_name(
    sandbox: Sandbox,
) -> None:
    await sandbox.create(make_set("Deployment", replicas=1))
    await sandbox.pods(1)
    (first,) = await sandbox.all(REPLICA_SETS)
    name = first["metadata"]["name"]
    await sandbox.patch(REPLICA_SETS, name, {"metadata": {"labels": {"app": "other"}}})
    await owned(sandbox, REPLICA_SETS, name, None)

    async def second() -> str | None:
        names = await sandbox.names(REPLICA_SETS)
        return next((other for other in names if other != name), None)

    assert await until(second, "another ReplicaSet") != name
    await sandbox.status(DEPLOYMENTS, "web", collisionCount=1)


async def test_a_job_with_its_own_selector_adopts_and_counts_a_pod(sandbox: Sandbox) -> None:
    pod = bare_pod("mine", "batch")
    pod["spec"]["restartPolicy"] = "Never"
    await sandbox.create(pod)
    spec: Json = {"manualSelector": True, "selector": {"matchLabels": {"app": "batch"}}}
    job = await sandbox.create(make_job(completions=1, **spec, template=template("Never", app="batch")))
    adopted = await owned(sandbox, PODS, "mine", job)
    assert TRACKING in read_finalizers(adopted)
    assert len(await sandbox.active()) == 1
    await sandbox.end(adopted)
    await sandbox.condition(JOBS, "demo", "Complete")
    await sandbox.status(JOBS, "demo", succeeded=1)


async def test_a_job_releases_a_pod_that_no_longer_matches_with_its_finalizer(sandbox: Sandbox) -> None:
    await sandbox.create(make_job())
    (pod,) = await sandbox.pods(1)
    name, labels = pod["metadata"]["name"], dict.fromkeys(read_labels(pod))
    await sandbox.patch(PODS, name, {"metadata": {"labels": {**labels, "app": "debug"}}})
    let_go = await owned(sandbox, PODS, name, None)

    async def free() -> bool:
        return TRACKING not in read_finalizers(await sandbox.get(PODS, name))

    await until(free, "its finalizer gone")
    assert not is_deleting(let_go)
    await sandbox.pods(2)


@pytest.mark.parametrize("name", ["web-0", "other-0"])
async def test_a_stateful_set_adopts_pods_of_its_names_alone(sandbox: Sandbox, name: str) -> None:
    await sandbox.create(bare_pod(name))
    made = await sandbox.create(make_set("StatefulSet", replicas=1, serviceName="web"))
    if name == "web-0":
        await owned(sandbox, PODS, name, made)
    else:
        await sandbox.pods(2)
        assert controller_uid(await sandbox.get(PODS, name)) is None


async def test_a_stateful_set_made_again_takes_up_its_pods_and_revision(sandbox: Sandbox) -> None:
    await sandbox.create(make_set("StatefulSet", replicas=1, serviceName="web"))
    (pod,) = await sandbox.run_all(1)
    (revision,) = await sandbox.names(CONTROLLER_REVISIONS)
    await orphan(sandbox, STATEFUL_SETS, "web")
    made = await sandbox.create(make_set("StatefulSet", replicas=1, serviceName="web"))
    adopted = await owned(sandbox, PODS, "web-0", made)
    assert adopted["metadata"]["uid"] == pod["metadata"]["uid"]
    await owned(sandbox, CONTROLLER_REVISIONS, revision, made)
    await sandbox.status(STATEFUL_SETS, "web", currentRevision=revision, readyReplicas=1)
    assert await sandbox.names(CONTROLLER_REVISIONS) == [revision]
