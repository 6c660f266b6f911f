"""The one edge: reads caches, asks a pure `reconcile` what should be, and makes it so through the API.

Every event of a resource or of its children leads to the same `sync`; nothing here depends on which it was.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from steelyard.kube.cluster import Cluster
from steelyard.kube.errors import AlreadyExists, Conflict, NotFound
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
from steelyard.operator.desired import Desired, Premise
from steelyard.operator.names import OWNER, controller_of
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


UNSEEN = timedelta(seconds=30)
"""A child that is deleted before the cache has shown it may leave no event: look again after this time."""


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

    def __init__(
        self,
        cluster: Cluster,
        caches: Caches,
        settings: OperatorSettings,
        wrote: Callable[[str], None] = lambda verb: None,
    ) -> None:
        self._cluster = cluster
        self._caches = caches
        self._settings = settings
        self._wrote = wrote

    async def sync(self, key: Key, now: datetime) -> Synced:
        """Bring one resource nearer to what it should be. Raises Stale or ApiError: try again later."""
        resource = self._caches.resource(key.resource, key.namespace, key.name)
        if resource is None or resource["metadata"].get("deletionTimestamp"):
            return Synced()
        children = observe(resource, *self._caches.children(resource["metadata"]["uid"]))
        want = WORKFLOWS[key.resource](resource, children, now, self._settings)
        status = want.status
        looks = [want.next_look] if want.next_look else []
        try:
            if await self._carry_out(key.resource, resource, want, children):
                looks.append(now + UNSEEN)
        except NameTaken as taken:
            status = status_of(resource, failed("NameConflict", str(taken)), memory_of(resource), now)
        changed = await self._write_status(key.resource, resource, status)
        if want.delete_resource:
            await self._delete(resource)
        look = min((each for each in looks if each > now), default=None)
        return Synced(look, resource.get("status"), status) if changed else Synced(look)

    async def _carry_out(self, kind: Resource, resource: Json, want: Desired, children: Children) -> bool:
        """Whether children were made that the cache has not shown yet."""
        there = {
            (each["kind"], each["metadata"]["name"])
            for each in children.objects
            if not each["metadata"].get("deletionTimestamp")
        }
        missing = [each for each in want.create if (each["kind"], each["metadata"]["name"]) not in there]
        if missing:
            await self._require_current(kind, resource)
        for premise in want.premises:
            await self._require(resource, premise)
        for child in missing:
            await self._create(resource, child)
        for child in want.delete:
            await self._delete(child)
        return bool(missing)

    async def _require_current(self, kind: Resource, resource: Json) -> None:
        """The resource itself is as the cache shows it: what had its time (a session, a Job) never comes again."""
        metadata = resource["metadata"]
        try:
            found = await self._cluster.get(kind, metadata["name"], metadata["namespace"])
        except NotFound:
            raise Stale(f"{kind.kind} {metadata['name']} is gone") from None
        if found["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise Stale(f"{kind.kind} {metadata['name']} has changed")

    async def _require(self, resource: Json, premise: Premise) -> None:
        metadata = {"name": premise.name, "namespace": resource["metadata"]["namespace"]}
        found = await self._get(
            {"apiVersion": premise.api_version, "kind": premise.kind, "metadata": metadata}
        )
        own = found and (controller_of(found) or {}).get("uid") == resource["metadata"]["uid"]
        version = found["metadata"]["resourceVersion"] if found and own else ""
        if version != premise.version:
            raise Stale(f"{premise.kind} {premise.name} has changed")

    async def _create(self, resource: Json, child: Json) -> None:
        """Create once. What is there already is fine if it is ours; a predecessor's will be collected."""
        kind, name = child["kind"], child["metadata"]["name"]
        try:
            await self._cluster.create(resource_of(child), child)
            self._wrote("create")
            return
        except AlreadyExists:
            there = await self._get(child)
        if there is None or there["metadata"].get("deletionTimestamp"):
            raise Stale(f"{kind} {name} is going away")
        owner = controller_of(there) or {}
        made_for = owner.get("uid") or (there["metadata"].get("labels") or {}).get(OWNER)
        if made_for == resource["metadata"]["uid"]:  # a Model of a job's output has no owner: it stays
            return
        if (owner.get("kind"), owner.get("name")) == (resource["kind"], resource["metadata"]["name"]):
            raise Stale(f"{kind} {name} is a predecessor's, and will be collected")
        raise NameTaken(f"{kind} {name} exists and belongs to {_described(owner)}")

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
            self._wrote("delete")
        except (NotFound, Conflict):
            return

    async def _write_status(self, resource: Resource, obj: Json, status: Json) -> bool:
        """Guarded by uid and resourceVersion: a decision made on an old state is not written over a newer one."""
        before = obj.get("status") or {}
        if status == before:
            return False
        metadata = obj["metadata"]
        guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        gone = {name: None for name in before if name not in status}
        patch = {"metadata": guard, "status": {**gone, **status}}
        try:
            await self._cluster.patch(
                resource, metadata["name"], patch, metadata["namespace"], subresource="status"
            )
        except (NotFound, Conflict) as error:
            raise Stale(f"{obj['kind']} {metadata['name']} has changed") from error
        self._wrote("status")
        return True


def _described(owner: Json) -> str:
    return f"{owner['kind']} {owner['name']}" if owner.get("kind") else "nobody that controls it"
