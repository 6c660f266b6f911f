"""The operator's caches: one informer per kind, children selected by label and indexed by their owner."""

import asyncio
from collections.abc import Iterable, Mapping
from random import Random
from typing import Protocol

from steelyard.operator.edge import Key
from steelyard.operator.names import ENTITY, OWNER
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training.observed.caches import JOB_INDEXES, TrainingCaches, slim_job
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.informer import Change, Informer, drop_managed_fields
from steelyard_kube.objects import read_labels, read_status
from steelyard_kube.resource import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    INFERENCE_SESSIONS,
    JOBS,
    PODS,
    SERVICES,
    TRAINING,
    Resource,
    find_resource,
)

CHILDREN = (CONFIG_MAPS, DEPLOYMENTS, JOBS, SERVICES)
_TRAINING = frozenset(TRAINING)
BY_OWNER = "owner"
BY_STATE = "state"


class Watcher(Protocol):
    """Receiver of changes in the caches."""

    def note_change(self, key: Key) -> None:
        """Take note that a resource or a child of it has changed."""
        ...

    def replica_changed(self, key: Key, replicas: int) -> None:
        """Take note that a child of a training job has changed; `replicas` is about how many it has."""
        ...

    def pod_changed(self, key: Key, old: Json | None, new: Json) -> None:
        """Take note that a Pod of a training job has changed."""
        ...


class InformerCaches:
    """All objects of the cluster that the operator reads."""

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
        self._resources = {kind: self._resource_informer(cluster, kind, namespace) for kind in resources}
        self._children = {kind: self._child_informer(cluster, kind, namespace) for kind in (*CHILDREN, PODS)}
        self._training = TrainingCaches(cluster, self._resources, settings, self._owners, watcher)

    def _resource_informer(self, cluster: Cluster, kind: Resource, namespace: str | None) -> Informer:
        training = kind in _TRAINING
        return Informer(
            cluster,
            kind,
            namespace=namespace,
            indexes={BY_OWNER: _owner, BY_STATE: _state, **(JOB_INDEXES if training else {})},
            transform=slim_job if training else drop_managed_fields,
            on_change=self._resource_changed(kind),
            # A cluster may lack some of the kinds: the operator serves those whose definitions are installed.
            optional=True,
            # Tens of thousands of jobs are kept; evaluations and the like are few.
            packed=training,
        )

    def _child_informer(self, cluster: Cluster, kind: Resource, namespace: str | None) -> Informer:
        return Informer(
            cluster,
            kind,
            namespace=namespace,
            # Only the platform's own children: a cluster may have far more Jobs and Pods of others.
            label_selector=ENTITY,
            indexes={BY_OWNER: _owner},
            transform=slim,
            on_change=self._child_changed,
        )

    def _informers(self) -> Iterable[Informer]:
        yield from self._resources.values()
        yield from self._children.values()
        yield from self._training.informers()

    def draw_from(self, rng: Random) -> None:
        """Draw the pauses before retries, and the lengths of watches, from `rng`."""
        for informer in self._informers():
            informer.rng = rng

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers():
                tasks.create_task(informer.run())

    def troubles(self) -> list[str]:
        """Return the reasons for which kinds cannot be followed at the moment, such as a right that is missing."""
        return [informer.trouble for informer in self._informers() if informer.trouble]

    async def wait_until_synced(self) -> None:
        for informer in self._informers():
            # A reconciliation with half a cache would create what is there already.
            await informer.synced.wait()

    # ---- objects that the edge reads

    def resource(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self._resources[resource].get(namespace, name)

    def state_counts(self) -> Mapping[tuple[str, str], int]:
        """Count the resources by kind and state."""
        return {
            (resource.kind, state): count
            for resource, informer in self._resources.items()
            for state, count in informer.counts(BY_STATE).items()
        }

    def children(self, resource: Json) -> tuple[list[Json], list[Json]]:
        uid = resource["metadata"]["uid"]
        informers = [*(self._children[kind] for kind in CHILDREN), self._resources[INFERENCE_SESSIONS]]
        objects = [obj for informer in informers for obj in informer.by_index(BY_OWNER, uid)]
        pods = self._children[PODS].by_index(BY_OWNER, uid)
        if find_resource(resource) in _TRAINING:
            more_objects, more_pods = self._training.children(resource)
            return objects + more_objects, pods + more_pods
        return objects, pods

    def settings(self) -> OperatorSettings:
        return self._training.settings()

    def apply_write(self, obj: Json) -> bool:
        """Show a write of a training job or its children at once, because it may have thousands of them.

        All other kinds wait for the watch.
        """
        kind = find_resource(obj)
        if kind in _TRAINING:
            return self._resources[kind].apply_write(obj)
        return kind not in self._resources and self._training.apply_write(kind, obj)

    # ---- changes

    def _resource_changed(self, resource: Resource) -> Change:
        def note_change(old: Json | None, new: Json | None) -> None:
            metadata = (new or old or {})["metadata"]
            key = Key(resource, metadata["namespace"], metadata["name"])
            if new is None:
                # By uid, not by name: a resource that was created again is another owner.
                self._owners.pop(metadata["uid"], None)
            else:
                self._owners[metadata["uid"]] = key
            self._watcher.note_change(key)
            self._child_changed(old, new)  # a session is a child too, of its evaluation

        return note_change

    def _child_changed(self, old: Json | None, new: Json | None) -> None:
        for uid in {*_owner(old or {}), *_owner(new or {})}:
            # The owner may not be in the cache yet; its own arrival wakes it then.
            if uid in self._owners:
                self._watcher.note_change(self._owners[uid])


def _owner(obj: Json) -> Iterable[str]:
    uid = read_labels(obj).get(OWNER) if obj else None
    return (uid,) if uid else ()


def _state(obj: Json) -> Iterable[str]:
    """Return the state of a resource in one word: its status word, or a training job's last condition."""
    status = read_status(obj)
    if "status" in status or "conditions" not in status:
        return (str(status.get("status") or "Created"),)
    return (str(status["conditions"][-1]["type"]) if status["conditions"] else "Created",)


def slim(obj: Json) -> Json:
    """Remove from a child what no decision reads: thousands of children are kept in memory."""
    obj["metadata"].pop("managedFields", None)
    obj["metadata"].pop("annotations", None)
    obj.pop("spec", None)
    # The operator writes ConfigMaps and never reads them.
    obj.pop("data", None)
    return obj
