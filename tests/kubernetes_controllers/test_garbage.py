"""Garbage collection: what becomes of objects whose owners go.

The embedded server collects within itself; there the cases run a second time with the controller that works on any
server in its place.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.kube.errors import NotFound
from steelyard.kube.objects import finalizers_of, is_deleting, owner_references
from steelyard.kube.resource import CONFIG_MAPS, CRDS, NAMESPACES, SECRETS, Resource
from steelyard.types import Json
from tests.kubernetes_controllers.conftest import REAL
from tests.kubernetes_controllers.world import World, until
from tests.kubernetes_differential.embedded import embedded_server

FOREGROUND = "foregroundDeletion"
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)


@pytest.fixture(
    scope="module", params=["the server's own"] if REAL else ["the server's own", "the controller"]
)
def kubeconfig(request: pytest.FixtureRequest) -> Iterator[Path]:
    if REAL:
        yield Path(REAL)
        return
    with embedded_server(collects_garbage=request.param == "the server's own") as embedded:
        yield embedded


def config_map(name: str, *owners: Json, blocks: bool = True) -> Json:
    references = [
        {
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks,
        }
        for owner in owners
    ]  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": references},
    }


async def test_dependents_of_dependents_go_in_the_background(world: World) -> None:
    owner = await world.create(config_map("owner"))
    child = await world.create(config_map("child", owner))
    await world.create({**config_map("grandchild", child), "kind": "Secret"})
    await world.delete(CONFIG_MAPS, "owner")
    await world.gone(CONFIG_MAPS, "child")
    await world.gone(SECRETS, "grandchild")


async def test_one_living_owner_keeps_an_object(world: World) -> None:
    owners = [await world.create(config_map(name)) for name in ("first", "second")]
    await world.create(config_map("child", *owners))
    await world.delete(CONFIG_MAPS, "first")

    async def names() -> list[str]:
        return [owner["name"] for owner in owner_references(await world.get(CONFIG_MAPS, "child"))]

    async def one_left() -> bool:
        return await names() == ["second"]

    await until(one_left, "the reference of the first gone")
    await world.delete(CONFIG_MAPS, "second")
    await world.gone(CONFIG_MAPS, "child")


async def test_orphans_stay(world: World) -> None:
    owner = await world.create(config_map("owner"))
    await world.create(config_map("child", owner))
    await world.cluster.delete(CONFIG_MAPS, "owner", world.namespace, propagation="Orphan")
    await world.gone(CONFIG_MAPS, "owner")
    assert not owner_references(await world.get(CONFIG_MAPS, "child"))


@pytest.mark.parametrize("blocks", [True, False], ids=["that block", "that do not block"])
async def test_in_the_foreground_an_owner_waits_for_dependents(world: World, blocks: bool) -> None:
    owner = await world.create(config_map("owner"))
    child = config_map("child", owner, blocks=blocks)
    child["metadata"]["finalizers"] = ["example.dev/held"]
    await world.create(child)
    await world.cluster.delete(CONFIG_MAPS, "owner", world.namespace, propagation="Foreground")

    async def deleting() -> bool:
        return is_deleting(await world.get(CONFIG_MAPS, "child"))

    await until(deleting, "the child being deleted")
    if blocks:
        assert "owner" in await world.names(CONFIG_MAPS)
    else:
        await world.gone(CONFIG_MAPS, "owner")
    await world.patch(CONFIG_MAPS, "child", {"metadata": {"finalizers": None}})
    await world.gone(CONFIG_MAPS, "owner")
    await world.gone(CONFIG_MAPS, "child")


async def test_an_object_made_with_an_owner_that_is_gone_goes(world: World) -> None:
    owner = await world.create(config_map("owner"))
    await world.delete(CONFIG_MAPS, "owner")
    await world.create(config_map("late", owner))
    await world.gone(CONFIG_MAPS, "late")


async def waiting(world: World, name: str, *finalizers: str) -> None:
    """Wait until an object is being deleted and held by these finalizers."""

    async def probe() -> bool:
        obj = await world.get(CONFIG_MAPS, name)
        return is_deleting(obj) and set(finalizers) <= set(finalizers_of(obj))

    await until(probe, f"{name} being deleted, held by {finalizers}")


async def names_of_owners(world: World, name: str) -> list[str]:
    return [owner["name"] for owner in owner_references(await world.get(CONFIG_MAPS, name))]


async def marker(world: World) -> None:
    """Wait until the collector has seen what came before: an object whose owner never was goes after it."""
    never = {"metadata": {"name": "never", "uid": str(uuid.uuid4())}}
    await world.create(config_map("marker", never))
    await world.gone(CONFIG_MAPS, "marker")


def reference(kind: str, name: str, uid: str, api_version: str = "v1", **more: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, **more}


def owned_by(name: str, *references: Json) -> Json:
    metadata = {"name": name, "ownerReferences": list(references)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def test_in_the_foreground_dependents_go_before_their_owners(world: World) -> None:
    """The last of a chain first; each owner waits for those that block it."""
    owner = await world.create(config_map("owner"))
    child = await world.create(config_map("child", owner))
    grandchild = config_map("grandchild", child)
    grandchild["metadata"]["finalizers"] = ["example.dev/held"]
    await world.create(grandchild)
    await world.cluster.delete(CONFIG_MAPS, "owner", world.namespace, propagation="Foreground")
    await waiting(world, "child", FOREGROUND)
    await waiting(world, "grandchild", "example.dev/held")
    await waiting(world, "owner", FOREGROUND)
    await world.patch(CONFIG_MAPS, "grandchild", {"metadata": {"finalizers": None}})
    for name in ("grandchild", "child", "owner"):
        await world.gone(CONFIG_MAPS, name)


async def test_in_the_foreground_a_dependent_of_another_owner_stays_and_holds_nobody_up(world: World) -> None:
    owners = [await world.create(config_map(name)) for name in ("goes", "stays")]
    await world.create(config_map("child", *owners))
    await world.cluster.delete(CONFIG_MAPS, "goes", world.namespace, propagation="Foreground")
    await world.gone(CONFIG_MAPS, "goes")
    assert await names_of_owners(world, "child") == ["stays"]


async def test_an_owner_goes_once_its_dependent_blocks_it_no_longer(world: World) -> None:
    owner = await world.create(config_map("owner"))
    child = config_map("child", owner)
    child["metadata"]["finalizers"] = ["example.dev/held"]
    await world.create(child)
    await world.cluster.delete(CONFIG_MAPS, "owner", world.namespace, propagation="Foreground")
    await waiting(world, "child", "example.dev/held")
    await waiting(world, "owner", FOREGROUND)
    references = [{**config_map("child", owner, blocks=False)["metadata"]["ownerReferences"][0]}]
    await world.patch(CONFIG_MAPS, "child", {"metadata": {"ownerReferences": references}})
    await world.gone(CONFIG_MAPS, "owner")
    await world.patch(CONFIG_MAPS, "child", {"metadata": {"finalizers": None}})
    await world.gone(CONFIG_MAPS, "child")


async def test_a_circle_of_owners_goes_in_the_foreground(world: World) -> None:
    first = await world.create(config_map("first"))
    second = await world.create(config_map("second", first))
    references = config_map("first", second)["metadata"]["ownerReferences"]
    await world.patch(CONFIG_MAPS, "first", {"metadata": {"ownerReferences": references}})
    await world.cluster.delete(CONFIG_MAPS, "first", world.namespace, propagation="Foreground")
    await world.gone(CONFIG_MAPS, "first")
    await world.gone(CONFIG_MAPS, "second")


async def test_a_held_owner_keeps_its_dependents_until_it_is_gone(world: World) -> None:
    owner = config_map("owner")
    owner["metadata"]["finalizers"] = ["example.dev/held"]
    made = await world.create(owner)
    await world.create(config_map("child", made))
    await world.delete(CONFIG_MAPS, "owner")
    await waiting(world, "owner", "example.dev/held")
    await marker(world)
    assert not is_deleting(await world.get(CONFIG_MAPS, "child"))
    await world.patch(CONFIG_MAPS, "owner", {"metadata": {"finalizers": None}})
    await world.gone(CONFIG_MAPS, "child")


async def test_orphans_of_a_held_owner_are_let_go_at_once(world: World) -> None:
    owner = config_map("owner")
    owner["metadata"]["finalizers"] = ["example.dev/held"]
    made = await world.create(owner)
    await world.create(config_map("child", made))
    await world.cluster.delete(CONFIG_MAPS, "owner", world.namespace, propagation="Orphan")

    async def let_go() -> bool:
        return not await names_of_owners(world, "child")

    await until(let_go, "no owner of the child")

    async def held() -> bool:
        return finalizers_of(await world.get(CONFIG_MAPS, "owner")) == ["example.dev/held"]

    await until(held, "the owner held by its own finalizer alone")
    await world.patch(CONFIG_MAPS, "owner", {"metadata": {"finalizers": None}})
    await world.gone(CONFIG_MAPS, "owner")
    assert "child" in await world.names(CONFIG_MAPS)


@pytest.mark.parametrize("wrong", ["uid", "name", "kind"])
async def test_a_reference_to_nobody_is_an_absent_owner(world: World, wrong: str) -> None:
    owner = await world.create(config_map("owner"))
    right = {"kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    others = {"kind": "Secret", "name": "other", "uid": str(uuid.uuid4())}
    await world.create(owned_by("child", reference(**{**right, wrong: others[wrong]})))
    await world.gone(CONFIG_MAPS, "child")
    assert not is_deleting(await world.get(CONFIG_MAPS, "owner"))


async def test_an_absent_owner_beside_a_living_one_is_forgotten(world: World) -> None:
    owner = await world.create(config_map("owner"))
    never = reference("ConfigMap", "never", str(uuid.uuid4()))
    await world.create(owned_by("child", never, reference("ConfigMap", "owner", owner["metadata"]["uid"])))

    async def one_left() -> bool:
        return await names_of_owners(world, "child") == ["owner"]

    await until(one_left, "the absent one forgotten")


async def test_an_owner_of_another_namespace_is_absent(world: World) -> None:
    other = f"{world.namespace}-other"
    await world.cluster.create(NAMESPACES, {"metadata": {"name": other}})
    try:
        elsewhere = {**config_map("owner"), "metadata": {"name": "owner", "namespace": other}}
        owner = await world.cluster.create(CONFIG_MAPS, elsewhere)
        await world.create(config_map("child", owner))
        await world.gone(CONFIG_MAPS, "child")
        assert not is_deleting(await world.cluster.get(CONFIG_MAPS, "owner", other))
    finally:
        await world.cluster.delete(NAMESPACES, other)


async def test_an_owner_of_the_cluster_owns_in_every_namespace(world: World) -> None:
    name = f"role-{world.namespace}"
    role = await world.cluster.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": []})
    group = "rbac.authorization.k8s.io/v1"
    await world.create(owned_by("child", reference("ClusterRole", name, role["metadata"]["uid"], group)))
    await marker(world)
    assert "child" in await world.names(CONFIG_MAPS)
    await world.cluster.delete(CLUSTER_ROLES, name)
    await world.gone(CONFIG_MAPS, "child")


async def test_an_object_of_the_cluster_with_an_owner_in_some_namespace_stays(world: World) -> None:
    """A reference of such an object names no namespace: nobody can say whether the owner is there."""
    name = f"role-{world.namespace}"
    owners = [reference("ConfigMap", "never", str(uuid.uuid4()))]
    metadata = {"name": name, "ownerReferences": owners}
    await world.cluster.create(CLUSTER_ROLES, {"metadata": metadata, "rules": []})
    await marker(world)
    kept = await world.cluster.get(CLUSTER_ROLES, name)
    assert (owner_references(kept), is_deleting(kept)) == (owners, False)
    await world.cluster.delete(CLUSTER_ROLES, name)


async def test_an_owner_of_an_unknown_kind_keeps_its_dependents(world: World) -> None:
    owner = await world.create(config_map("owner"))
    unknown = reference("Widget", "w", str(uuid.uuid4()), "unknown.example.dev/v1")
    await world.create(owned_by("child", unknown, reference("ConfigMap", "owner", owner["metadata"]["uid"])))
    await world.delete(CONFIG_MAPS, "owner")
    await world.gone(CONFIG_MAPS, "owner")
    await marker(world)
    assert await names_of_owners(world, "child") == ["w", "owner"]


async def test_objects_of_a_new_kind_are_collected(world: World) -> None:
    """Objects of the kind are owners and dependents; the collector learns of it while it runs."""
    group = f"{world.namespace}.example.dev"
    widgets = Resource(group, "v1", "widgets", "Widget")
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    await world.cluster.create(CRDS, {"metadata": {"name": f"widgets.{group}"}, "spec": spec})
    try:

        async def made() -> Json | None:
            try:
                return await world.cluster.create(
                    widgets, {"metadata": {"name": "w", "namespace": world.namespace}}
                )
            except NotFound:
                return None

        widget = await until(made, "the new kind") or {}
        uid = widget["metadata"]["uid"]
        await world.create(owned_by("child", reference("Widget", "w", uid, f"{group}/v1")))
        owner = await world.create(config_map("owner"))
        owned = owned_by("x", reference("ConfigMap", "owner", owner["metadata"]["uid"]))["metadata"]
        second = {"metadata": {**owned, "name": "second", "namespace": world.namespace}}
        await world.cluster.create(widgets, second)
        await world.delete(widgets, "w")
        # A real collector looks for new kinds every half minute.
        await world.gone(CONFIG_MAPS, "child", seconds=120.0)
        await world.delete(CONFIG_MAPS, "owner")
        await world.gone(widgets, "second", seconds=120.0)
    finally:
        await world.cluster.delete(CRDS, f"widgets.{group}")
