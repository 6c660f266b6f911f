"""The custom resources of entities, as Kubernetes showed them last: the orchestrator compares its claims with them."""

import asyncio
from collections.abc import Callable, Iterable

from steelyard.services.informer.status import entity_of
from steelyard.services.informer.status import slim as slim_resource
from steelyard.services.orchestrator.manifest import ENTITY
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.informer import Informer
from steelyard_kube.objects import conditions_of
from steelyard_kube.resource import DYFF

OnChange = Callable[[str, Json | None], None]
"""Receives an entity's id and, when its resource has gone, that resource."""


class ResourceCache:
    """The resources that carry the entity label. Objects are shared: read them, never change them."""

    def __init__(self, cluster: Cluster, on_change: OnChange) -> None:
        self._notify = on_change
        self._informers = {
            kind.kind: Informer(
                cluster,
                kind,
                label_selector=ENTITY,
                indexes={ENTITY: _entities},
                transform=slim,
                on_change=self._on_change,
            )
            for kind in DYFF
        }

    async def run(self) -> None:
        """Follow Kubernetes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())

    async def synced(self) -> None:
        """Wait until every kind was listed once."""
        for informer in self._informers.values():
            await informer.synced.wait()

    def resources_of(self, id: str) -> list[Json]:
        """Return the entity's resources: one or none; several if a user made more by hand."""
        return [
            resource for informer in self._informers.values() for resource in informer.by_index(ENTITY, id)
        ]

    def entities(self) -> Iterable[str]:
        """Return the ids of entities that have a resource."""
        return {
            id
            for informer in self._informers.values()
            for resource in informer.items()
            for id in _entities(resource)
        }

    def _on_change(self, old: Json | None, new: Json | None) -> None:
        # The operator writes statuses all the time; of these only the end concerns the orchestrator.
        if old and new and (_identity(old), is_finished(old)) == (_identity(new), is_finished(new)):
            return
        for id in {*_entities(old), *_entities(new)}:
            self._notify(id, old if new is None else None)


def _identity(resource: Json) -> tuple[str, str | None]:
    return resource["metadata"]["uid"], resource["metadata"]["deletionTimestamp"]


def slim(resource: Json) -> Json:
    """Return the parts that the informer keeps, and whether the resource is being deleted."""
    deleting = resource["metadata"].get("deletionTimestamp")
    slimmed = slim_resource(resource)
    return {**slimmed, "metadata": {**slimmed["metadata"], "deletionTimestamp": deleting}}


def is_finished(resource: Json) -> bool:
    """Return whether the resource's workflow has ended, well or badly."""
    conditions = conditions_of(resource)
    return any(condition["type"] == "Finished" and condition["status"] == "True" for condition in conditions)


def _entities(resource: Json | None) -> Iterable[str]:
    id = entity_of(resource) if resource else None
    return (id,) if id else ()
