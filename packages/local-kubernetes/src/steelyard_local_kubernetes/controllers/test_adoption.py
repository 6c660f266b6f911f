"""Children that a controller adopts and releases, also where its cache is stale."""

from typing import Any

from steelyard_common.types import Json
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.objects import controller_uid, read_labels
from steelyard_kube.resource import PODS, REPLICA_SETS
from steelyard_local_kubernetes.controllers.adoption import orphan_keys, selector_key
from steelyard_local_kubernetes.controllers.edge import Edge
from steelyard_local_kubernetes.controllers.kinds import REPLICA_SET
from steelyard_local_kubernetes.controllers.objects import StoreView, edge, make_deployment, make_pod
from steelyard_local_kubernetes.controllers.sync import sync

KEY = ("default", "demo")


def make_replica_set(**spec: Any) -> Json:
    return {**make_deployment(replicas=1, **spec), "kind": "ReplicaSet"}


def pod_of(cluster: MemoryCluster, name: str) -> Json:
    pod = cluster.store.find(PODS, name, "default")
    assert pod is not None
    return pod


async def test_an_owner_that_is_being_deleted_adopts_nothing_whatever_the_cache_shows() -> None:
    """Dependents of such an owner are perhaps being orphaned: they would go with it after all."""
    cluster = MemoryCluster()
    owner = cluster.store.put(make_replica_set())
    cluster.store.put(make_pod("orphan"))
    view = StoreView(cluster)
    view.freeze(REPLICA_SETS)
    cluster.store.put(
        {**owner, "metadata": {**owner["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    )
    await sync(Edge(cluster, view, cluster.store.now), REPLICA_SET, KEY)
    assert controller_uid(pod_of(cluster, "orphan")) is None


async def test_a_pod_changed_meanwhile_is_left_to_the_next_sync() -> None:
    cluster = MemoryCluster()
    cluster.store.put(make_replica_set())
    pod = cluster.store.put(make_pod("orphan"))
    view = StoreView(cluster)
    view.freeze(PODS)
    cluster.store.put({**pod, "metadata": {**pod["metadata"], "labels": {"app": "other"}}})
    await sync(Edge(cluster, view, cluster.store.now), REPLICA_SET, KEY)
    assert controller_uid(pod_of(cluster, "orphan")) is None


async def test_released_pods_keep_their_other_owners() -> None:
    cluster = MemoryCluster()
    owner = cluster.store.put(make_replica_set())
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "uid-x"}
    mine = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "demo",
        "uid": owner["metadata"]["uid"], "controller": True,
    }  # fmt: skip
    pod = make_pod("stray", labels={"app": "other"})
    cluster.store.put({**pod, "metadata": {**pod["metadata"], "ownerReferences": [other, mine]}})
    await sync(edge(cluster), REPLICA_SET, KEY)
    stray = pod_of(cluster, "stray")
    assert stray["metadata"]["ownerReferences"] == [other]
    assert read_labels(stray) == {"app": "other"}


def test_an_owner_is_found_by_the_labels_of_each_object_that_it_selects() -> None:
    expression = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    for selector in ({"matchLabels": {"b": "2", "app": "demo"}}, expression):
        owner = make_replica_set(selector=selector)
        (key,) = selector_key(owner)
        assert key in orphan_keys(make_pod("p", labels={"app": "demo", "b": "2", "c": "3"}))
