"""The edge's writes of a resource's children: create once, patch what was seen, delete by uid, many at a time."""

from steelyard.kube.cluster import Cluster
from steelyard.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServerTimeout,
    TooManyRequests,
    Unreachable,
)
from steelyard.kube.resource import Resource, resource_of
from steelyard.operator import concurrency
from steelyard.operator.children import Children
from steelyard.operator.desired import Desired, Patch, Premise
from steelyard.operator.edge import Caches, HeldUp, Log, NameTaken, Refused, Stale
from steelyard.operator.names import OWNER, controller_of
from steelyard.operator.training import events
from steelyard.operator.workflow import Workflow
from steelyard.types import Json

_INVALID = frozenset({400, 413, 422})
"""Answers that a repeat does not change: what was sent cannot be read, is too large, or breaks a rule of its kind."""
_BUSY = (Conflict, ServerTimeout, TooManyRequests, Unreachable)
"""Answers that say nothing about the child."""


class Writes:
    """Those of one look at one resource."""

    def __init__(self, cluster: Cluster, caches: Caches, log: Log, how: Workflow, resource: Json) -> None:
        self._cluster = cluster
        self._caches = caches
        self._log = log
        self._how = how
        self._resource = resource
        self._unseen = False

    async def carry_out(self, kind: Resource, want: Desired, children: Children) -> bool:
        """Whether children were made that the cache has not shown yet."""
        absent = missing(want, children)
        if absent or want.patch:
            await self._require_current(kind)
        await concurrency.for_each(self._require, want.premises)
        if want.patch:
            await concurrency.for_each(self._patch, want.patch)
        if absent:  # what a Pod needs is made before it
            await concurrency.for_each(self._create, [child for child in absent if child["kind"] != "Pod"])
            await concurrency.for_each(self._create, [child for child in absent if child["kind"] == "Pod"])
        if want.delete or want.force_delete:
            await concurrency.for_each(self._delete_child, want.delete)
            await concurrency.for_each(self._force_delete_child, want.force_delete)
        return self._unseen

    async def _require_current(self, kind: Resource) -> None:
        """The resource itself is as the cache shows it: what had its time (a session, a Job) never comes again."""
        metadata = self._resource["metadata"]
        try:
            found = await self._cluster.get(kind, metadata["name"], metadata["namespace"])
        except NotFound:
            raise Stale(f"{kind.kind} {metadata['name']} is gone") from None
        if found["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise Stale(f"{kind.kind} {metadata['name']} has changed")

    async def _require(self, premise: Premise) -> None:
        metadata = {"name": premise.name, "namespace": self._resource["metadata"]["namespace"]}
        found = await self._get(
            {"apiVersion": premise.api_version, "kind": premise.kind, "metadata": metadata}
        )
        controller = (controller_of(found) or {}).get("uid") if found else None
        own = controller == self._resource["metadata"]["uid"] or (found and self._adoptable(found))
        version = found["metadata"]["resourceVersion"] if found and own else ""
        if version == premise.version:
            return
        if found and own and (release := self._how.release(self._resource, found)):
            await self._patch(release)
        raise Stale(f"{premise.kind} {premise.name} has changed")

    async def _patch(self, patch: Patch) -> None:
        """Of the child as the cache shows it, or not at all."""
        child, metadata = patch.child, patch.child["metadata"]
        guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        guarded = {**patch.patch, "metadata": {**patch.patch.get("metadata", {}), **guard}}
        try:
            after = await self._cluster.patch(
                resource_of(child), metadata["name"], guarded, metadata["namespace"]
            )
        except (NotFound, Conflict) as error:
            raise Stale(f"{child['kind']} {metadata['name']} has changed") from error
        self._log.wrote("patch", self._resource, after)
        self._caches.wrote(after)

    async def _create(self, child: Json) -> None:
        """Create once. What is there already is fine if it is ours; a predecessor's will be collected."""
        try:
            made = await self._cluster.create(resource_of(child), child)
        except AlreadyExists:
            there = await self._get(child)
            if there and self._adoptable(there):
                raise Stale(f"{child['kind']} {child['metadata']['name']} is to be adopted") from None
            _require_own(self._resource, child, there)
            self._unseen = True
        except ApiError as error:
            if error.status in _INVALID:
                raise Refused(f"{child['kind']} {child['metadata']['name']}: {error.message}") from error
            if self._how.tells_children:
                self._log.told(self._resource, events.not_made(child, error.message))
            if self._how.held_up and not isinstance(error, _BUSY):
                raise HeldUp(child, error) from error
            raise
        else:
            self._log.wrote("create", self._resource, made)
            self._unseen |= not self._caches.wrote(made)
            if self._how.tells_children:
                self._log.told(self._resource, events.made(child))

    def _adoptable(self, there: Json) -> bool:
        """Whether it will be the resource's own once its cache shows it."""
        return bool(self._how.observe(self._resource, (there,), ()).orphans)

    async def _get(self, child: Json) -> Json | None:
        metadata = child["metadata"]
        try:
            return await self._cluster.get(resource_of(child), metadata["name"], metadata["namespace"])
        except NotFound:
            return None

    async def _delete_child(self, child: Json) -> None:
        await self._end(child, None)

    async def _force_delete_child(self, child: Json) -> None:
        await self._end(child, 0)

    async def _end(self, child: Json, grace: int | None) -> None:
        if await self.delete(child, grace) and self._how.tells_children:
            self._log.told(self._resource, events.deleted(child))

    async def delete(self, obj: Json, grace: int | None = None) -> bool:
        """With its uid as precondition: what was made again under the name is another one's."""
        metadata = obj["metadata"]
        name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
        try:
            await self._cluster.delete(resource_of(obj), name, namespace, uid=uid, grace_seconds=grace)
        except (NotFound, Conflict):
            return False
        self._log.wrote("delete", self._resource, obj)
        return True


def missing(want: Desired, children: Children) -> list[Json]:
    """The children that a decision asks for and the cache does not show."""
    if not want.create:
        return []
    there = {
        (each["kind"], each["metadata"]["name"])
        for each in (*children.objects, *children.pods)
        if not each["metadata"].get("deletionTimestamp")
    }
    return [each for each in want.create if (each["kind"], each["metadata"]["name"]) not in there]


def _require_own(resource: Json, child: Json, there: Json | None) -> None:
    """Of a child that could not be made, because something of its name is there."""
    kind, name, uid = child["kind"], child["metadata"]["name"], resource["metadata"]["uid"]
    if there is None or there["metadata"].get("deletionTimestamp"):
        raise Stale(f"{kind} {name} is going away")
    if controller_of(child) is None and (there["metadata"].get("labels") or {}).get(OWNER) == uid:
        return  # it is to outlive the resource that made it
    owner = controller_of(there) or {}
    if owner.get("uid") == uid:
        return
    if (owner.get("kind"), owner.get("name")) == (resource["kind"], resource["metadata"]["name"]):
        raise Stale(f"{kind} {name} is a predecessor's, and will be collected")
    raise NameTaken(f"{kind} {name} exists and belongs to {_described(owner)}")


def _described(owner: Json) -> str:
    return f"{owner['kind']} {owner['name']}" if owner.get("kind") else "nobody that controls it"
