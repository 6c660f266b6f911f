"""The operator's caches: one informer per kind, children selected by label and indexed by their owner."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Protocol

from steelyard.kube.cluster import Cluster
from steelyard.kube.informer import Change, Informer, drop_managed_fields
from steelyard.kube.resource import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    INFERENCE_SESSIONS,
    JOBS,
    PODS,
    SERVICES,
    TRAINING,
    Resource,
    resource_of,
)
from steelyard.operator.edge import Key
from steelyard.operator.names import ENTITY, OWNER
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training.observed.caches import JOB_INDEXES, TrainingCaches, slim_job
from steelyard.types import Json

CHILDREN = (CONFIG_MAPS, DEPLOYMENTS, JOBS, SERVICES)
_TRAINING = frozenset(TRAINING)
BY_OWNER = "owner"
BY_STANDING = "standing"


class Watcher(Protocol):
    """Who is told of changes."""

    def changed(self, key: Key) -> None:
        """A resource has changed, or a child of one."""
        ...

    def replica_changed(self, key: Key, replicas: int) -> None:
        """A child of a training job, which has about so many."""
        ...

    def pod_changed(self, key: Key, old: Json | None, new: Json) -> None:
        """A Pod of a training job."""
        ...


class InformerCaches:
    """All that the operator sees of the cluster."""

    def __init__(
        self,
        cluster: Cluster,
        resources: Iterable[Resource],
        settings: OperatorSettings,
        watcher: Watcher,
    ) -> None:
        self._watcher = watcher
        self._owners: dict[str, Key] = {}
        namespace = settings.namespace
        self._resources = {each: self._of_resources(cluster, each, namespace) for each in resources}
        self._children = {each: self._of_children(cluster, each, namespace) for each in (*CHILDREN, PODS)}
        self._training = TrainingCaches(cluster, self._resources, settings, self._owners, watcher)

    def _of_resources(self, cluster: Cluster, kind: Resource, namespace: str | None) -> Informer:
        training = kind in _TRAINING
        return Informer(
            cluster,
            kind,
            namespace=namespace,
            indexes={BY_OWNER: _owner, BY_STANDING: _standing, **(JOB_INDEXES if training else {})},
            transform=slim_job if training else drop_managed_fields,
            on_change=self._resource_changed(kind),
            optional=True,
            packed=training,
        )

    def _of_children(self, cluster: Cluster, kind: Resource, namespace: str | None) -> Informer:
        return Informer(
            cluster,
            kind,
            namespace=namespace,
            label_selector=ENTITY,
            indexes={BY_OWNER: _owner},
            transform=slim,
            on_change=self._child_changed,
        )

    def _informers(self) -> Iterable[Informer]:
        yield from self._resources.values()
        yield from self._children.values()
        yield from self._training.informers()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers():
                tasks.create_task(informer.run())

    async def synced(self) -> None:
        for informer in self._informers():
            await informer.synced.wait()

    # ---- what the edge reads

    def resource(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self._resources[resource].get(namespace, name)

    def standings(self) -> Mapping[tuple[str, str], int]:
        """How many resources there are, by kind and by where they stand."""
        return {
            (resource.kind, standing): count
            for resource, informer in self._resources.items()
            for standing, count in informer.counts(BY_STANDING).items()
        }

    def children(self, resource: Json) -> tuple[list[Json], list[Json]]:
        uid = resource["metadata"]["uid"]
        informers = [*(self._children[kind] for kind in CHILDREN), self._resources[INFERENCE_SESSIONS]]
        objects = [obj for informer in informers for obj in informer.by_index(BY_OWNER, uid)]
        pods = self._children[PODS].by_index(BY_OWNER, uid)
        if resource_of(resource) in _TRAINING:
            more_objects, more_pods = self._training.children(resource)
            return objects + more_objects, pods + more_pods
        return objects, pods

    def settings(self) -> OperatorSettings:
        return self._training.settings()

    def wrote(self, obj: Json) -> bool:
        """Of training jobs, which are many and have many children; the others wait for the watch."""
        kind = resource_of(obj)
        if kind in _TRAINING:
            return self._resources[kind].wrote(obj)
        return kind not in self._resources and self._training.wrote(kind, obj)

    # ---- what changes

    def _resource_changed(self, resource: Resource) -> Change:
        def told(old: Json | None, new: Json | None) -> None:
            metadata = (new or old or {})["metadata"]
            key = Key(resource, metadata["namespace"], metadata["name"])
            if new is None:
                self._owners.pop(metadata["uid"], None)
            else:
                self._owners[metadata["uid"]] = key
            self._watcher.changed(key)
            self._child_changed(old, new)  # a session is a child too, of its evaluation

        return told

    def _child_changed(self, old: Json | None, new: Json | None) -> None:
        for uid in {*_owner(old or {}), *_owner(new or {})}:
            if uid in self._owners:
                self._watcher.changed(self._owners[uid])


def _owner(obj: Json) -> Iterable[str]:
    uid = (obj.get("metadata", {}).get("labels") or {}).get(OWNER)
    return (uid,) if uid else ()


def _standing(obj: Json) -> Iterable[str]:
    """In one word; of a training job its last condition."""
    status = obj.get("status") or {}
    if "status" in status or "conditions" not in status:
        return (str(status.get("status") or "Created"),)
    return (str(status["conditions"][-1]["type"]) if status["conditions"] else "Created",)


def slim(obj: Json) -> Json:
    """Children without what no decision reads: thousands of them are kept."""
    obj["metadata"].pop("managedFields", None)
    obj["metadata"].pop("annotations", None)
    obj.pop("spec", None)
    obj.pop("data", None)
    return obj
