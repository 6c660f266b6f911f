"""An object that was made again under the name of one that is to be deleted stays: deletes name the uid."""

import ast
import asyncio
from collections.abc import Awaitable, Callable

import pytest

from steelyard_common.types import Json
from steelyard_kube.resource import CONFIG_MAPS, PODS, Resource, find_resource
from tests.exploration.virtual_time import run
from tests.refusals import test_embedded, test_garbage, test_operator
from tests.refusals.refusing import NAMESPACE, RefusingCluster
from tests.refusals.test_writers import PARTS
from tests.source import place, short_name


def put_namesakes(cluster: RefusingCluster, kind: Resource) -> None:
    """Let another client replace each object of a kind by a namesake, just before it is deleted."""
    count = cluster.before_call
    assert count is not None
    replaced: set[str] = set()

    def hook(verb: str, resource: Resource, name: str) -> None:
        count(verb, resource, name)
        if verb != "delete" or resource != kind or name in replaced:
            return
        replaced.add(name)
        stored = cluster.store.find(resource, name, NAMESPACE)
        assert stored is not None
        cluster.store.remove(resource, name, NAMESPACE)
        metadata = {"name": name, "namespace": NAMESPACE, "labels": {"made-by": "a user"}}
        cluster.store.create(resource, {**stored, "metadata": metadata})

    cluster.before_call = hook


def of_users(cluster: RefusingCluster, kind: Resource) -> list[Json]:
    return [
        obj
        for obj in cluster.store.objects(kind)
        if (obj["metadata"].get("labels") or {}).get("made-by")
        and not obj["metadata"].get("deletionTimestamp")
    ]


def scaled_down(owner: Json, cluster: RefusingCluster) -> Callable[[], Awaitable[None]]:
    """Return what makes an owner delete its children, some seconds after they were made."""

    async def scale() -> None:
        await asyncio.sleep(5.0)
        resource, name = find_resource(owner), owner["metadata"]["name"]
        stored = cluster.store.find(resource, name, NAMESPACE)
        assert stored is not None
        policy = {"runPolicy": {"suspend": True}} if "runPolicy" in stored["spec"] else {}
        spec = {**stored["spec"], "replicas": 0, "suspend": True, **policy}
        cluster.store.put({**stored, "spec": spec})

    return scale


EMBEDDED = [
    kind for kind in test_embedded.OWNERS if kind.kind in {"Job", "ReplicaSet", "StatefulSet", "RayCluster"}
]
OPERATOR = [kind for kind in test_operator.OWNERS if kind.kind.endswith("Job") and kind.kind != "DLJob"]


@pytest.mark.parametrize("resource", [*EMBEDDED, *OPERATOR], ids=lambda resource: resource.kind)
def test_a_controller_deletes_no_namesake_of_a_pod(resource: Resource) -> None:
    module = test_embedded if resource in EMBEDDED else test_operator
    owner = module.OWNERS[resource]()

    async def case() -> RefusingCluster:
        cluster = RefusingCluster("a quota", lambda attempt: False)
        put_namesakes(cluster, PODS)
        scaling = asyncio.ensure_future(scaled_down(owner, cluster)())
        await module.live(cluster, owner, 30.0)
        await scaling
        return cluster

    cluster = run(case())
    assert any((attempt.verb, attempt.resource) == ("delete", PODS) for attempt in cluster.tried)
    assert of_users(cluster, PODS)


def test_the_garbage_collector_deletes_no_namesake() -> None:
    async def case() -> RefusingCluster:
        cluster = test_garbage.ServingCluster("a quota", lambda attempt: False)
        put_namesakes(cluster, CONFIG_MAPS)
        await test_garbage.collect(cluster, 10.0)
        return cluster

    assert len(of_users(run(case()), CONFIG_MAPS)) == 2


def test_each_delete_names_the_object_that_is_meant() -> None:
    """Every delete of a controller, in any module, gives a uid as its precondition."""
    calls = [
        (f"{short_name(path)}:{node.lineno}", {keyword.arg for keyword in node.keywords})
        for part in PARTS
        for path in place(part).rglob("*.py")
        if not path.name.startswith(("test_", "conftest")) and "simulation" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "delete"
        and ast.unparse(node.func.value).rpartition(".")[2].lstrip("_") == "cluster"
    ]
    assert len(calls) >= 8
    assert [where for where, keywords in calls if "uid" not in keywords] == []
