"""Garbage collection: what becomes of objects whose owners go.

The embedded server collects within itself; there the cases run a second time with the controller that works on any
server in its place.
"""

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_kube.errors import NotFound
from steelyard_kube.objects import is_deleting, owner_references, read_finalizers
from steelyard_kube.resource import CONFIG_MAPS, CRDS, NAMESPACES, SECRETS, Resource
from tests.kubernetes_controllers.conftest import OURS, REAL
from tests.kubernetes_controllers.sandbox import Sandbox, until
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


async def test_dependents_of_dependents_go_in_the_background(sandbox: Sandbox) -> None:
    owner = await sandbox.create(config_map("owner"))
    child = await sandbox.create(config_map("child", owner))
    await sandbox.create({**config_map("grandchild", child), "kind": "Secret"})
    await sandbox.delete(CONFIG_MAPS, "owner")
    await sandbox.gone(CONFIG_MAPS, "child")
    await sandbox.gone(SECRETS, "grandchild")


async def test_one_living_owner_keeps_an_object(sandbox: Sandbox) -> None:
    owners = [await sandbox.create(config_map(name)) for name in ("first", "second")]
    await sandbox.create(config_map("child", *owners))
    await sandbox.delete(CONFIG_MAPS, "first")

    async def names() -> list[str]:
        return [owner["name"] for owner in owner_references(await sandbox.get(CONFIG_MAPS, "child"))]

    async def one_left() -> bool:
        return await names() == ["second"]

    await until(one_left, "the reference of the first gone")
    await sandbox.delete(CONFIG_MAPS, "second")
    await sandbox.gone(CONFIG_MAPS, "child")


async def test_orphans_stay(sandbox: Sandbox) -> None:
    owner = await sandbox.create(config_map("owner"))
    await sandbox.create(config_map("child", owner))
    await sandbox.cluster.delete(CONFIG_MAPS, "owner", sandbox.namespace, propagation="Orphan")
    await sandbox.gone(CONFIG_MAPS, "owner")
    assert not owner_references(await sandbox.get(CONFIG_MAPS, "child"))


@pytest.mark.parametrize("blocks", [True, False], ids=["that block", "that do not block"])
async def test_in_the_foreground_an_owner_waits_for_dependents(sandbox: Sandbox, blocks: bool) -> None:
    owner = await sandbox.create(config_map("owner"))
    child = config_map("child", owner, blocks=blocks)
    child["metadata"]["finalizers"] = ["example.dev/held"]
    await sandbox.create(child)
    await sandbox.cluster.delete(CONFIG_MAPS, "owner", sandbox.namespace, propagation="Foreground")

    async def deleting() -> bool:
        return is_deleting(await sandbox.get(CONFIG_MAPS, "child"))

    await until(deleting, "the child being deleted")
    if blocks:
        assert "owner" in await sandbox.names(CONFIG_MAPS)
    else:
        await sandbox.gone(CONFIG_MAPS, "owner")
    await sandbox.patch(CONFIG_MAPS, "child", {"metadata": {"finalizers": None}})
    await sandbox.gone(CONFIG_MAPS, "owner")
    await sandbox.gone(CONFIG_MAPS, "child")


async def test_an_object_made_with_an_owner_that_is_gone_goes(sandbox: Sandbox) -> None:
    owner = await sandbox.create(config_map("owner"))
    await sandbox.delete(CONFIG_MAPS, "owner")
    await sandbox.create(config_map("late", owner))
    await sandbox.gone(CONFIG_MAPS, "late")


async def waiting(sandbox: Sandbox, name: str, *finalizers: str) -> None:
    """Wait until an object is being deleted and held by these finalizers."""

    async def probe() -> bool:
        obj = await sandbox.get(CONFIG_MAPS, name)
        return is_deleting(obj) and set(finalizers) <= set(read_finalizers(obj))

    await until(probe, f"{name} being deleted, held by {finalizers}")


async def names_of_owners(sandbox: Sandbox, name: str) -> list[str]:
    return [owner["name"] for owner in owner_references(await sandbox.get(CONFIG_MAPS, name))]


async def marker(sandbox: Sandbox) -> None:
    """Wait until the collector has seen what came before: an object whose owner never was goes after it."""
    never = {"metadata": {"name": "never", "uid": str(uuid.uuid4())}}
    await sandbox.create(config_map("marker", never))
    await sandbox.gone(CONFIG_MAPS, "marker")


def reference(kind: str, name: str, uid: str, api_version: str = "v1", **more: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, **more}


def owned_by(name: str, *references: Json) -> Json:
    metadata = {"name": name, "ownerReferences": list(references)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def test_in_the_foreground_dependents_go_before_their_owners(sandbox: Sandbox) -> None:
    """The last of a chain first; each owner waits for those that block it."""
    owner = await sandbox.create(config_map("owner"))
    child = await sandbox.create(config_map("child", owner))
    grandchild = config_map("grandchild", child)
    grandchild["metadata"]["finalizers"] = ["example.dev/held"]
    await sandbox.create(grandchild)
    await sandbox.cluster.delete(CONFIG_MAPS, "owner", sandbox.namespace, propagation="Foreground")
    await waiting(sandbox, "child", FOREGROUND)
    await waiting(sandbox, "grandchild", "example.dev/held")
    await waiting(sandbox, "owner", FOREGROUND)
    await sandbox.patch(CONFIG_MAPS, "grandchild", {"metadata": {"finalizers": None}})
    for name in ("grandchild", "child", "owner"):
        await sandbox.gone(CONFIG_MAPS, name)


async def test_in_the_foreground_a_dependent_of_another_owner_stays_and_delays_nothing(
    sandbox: Sandbox,
) -> None:
    owners = [await sandbox.create(config_map(name)) for name in ("goes", "stays")]
    await sandbox.create(config_map("child", *owners))
    await sandbox.cluster.delete(CONFIG_MAPS, "goes", sandbox.namespace, propagation="Foreground")
    await sandbox.gone(CONFIG_MAPS, "goes")
    assert await names_of_owners(sandbox, "child") == ["stays"]


async def test_an_owner_goes_once_its_dependent_blocks_it_no_longer(sandbox: Sandbox) -> None:
    owner = await sandbox.create(config_map("owner"))
    child = config_map("child", owner)
    child["metadata"]["finalizers"] = ["example.dev/held"]
    await sandbox.create(child)
    await sandbox.cluster.delete(CONFIG_MAPS, "owner", sandbox.namespace, propagation="Foreground")
    await waiting(sandbox, "child", "example.dev/held")
    await waiting(sandbox, "owner", FOREGROUND)
    references = [{**config_map("child", owner, blocks=False)["metadata"]["ownerReferences"][0]}]
    await sandbox.patch(CONFIG_MAPS, "child", {"metadata": {"ownerReferences": references}})
    await sandbox.gone(CONFIG_MAPS, "owner")
    await sandbox.patch(CONFIG_MAPS, "child", {"metadata": {"finalizers": None}})
    await sandbox.gone(CONFIG_MAPS, "child")


async def test_a_circle_of_owners_goes_in_the_foreground(sandbox: Sandbox) -> None:
    first = await sandbox.create(config_map("first"))
    second = await sandbox.create(config_map("second", first))
    references = config_map("first", second)["metadata"]["ownerReferences"]
    await sandbox.patch(CONFIG_MAPS, "first", {"metadata": {"ownerReferences": references}})
    await sandbox.cluster.delete(CONFIG_MAPS, "first", sandbox.namespace, propagation="Foreground")
    await sandbox.gone(CONFIG_MAPS, "first")
    await sandbox.gone(CONFIG_MAPS, "second")


async def test_a_held_owner_keeps_its_dependents_until_it_is_gone(sandbox: Sandbox) -> None:
    owner = config_map("owner")
    owner["metadata"]["finalizers"] = ["example.dev/held"]
    made = await sandbox.create(owner)
    await sandbox.create(config_map("child", made))
    await sandbox.delete(CONFIG_MAPS, "owner")
    await waiting(sandbox, "owner", "example.dev/held")
    await marker(sandbox)
    assert not is_deleting(await sandbox.get(CONFIG_MAPS, "child"))
    await sandbox.patch(CONFIG_MAPS, "owner", {"metadata": {"finalizers": None}})
    await sandbox.gone(CONFIG_MAPS, "child")


async def test_orphans_of_a_held_owner_are_let_go_at_once(sandbox: Sandbox) -> None:
    owner = config_map("owner")
    owner["metadata"]["finalizers"] = ["example.dev/held"]
    made = await sandbox.create(owner)
    await sandbox.create(config_map("child", made))
    await sandbox.cluster.delete(CONFIG_MAPS, "owner", sandbox.namespace, propagation="Orphan")

    async def let_go() -> bool:
        return not await names_of_owners(sandbox, "child")

    await until(let_go, "no owner of the child")

    async def held() -> bool:
        return read_finalizers(await sandbox.get(CONFIG_MAPS, "owner")) == ["example.dev/held"]

    await until(held, "the owner held by its own finalizer alone")
    await sandbox.patch(CONFIG_MAPS, "owner", {"metadata": {"finalizers": None}})
    await sandbox.gone(CONFIG_MAPS, "owner")
    assert "child" in await sandbox.names(CONFIG_MAPS)


@pytest.mark.parametrize("wrong", ["uid", "name", "kind"])
async def test_a_reference_to_a_missing_object_is_an_absent_owner(sandbox: Sandbox, wrong: str) -> None:
    owner = await sandbox.create(config_map("owner"))
    right = {"kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    others = {"kind": "Secret", "name": "other", "uid": str(uuid.uuid4())}
    await sandbox.create(owned_by("child", reference(**{**right, wrong: others[wrong]})))
    await sandbox.gone(CONFIG_MAPS, "child")
    assert not is_deleting(await sandbox.get(CONFIG_MAPS, "owner"))


async def test_an_absent_owner_is_forgotten_while_another_one_lives(sandbox: Sandbox) -> None:
    owner = await sandbox.create(config_map("owner"))
    never = reference("ConfigMap", "never", str(uuid.uuid4()))
    await sandbox.create(owned_by("child", never, reference("ConfigMap", "owner", owner["metadata"]["uid"])))

    async def one_left() -> bool:
        return await names_of_owners(sandbox, "child") == ["owner"]

    await until(one_left, "the absent one forgotten")


async def test_an_owner_of_another_namespace_is_absent(sandbox: Sandbox) -> None:
    other = f"{sandbox.namespace}-other"
    await sandbox.cluster.create(NAMESPACES, {"metadata": {"name": other}})
    try:
        elsewhere = {**config_map("owner"), "metadata": {"name": "owner", "namespace": other}}
        owner = await sandbox.cluster.create(CONFIG_MAPS, elsewhere)
        await sandbox.create(config_map("child", owner))
        await sandbox.gone(CONFIG_MAPS, "child")
        assert not is_deleting(await sandbox.cluster.get(CONFIG_MAPS, "owner", other))
    finally:
        await sandbox.cluster.delete(NAMESPACES, other)


async def test_an_owner_of_the_cluster_owns_in_every_namespace(sandbox: Sandbox) -> None:
    name = f"role-{sandbox.namespace}"
    role = await sandbox.cluster.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": []})
    group = "rbac.authorization.k8s.io/v1"
    await sandbox.create(owned_by("child", reference("ClusterRole", name, role["metadata"]["uid"], group)))
    await marker(sandbox)
    assert "child" in await sandbox.names(CONFIG_MAPS)
    await sandbox.cluster.delete(CLUSTER_ROLES, name)
    await sandbox.gone(CONFIG_MAPS, "child")


async def test_an_object_of_the_cluster_with_an_owner_in_some_namespace_stays(sandbox: Sandbox) -> None:
    """A reference of such an object names no namespace: it is unknown whether the owner is there."""
    name = f"role-{sandbox.namespace}"
    owners = [reference("ConfigMap", "never", str(uuid.uuid4()))]
    metadata = {"name": name, "ownerReferences": owners}
    await sandbox.cluster.create(CLUSTER_ROLES, {"metadata": metadata, "rules": []})
    await marker(sandbox)
    kept = await sandbox.cluster.get(CLUSTER_ROLES, name)
    assert (owner_references(kept), is_deleting(kept)) == (owners, False)
    await sandbox.cluster.delete(CLUSTER_ROLES, name)


async def test_an_owner_of_an_unknown_kind_keeps_its_dependents(sandbox: Sandbox) -> None:
    owner = await sandbox.create(config_map("owner"))
    unknown = reference("Widget", "w", str(uuid.uuid4()), "unknown.example.dev/v1")
    await sandbox.create(
        owned_by("child", unknown, reference("ConfigMap", "owner", owner["metadata"]["uid"]))
    )
    await sandbox.delete(CONFIG_MAPS, "owner")
    await sandbox.gone(CONFIG_MAPS, "owner")
    await marker(sandbox)
    assert await names_of_owners(sandbox, "child") == ["w", "owner"]


@dataclass(frozen=True)
class Widgets:
    """A kind that the case has defined, in two versions."""

    sandbox: Sandbox
    group: str
    resource: Resource

    @classmethod
    async def define(cls, sandbox: Sandbox) -> "Widgets":
        group = f"{sandbox.namespace}.example.dev"
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
        versions = [
            {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v2", "v1")
        ]
        spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
        await sandbox.cluster.create(CRDS, {"metadata": {"name": f"widgets.{group}"}, "spec": spec})
        return cls(sandbox, group, Resource(group, "v2", "widgets", "Widget"))

    async def create(self, name: str) -> Json:
        async def made() -> Json | None:
            try:
                return await self.sandbox.cluster.create(
                    self.resource, {"metadata": {"name": name, "namespace": self.sandbox.namespace}}
                )
            except NotFound:
                return None

        return await until(made, "the new kind") or {}

    def reference(self, widget: Json) -> Json:
        name, uid = widget["metadata"]["name"], widget["metadata"]["uid"]
        return reference("Widget", name, uid, f"{self.group}/v2")

    async def stop_serving_v2(self) -> None:
        definition = await self.sandbox.cluster.get(CRDS, f"widgets.{self.group}")
        v2, v1 = definition["spec"]["versions"]
        patch = {"spec": {"versions": [{**v2, "served": False}, v1]}}
        await self.sandbox.cluster.patch(CRDS, f"widgets.{self.group}", patch)

    async def delete(self) -> None:
        await self.sandbox.cluster.delete(CRDS, f"widgets.{self.group}")


async def test_objects_of_a_new_kind_are_collected(sandbox: Sandbox) -> None:
    """Objects of the kind are owners and dependents; the collector learns of it while it runs."""
    widgets = await Widgets.define(sandbox)
    try:
        widget = await widgets.create("w")
        await sandbox.create(owned_by("child", widgets.reference(widget)))
        owner = await sandbox.create(config_map("owner"))
        owned = owned_by("x", reference("ConfigMap", "owner", owner["metadata"]["uid"]))["metadata"]
        second = {"metadata": {**owned, "name": "second", "namespace": sandbox.namespace}}
        await sandbox.cluster.create(widgets.resource, second)
        await sandbox.delete(widgets.resource, "w")
        # A real collector looks for new kinds every half minute.
        await sandbox.gone(CONFIG_MAPS, "child", seconds=120.0)
        await sandbox.delete(CONFIG_MAPS, "owner")
        await sandbox.gone(widgets.resource, "second", seconds=120.0)
    finally:
        await widgets.delete()


@pytest.mark.skipif(
    bool(REAL) and not OURS, reason="a real collector keeps some of them, as its watches fall out"
)
async def test_a_definition_takes_the_dependents_of_its_objects_along(sandbox: Sandbox) -> None:
    widgets = await Widgets.define(sandbox)
    owners = [await widgets.create(f"w-{number}") for number in range(3)]
    owned = [f"child-{number}" for number in range(6)]
    for number, name in enumerate(owned):
        await sandbox.create(owned_by(name, widgets.reference(owners[number % 3])))
    await sandbox.create(owned_by("first", widgets.reference(await widgets.create("w"))))
    await sandbox.delete(widgets.resource, "w")
    await sandbox.gone(CONFIG_MAPS, "first", seconds=120.0)  # by now the collector follows the kind
    await widgets.delete()
    for name in owned:
        await sandbox.gone(CONFIG_MAPS, name, seconds=120.0)


async def test_dependents_stay_when_their_owners_version_is_served_no_more(sandbox: Sandbox) -> None:
    widgets = await Widgets.define(sandbox)
    try:
        widget = await widgets.create("w")
        await sandbox.create(owned_by("child", widgets.reference(widget)))
        await sandbox.create(owned_by("first", widgets.reference(await widgets.create("first"))))
        await sandbox.delete(widgets.resource, "first")
        await sandbox.gone(CONFIG_MAPS, "first", seconds=120.0)  # by now the collector follows the kind
        await widgets.stop_serving_v2()
        for _ in range(3):  # while the collector hears of it
            await marker(sandbox)
            await asyncio.sleep(0.5)
        assert "child" in await sandbox.names(CONFIG_MAPS)
    finally:
        await widgets.delete()
