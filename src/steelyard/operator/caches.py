"""The operator's caches: one informer per kind, children selected by label and indexed by their owner."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from steelyard.kube.cluster import Cluster
from steelyard.kube.informer import Informer
from steelyard.kube.resource import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    INFERENCE_SESSIONS,
    JOBS,
    PODS,
    SERVICES,
    Resource,
)
from steelyard.operator.names import ENTITY, OWNER

Json = dict[str, Any]

CHILDREN = (CONFIG_MAPS, DEPLOYMENTS, JOBS, SERVICES)
BY_OWNER = "owner"


class InformerCaches:
    """`changed(resource, object)` is told of every resource, `owner_changed(uid)` of every child of one."""

    def __init__(
        self,
        cluster: Cluster,
        resources: Iterable[Resource],
        namespace: str | None,
        changed: Callable[[Resource, Json], None],
    ) -> None:
        self._changed = changed
        self._owners: dict[str, tuple[Resource, Json]] = {}
        self._resources = {
            each: Informer(
                cluster,
                each,
                namespace=namespace,
                indexes={BY_OWNER: _owner},
                on_change=self._resource_changed(each),
            )
            for each in resources
        }
        self._children = {
            each: Informer(
                cluster,
                each,
                namespace=namespace,
                label_selector=ENTITY,
                indexes={BY_OWNER: _owner},
                transform=slim,
                on_change=self._child_changed,
            )
            for each in (*CHILDREN, PODS)
        }

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in (*self._resources.values(), *self._children.values()):
                tasks.create_task(informer.run())

    async def synced(self) -> None:
        for informer in (*self._resources.values(), *self._children.values()):
            await informer.synced.wait()

    def resource(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self._resources[resource].get(namespace, name)

    def resources(self) -> Iterable[Json]:
        return (obj for informer in self._resources.values() for obj in informer.items())

    def children(self, uid: str) -> tuple[list[Json], list[Json]]:
        informers = [*(self._children[kind] for kind in CHILDREN), self._resources[INFERENCE_SESSIONS]]
        objects = [obj for informer in informers for obj in informer.by_index(BY_OWNER, uid)]
        return objects, self._children[PODS].by_index(BY_OWNER, uid)

    def _resource_changed(self, resource: Resource) -> Callable[[Json | None, Json | None], None]:
        def told(old: Json | None, new: Json | None) -> None:
            obj = new or old
            assert obj is not None
            if new is None:
                self._owners.pop(obj["metadata"]["uid"], None)
            else:
                self._owners[obj["metadata"]["uid"]] = (resource, new)
            self._changed(resource, obj)
            self._child_changed(old, new)  # a session is a child too, of its evaluation

        return told

    def _child_changed(self, old: Json | None, new: Json | None) -> None:
        for uid in {*_owner(old or {}), *_owner(new or {})}:
            if uid in self._owners:
                self._changed(*self._owners[uid])


def _owner(obj: Json) -> Iterable[str]:
    uid = (obj.get("metadata", {}).get("labels") or {}).get(OWNER)
    return (uid,) if uid else ()


def slim(obj: Json) -> Json:
    """Children without what no decision reads: thousands of them are kept."""
    obj["metadata"].pop("managedFields", None)
    obj["metadata"].pop("annotations", None)
    obj.pop("spec", None)
    obj.pop("data", None)
    return obj
