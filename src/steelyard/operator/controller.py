"""The one edge: reads caches, asks a pure `reconcile` what should be, and makes it so through the API.

Every event of a resource or of its children leads to the same `sync`; nothing here depends on which it was.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from steelyard.kube.cluster import Cluster
from steelyard.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from steelyard.kube.resource import (
    AUDITS,
    EVALUATIONS,
    INFERENCE_SERVICES,
    INFERENCE_SESSIONS,
    MODELS,
    REPORTS,
    Resource,
    resource_of,
)
from steelyard.operator.children import Children, observe
from steelyard.operator.conditions import failed, memory_of, status_of
from steelyard.operator.desired import Desired
from steelyard.operator.names import controller_of
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflows import (
    audit,
    evaluation,
    inference_service,
    inference_session,
    model,
    report,
)

Json = dict[str, Any]
Reconcile = Callable[[Json, Children, datetime, OperatorSettings], Desired]

WORKFLOWS: Mapping[Resource, Reconcile] = {
    AUDITS: audit.reconcile,
    EVALUATIONS: evaluation.reconcile,
    INFERENCE_SERVICES: inference_service.reconcile,
    INFERENCE_SESSIONS: inference_session.reconcile,
    MODELS: model.reconcile,
    REPORTS: report.reconcile,
}

_log = logging.getLogger(__name__)


class Stale(Exception):
    """The cache was behind the API: look again later. Nothing was lost, the decision is made anew."""


class NameTaken(Exception):
    """A child's name belongs to something that is not the resource's."""


class Caches(Protocol):
    """What the edge reads. It may lag behind the API."""

    def resource(self, resource: Resource, namespace: str, name: str) -> Json | None: ...

    def children(self, uid: str) -> tuple[list[Json], list[Json]]:
        """The objects and the Pods that carry the owner's uid."""
        ...


@dataclass(frozen=True)
class Key:
    """One resource to look at."""

    resource: Resource
    namespace: str
    name: str


@dataclass(frozen=True)
class Synced:
    """What a sync did: when to look again, and the change of status, if there was one."""

    next_look: datetime | None = None
    before: Json | None = None
    after: Json | None = None


class Controller:
    """`sync` is the whole edge. It may be interrupted between any two calls, and repeated at any time."""

    def __init__(self, cluster: Cluster, caches: Caches, settings: OperatorSettings) -> None:
        self._cluster = cluster
        self._caches = caches
        self._settings = settings

    async def sync(self, key: Key, now: datetime) -> Synced:
        """Bring one resource nearer to what it should be. Raises Stale or ApiError: try again later."""
        resource = self._caches.resource(key.resource, key.namespace, key.name)
        if resource is None or resource["metadata"].get("deletionTimestamp"):
            return Synced()
        objects, pods = self._caches.children(resource["metadata"]["uid"])
        want = WORKFLOWS[key.resource](resource, observe(resource, objects, pods), now, self._settings)
        try:
            await self._carry_out(resource, want)
            status = want.status
        except NameTaken as taken:
            status = status_of(resource, failed("NameConflict", str(taken)), memory_of(resource), now)
        changed = await self._write_status(key.resource, resource, status)
        if want.delete_resource:
            await self._delete(resource)
        return Synced(
            want.next_look, resource.get("status") if changed else None, status if changed else None
        )

    async def _carry_out(self, resource: Json, want: Desired) -> None:
        for kind, name in want.absent:
            await self._require_absent(resource, kind, name)
        for child in want.create:
            await self._create(resource, child)
        for child in want.delete:
            await self._delete(child)

    async def _create(self, resource: Json, child: Json) -> None:
        """Create once. What is there already is fine if it is ours; our predecessor's will be collected."""
        kind, name = child["kind"], child["metadata"]["name"]
        if self._known(resource, child):
            return
        try:
            await self._cluster.create(resource_of(child), child)
            return
        except AlreadyExists:
            there = await self._get(child)
        owner = (controller_of(there) or {}) if there else None
        if owner is None or (there and there["metadata"].get("deletionTimestamp")):
            raise Stale(f"{kind} {name} is going away")
        if owner.get("uid") == resource["metadata"]["uid"]:
            return
        if (owner.get("kind"), owner.get("name")) == (resource["kind"], resource["metadata"]["name"]):
            raise Stale(f"{kind} {name} is a predecessor's, and will be collected")
        raise NameTaken(f"{kind} {name} exists and belongs to {_described(owner)}")

    def _known(self, resource: Json, child: Json) -> bool:
        """Whether the cache has it already: saves a call for every look at a resource that runs."""
        objects, _ = self._caches.children(resource["metadata"]["uid"])
        return any(
            each["kind"] == child["kind"]
            and each["metadata"]["name"] == child["metadata"]["name"]
            and (controller_of(each) or {}).get("uid") == resource["metadata"]["uid"]
            and not each["metadata"].get("deletionTimestamp")
            for each in objects
        )

    async def _require_absent(self, resource: Json, kind: str, name: str) -> None:
        there = await self._get(
            {
                "apiVersion": "batch/v1" if kind == "Job" else resource["apiVersion"],
                "kind": kind,
                "metadata": {"name": name, "namespace": resource["metadata"]["namespace"]},
            }
        )
        if there and (controller_of(there) or {}).get("uid") == resource["metadata"]["uid"]:
            raise Stale(f"{kind} {name} is still there")

    async def _get(self, child: Json) -> Json | None:
        metadata = child["metadata"]
        try:
            return await self._cluster.get(resource_of(child), metadata["name"], metadata["namespace"])
        except NotFound:
            return None

    async def _delete(self, child: Json) -> None:
        """With its uid as precondition: what was made again under the name is another one's."""
        metadata = child["metadata"]
        try:
            await self._cluster.delete(
                resource_of(child), metadata["name"], metadata["namespace"], uid=metadata["uid"]
            )
        except (NotFound, Conflict):
            return

    async def _write_status(self, resource: Resource, obj: Json, status: Json) -> bool:
        """Guarded by uid and resourceVersion: a decision made on an old state is not written over a newer one."""
        if status == obj.get("status"):
            return False
        metadata = obj["metadata"]
        guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        try:
            await self._cluster.patch(
                resource,
                metadata["name"],
                {"metadata": guard, "status": status},
                metadata["namespace"],
                subresource="status",
            )
        except NotFound:
            return False
        except (Conflict, ApiError) as error:
            if isinstance(error, Conflict) or error.status == 422:
                raise Stale(f"{obj['kind']} {metadata['name']} has changed") from error
            raise
        return True


def _described(owner: Json) -> str:
    return f"{owner['kind']} {owner['name']}" if owner.get("kind") else "nobody that controls it"
