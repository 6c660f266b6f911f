"""Contract suite of `Cluster`: functions that the in-memory cluster, and a client of any server, must pass.

A test runs each of `CASES` on a cluster and a namespace that exists; cases use names of their own and may run
in any order on the same namespace. They expect no controllers and wait for nothing but watches.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster, Resource, WatchEvent
from steelyard_kube.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from steelyard_kube.resource import CONFIG_MAPS, CRDS, LEASES, PODS

Case = Callable[[Cluster, str], Awaitable[None]]
CASES: list[Case] = []
WIDGETS = Resource("contract.steelyard.dev", "v1", "widgets", "Widget")
_PATIENCE = 20.0


def case(function: Case) -> Case:
    CASES.append(function)
    return function


def config_map(namespace: str, name: str, data: Json | None = None, **labels: str) -> Json:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {}}


def pod(namespace: str, name: str, node: str | None) -> Json:
    spec: Json = {"containers": [{"name": "main", "image": "localhost/none:1"}]}
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def expect_refusal(error: type[ApiError], call: Awaitable[Any], *, status: int = 0) -> ApiError:
    """The error with which `call` is refused."""
    refusal: ApiError | None = None
    answer: object = None
    try:
        answer = await call
    except error as caught:
        refusal = caught
    assert refusal is not None, f"expected {error.__name__}, got {answer}"
    assert status in (0, refusal.status), refusal
    return refusal


def read_version(obj: Json) -> str:
    return cast("str", obj["metadata"]["resourceVersion"])


# ---- reading and creating


@case
async def a_created_object_gets_what_the_server_sets(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(CONFIG_MAPS, config_map(namespace, "set-by-server", {"a": "1"}))
    assert created["metadata"]["uid"]
    assert read_version(created)
    assert created["metadata"]["creationTimestamp"].endswith("Z")
    assert created["data"] == {"a": "1"}
    assert await cluster.get(CONFIG_MAPS, "set-by-server", namespace) == created


@case
async def a_name_is_created_once(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "once"))
    await expect_refusal(
        AlreadyExists, cluster.create(CONFIG_MAPS, config_map(namespace, "once")), status=409
    )


@case
async def absent_objects_are_not_found(cluster: Cluster, namespace: str) -> None:
    await expect_refusal(NotFound, cluster.get(CONFIG_MAPS, "absent", namespace), status=404)
    await expect_refusal(NotFound, cluster.delete(CONFIG_MAPS, "absent", namespace), status=404)
    await expect_refusal(NotFound, cluster.patch(CONFIG_MAPS, "absent", {"data": {}}, namespace), status=404)
    await expect_refusal(NotFound, cluster.replace(CONFIG_MAPS, config_map(namespace, "absent")), status=404)


@case
async def an_object_with_a_version_is_not_created(cluster: Cluster, namespace: str) -> None:
    obj = config_map(namespace, "versioned")
    obj["metadata"]["resourceVersion"] = "1"
    await expect_refusal(
        ApiError, cluster.create(CONFIG_MAPS, obj)
    )  # Kubernetes says 500, where 400 is meant


@case
async def names_are_generated_apart(cluster: Cluster, namespace: str) -> None:
    bare: Json = {"metadata": {"generateName": "generated-", "namespace": namespace}}
    one = await cluster.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **bare})
    two = await cluster.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **bare})
    names = {obj["metadata"]["name"] for obj in (one, two)}
    assert len(names) == 2
    assert all(name.startswith("generated-") for name in names)


@case
async def lists_select_by_label_and_name(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "select-1", case="select", size="s", odd="yes"))
    await cluster.create(CONFIG_MAPS, config_map(namespace, "select-2", case="select", size="m"))
    await cluster.create(CONFIG_MAPS, config_map(namespace, "select-3", case="select"))

    async def names(labels: str, fields: str = "") -> str:
        selector = ",".join(("case=select", labels)) if labels else "case=select"
        objects = await cluster.list(CONFIG_MAPS, namespace, label_selector=selector, field_selector=fields)
        assert all(obj["kind"] == "ConfigMap" and obj["apiVersion"] == "v1" for obj in objects.items)
        return " ".join(obj["metadata"]["name"][-1] for obj in objects.items)

    assert await names("") == "1 2 3"
    assert await names("size=s") == await names("size==s") == "1"
    assert await names("size!=s") == "2 3"
    assert await names("size in (s, m)") == "1 2"
    assert await names("size notin (s,x)") == "2 3"
    assert await names("size,!odd") == "2"
    assert await names("", "metadata.name=select-3") == "3"
    assert await names("", "metadata.name!=select-3") == "1 2"
    await expect_refusal(ApiError, cluster.list(CONFIG_MAPS, namespace, label_selector="a=b=c"), status=400)


# ---- writing


@case
async def a_stale_replacement_is_a_conflict(cluster: Cluster, namespace: str) -> None:
    old = await cluster.create(CONFIG_MAPS, config_map(namespace, "stale", {"n": "0"}))
    new = await cluster.replace(CONFIG_MAPS, {**old, "data": {"n": "1"}})
    assert read_version(new) != read_version(old)
    await expect_refusal(Conflict, cluster.replace(CONFIG_MAPS, {**old, "data": {"n": "2"}}), status=409)
    stale = {"metadata": {"resourceVersion": read_version(old)}, "data": {"n": "3"}}
    await expect_refusal(Conflict, cluster.patch(CONFIG_MAPS, "stale", stale, namespace), status=409)
    assert (await cluster.get(CONFIG_MAPS, "stale", namespace))["data"] == {"n": "1"}


@case
async def no_writer_is_lost(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "counter", {"n": "0"}))

    async def increment() -> None:
        while True:
            obj = await cluster.get(CONFIG_MAPS, "counter", namespace)
            obj["data"]["n"] = str(int(obj["data"]["n"]) + 1)
            try:
                await cluster.replace(CONFIG_MAPS, obj)
            except Conflict:
                continue
            return

    await asyncio.gather(*(increment() for _ in range(8)))
    assert (await cluster.get(CONFIG_MAPS, "counter", namespace))["data"] == {"n": "8"}


@case
async def a_write_of_nothing_keeps_the_version(cluster: Cluster, namespace: str) -> None:
    old = await cluster.create(CONFIG_MAPS, config_map(namespace, "same", {"a": "1"}))
    assert read_version(await cluster.replace(CONFIG_MAPS, old)) == read_version(old)
    same = await cluster.patch(CONFIG_MAPS, "same", {"data": {"a": "1"}}, namespace)
    assert read_version(same) == read_version(old)


@case
async def a_merge_patch_merges_and_null_removes(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "merge", {"a": "1", "b": "2"}))
    merged = await cluster.patch(CONFIG_MAPS, "merge", {"data": {"a": None, "c": "3"}}, namespace)
    assert merged["data"] == {"b": "2", "c": "3"}


@case
async def a_json_patch_tests_before_it_writes(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "json", {"a": "1"}))
    ops: list[Json] = [{"op": "replace", "path": "/data/a", "value": "2"}]
    patched = await cluster.patch(CONFIG_MAPS, "json", ops, namespace)
    assert patched["data"] == {"a": "2"}
    ops.insert(0, {"op": "test", "path": "/data/a", "value": "1"})
    await expect_refusal(Invalid, cluster.patch(CONFIG_MAPS, "json", ops, namespace), status=422)


@case
async def a_lease_is_never_replaced_blindly(cluster: Cluster, namespace: str) -> None:
    metadata = {"name": "blind", "namespace": namespace}
    lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": metadata, "spec": {}}
    created = await cluster.create(LEASES, lease)
    held = {"holderIdentity": "me", "renewTime": "2026-01-01T00:00:00.000000Z"}
    await expect_refusal(Invalid, cluster.replace(LEASES, {**lease, "spec": held}), status=422)
    assert (await cluster.replace(LEASES, {**created, "spec": held}))["spec"] == held


# ---- status


async def _widgets(cluster: Cluster) -> None:
    """The cases' own custom resource, served."""
    schema = {"type": "object", "properties": {"spec": _anything(), "status": _anything()}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": WIDGETS.group, "scope": "Namespaced", "names": names, "versions": [version]}
    crd = {"metadata": {"name": f"{WIDGETS.plural}.{WIDGETS.group}"}, "spec": spec}
    try:
        await cluster.create(CRDS, {"apiVersion": CRDS.api_version, "kind": CRDS.kind, **crd})
    except AlreadyExists:
        return
    async with asyncio.timeout(_PATIENCE):
        while True:
            try:
                await cluster.list(WIDGETS)
            except NotFound:
                await asyncio.sleep(0.1)
            else:
                return


def _anything() -> Json:
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def widget(namespace: str, name: str, **more: Any) -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": WIDGETS.api_version, "kind": WIDGETS.kind, "metadata": metadata, **more}


@case
async def status_is_written_by_its_subresource_only(cluster: Cluster, namespace: str) -> None:
    await _widgets(cluster)
    created = await cluster.create(WIDGETS, widget(namespace, "status", spec={"a": 1}, status={"no": True}))
    assert "status" not in created
    ignored = await cluster.patch(WIDGETS, "status", {"status": {"no": True}}, namespace)
    assert "status" not in ignored
    change = {"status": {"a": 1}, "spec": {"a": 2}, "metadata": {"labels": {"no": "no"}}}
    patched = await cluster.patch(WIDGETS, "status", change, namespace, subresource="status")
    assert (patched["spec"], patched["status"]) == ({"a": 1}, {"a": 1})
    replaced = await cluster.replace(WIDGETS, {**patched, "status": {"a": 2}}, subresource="status")
    assert replaced["status"] == {"a": 2}
    await expect_refusal(Conflict, cluster.replace(WIDGETS, patched, subresource="status"), status=409)
    kept = await cluster.replace(WIDGETS, {**replaced, "spec": {"a": 3}, "status": {}})
    assert (kept["spec"], kept["status"]) == ({"a": 3}, {"a": 2})


@case
async def generation_counts_changes_of_the_spec(cluster: Cluster, namespace: str) -> None:
    await _widgets(cluster)
    created = await cluster.create(WIDGETS, widget(namespace, "generation", spec={"a": 1}))

    async def after(change: Json, subresource: str = "") -> int:
        obj = await cluster.patch(WIDGETS, "generation", change, namespace, subresource=subresource)
        return cast("int", obj["metadata"]["generation"])

    assert created["metadata"]["generation"] == 1
    assert await after({"metadata": {"labels": {"a": "b"}}}) == 1
    assert await after({"status": {"a": 1}}, "status") == 1
    assert await after({"spec": {"a": 2}}) == 2
    assert await after({"spec": {"a": 2}}) == 2


@case
async def kinds_without_status_have_no_status_subresource(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "plain"))
    call = cluster.patch(CONFIG_MAPS, "plain", {"status": {}}, namespace, subresource="status")
    await expect_refusal(ApiError, call, status=404)


# ---- deleting


@case
async def a_deletion_may_insist_on_the_uid(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(CONFIG_MAPS, config_map(namespace, "uid"))
    other = "00000000-0000-4000-8000-000000000000"
    await expect_refusal(Conflict, cluster.delete(CONFIG_MAPS, "uid", namespace, uid=other), status=409)
    await cluster.delete(CONFIG_MAPS, "uid", namespace, uid=created["metadata"]["uid"])
    await expect_refusal(NotFound, cluster.get(CONFIG_MAPS, "uid", namespace))
    again = await cluster.create(CONFIG_MAPS, config_map(namespace, "uid"))
    assert again["metadata"]["uid"] != created["metadata"]["uid"]


@case
async def a_deletion_may_insist_on_the_version(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(CONFIG_MAPS, config_map(namespace, "version"))
    read = created["metadata"]["resourceVersion"]
    changed = await cluster.patch(CONFIG_MAPS, "version", {"data": {"a": "changed"}}, namespace)
    deletion = cluster.delete(CONFIG_MAPS, "version", namespace, resource_version=read)
    await expect_refusal(Conflict, deletion, status=409)
    newest = changed["metadata"]["resourceVersion"]
    await cluster.delete(CONFIG_MAPS, "version", namespace, resource_version=newest)
    await expect_refusal(NotFound, cluster.get(CONFIG_MAPS, "version", namespace))


@case
async def a_pod_on_a_node_stays_until_its_kubelet_confirms(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod(namespace, "graceful", "contract-node"))
    await cluster.delete(PODS, "graceful", namespace, grace_seconds=7)
    left = await cluster.get(PODS, "graceful", namespace)
    assert left["metadata"]["deletionTimestamp"]
    assert left["metadata"]["deletionGracePeriodSeconds"] == 7
    await cluster.delete(PODS, "graceful", namespace, grace_seconds=0, uid=left["metadata"]["uid"])
    await expect_refusal(NotFound, cluster.get(PODS, "graceful", namespace))


@case
async def a_pod_on_no_node_goes_at_once(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(PODS, pod(namespace, "waiting", None))
    assert created["status"]["phase"] == "Pending"
    await cluster.delete(PODS, "waiting", namespace)
    await expect_refusal(NotFound, cluster.get(PODS, "waiting", namespace))


# ---- watching


@asynccontextmanager
async def watching(
    cluster: Cluster, namespace: str, version: str, selector: str
) -> AsyncIterator[Callable[[], Awaitable[WatchEvent]]]:
    """The next event of a watch of ConfigMaps but for bookmarks."""
    events = cluster.watch(
        CONFIG_MAPS, namespace, resource_version=version, label_selector=selector, timeout_seconds=60
    )
    async with aclosing(cast("Any", events)):

        async def following() -> WatchEvent:
            async with asyncio.timeout(_PATIENCE):
                async for event in events:
                    if event.type != "BOOKMARK":
                        return event
            raise AssertionError("the watch ended")

        yield following


@case
async def a_watch_goes_on_where_a_list_was(cluster: Cluster, namespace: str) -> None:
    start = (await cluster.list(CONFIG_MAPS, namespace)).resource_version
    created = await cluster.create(CONFIG_MAPS, config_map(namespace, "watch", {"n": "0"}, case="watch"))
    async with watching(cluster, namespace, start, "case=watch") as following:
        added = await following()
        assert (added.type, added.object) == ("ADDED", created)
        changed = await cluster.patch(CONFIG_MAPS, "watch", {"data": {"n": "1"}}, namespace)
        modified = await following()
        assert (modified.type, modified.object) == ("MODIFIED", changed)
        await cluster.delete(CONFIG_MAPS, "watch", namespace)
        deleted = await following()
        assert (deleted.type, deleted.object["data"]) == ("DELETED", {"n": "1"})
        assert read_version(deleted.object) not in (read_version(changed), read_version(created))
    async with watching(cluster, namespace, read_version(created), "case=watch") as following:
        assert [(await following()).type for _ in range(2)] == ["MODIFIED", "DELETED"]


@case
async def a_watch_sees_objects_come_into_its_selection_and_leave(cluster: Cluster, namespace: str) -> None:
    start = (await cluster.list(CONFIG_MAPS, namespace)).resource_version
    await cluster.create(CONFIG_MAPS, config_map(namespace, "moving"))
    async with watching(cluster, namespace, start, "here=yes") as following:
        for value in ("yes", "no", "yes"):
            await cluster.patch(CONFIG_MAPS, "moving", {"metadata": {"labels": {"here": value}}}, namespace)
        types = [(await following()).type for _ in range(3)]
        assert types == ["ADDED", "DELETED", "ADDED"]


@case
async def a_watch_from_no_version_begins_with_what_is(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "existing", case="initial"))
    async with watching(cluster, namespace, "0", "case=initial") as following:
        event = await following()
        assert (event.type, event.object["metadata"]["name"]) == ("ADDED", "existing")


@case
async def a_watch_ends_in_time(cluster: Cluster, namespace: str) -> None:
    start = (await cluster.list(CONFIG_MAPS, namespace)).resource_version
    async with asyncio.timeout(_PATIENCE):
        events = cluster.watch(
            CONFIG_MAPS, namespace, resource_version=start, label_selector="case=none", timeout_seconds=1
        )
        assert {event.type async for event in events} <= {"BOOKMARK"}


@case
async def namespaces_are_apart(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "apart", case="apart"))
    elsewhere = await cluster.list(CONFIG_MAPS, "kube-system", label_selector="case=apart")
    assert elsewhere.items == []
    everywhere = await cluster.list(CONFIG_MAPS, label_selector="case=apart")
    assert [obj["metadata"]["namespace"] for obj in everywhere.items] == [namespace]
