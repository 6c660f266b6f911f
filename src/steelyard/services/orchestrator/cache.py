"""The custom resources of entities, as the API told last: what the orchestrator compares its claims with."""

import asyncio
from collections.abc import Callable, Iterable

from steelyard.kube.cluster import Cluster
from steelyard.kube.informer import Informer
from steelyard.kube.resource import DYFF
from steelyard.services.informer.run import entity_of
from steelyard.services.informer.run import slim as slim_resource
from steelyard.services.orchestrator.manifest import ENTITY
from steelyard.types import Json

Changed = Callable[[str, Json | None], None]
"""Told an entity's id, and its resource where that has gone."""


class ResourceCache:
    """Objects that it returns are shared: read them, never change them. Resources without the label are not seen."""

    def __init__(self, cluster: Cluster, changed: Changed) -> None:
        self._changed = changed
        self._informers = {
            each.kind: Informer(
                cluster,
                each,
                label_selector=ENTITY,
                indexes={ENTITY: _entities},
                transform=slim,
                on_change=self._see,
            )
            for each in DYFF
        }

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())

    async def synced(self) -> None:
        for informer in self._informers.values():
            await informer.synced.wait()

    def of(self, id: str) -> list[Json]:
        """The entity's resources: one, or none; more where somebody made some."""
        return [obj for each in self._informers.values() for obj in each.by_index(ENTITY, id)]

    def entities(self) -> Iterable[str]:
        """Whose resources there are."""
        return {id for each in self._informers.values() for obj in each.items() for id in _entities(obj)}

    def _see(self, old: Json | None, new: Json | None) -> None:
        """Of what the operator writes only the end is news."""
        if old and new and (_life(old), finished(old)) == (_life(new), finished(new)):
            return
        for id in {*_entities(old), *_entities(new)}:
            self._changed(id, old if new is None else None)


def _life(obj: Json) -> tuple[str, str | None]:
    return obj["metadata"]["uid"], obj["metadata"]["deletionTimestamp"]


def slim(obj: Json) -> Json:
    """The informer's, and whether it is being deleted."""
    deleting = obj["metadata"].get("deletionTimestamp")
    slimmed = slim_resource(obj)
    return {**slimmed, "metadata": {**slimmed["metadata"], "deletionTimestamp": deleting}}


def finished(resource: Json) -> bool:
    """Whether its workflow has ended, well or badly."""
    conditions = (resource.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Finished" and each["status"] == "True" for each in conditions)


def _entities(obj: Json | None) -> Iterable[str]:
    id = entity_of(obj) if obj else None
    return (id,) if id else ()
