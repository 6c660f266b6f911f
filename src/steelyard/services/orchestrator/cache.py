"""The custom resources of entities, as Kubernetes showed them last: the orchestrator compares its claims with them."""

import asyncio
from collections.abc import Callable, Iterable

from steelyard.accounts.claims import Claim
from steelyard.services.informer.status import entity_id
from steelyard.services.informer.status import slim as slim_resource
from steelyard.services.orchestrator.manifest import ENTITY
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.informer import Informer
from steelyard_kube.objects import read_conditions
from steelyard_kube.resource import DYFF
from steelyard_schema.names import account_namespace

OnChange = Callable[[str, Json, bool], None]
"""Receives an entity's id, a resource that claims to be the entity's, and whether it has gone."""


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

    async def wait_until_listed(self) -> None:
        """Wait until every kind was listed once."""
        for informer in self._informers.values():
            await informer.synced.wait()

    def find_resources(self, id: str) -> list[Json]:
        """Return the entity's resources: one or none; several if a user made more by hand."""
        return [
            resource for informer in self._informers.values() for resource in informer.by_index(ENTITY, id)
        ]

    def find_own(self, claim: Claim) -> list[Json]:
        """Return the resource of a claim's entity: only in the namespace of its account does one speak for it."""
        own = account_namespace(claim.account)
        resources = self.find_resources(claim.id)
        return [resource for resource in resources if resource["metadata"]["namespace"] == own]

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
        resource = new or old
        assert resource
        for id in {*_entities(old), *_entities(new)}:
            self._notify(id, resource, new is None)


def _identity(resource: Json) -> tuple[str, str | None]:
    return resource["metadata"]["uid"], resource["metadata"]["deletionTimestamp"]


def slim(resource: Json) -> Json:
    """Return the parts that the informer keeps, and whether the resource is being deleted."""
    deleting = resource["metadata"].get("deletionTimestamp")
    slimmed = slim_resource(resource)
    return {**slimmed, "metadata": {**slimmed["metadata"], "deletionTimestamp": deleting}}


def is_finished(resource: Json) -> bool:
    """Return whether the resource's workflow has ended, well or badly."""
    conditions = read_conditions(resource)
    return any(condition["type"] == "Finished" and condition["status"] == "True" for condition in conditions)


def _entities(resource: Json | None) -> Iterable[str]:
    id = entity_id(resource) if resource else None
    return (id,) if id else ()
