"""Writes of a resource's children: create once, patch what the cache shows, delete by uid, several calls at a time."""

import re

from steelyard.operator import concurrency
from steelyard.operator.children import Children
from steelyard.operator.desired import DesiredState, Patch, Precondition
from steelyard.operator.edge import Caches, HeldUp, NameTaken, Recorder, Refused, Stale
from steelyard.operator.names import OWNER
from steelyard.operator.traces import SPANNED, carry, read_trace
from steelyard.operator.workflow import Workflow
from steelyard.telemetry.tracing import environment_for_steps, span
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    ServerTimeout,
    TooManyRequests,
    Unreachable,
)
from steelyard_kube.objects import controller_uid, find_controller, is_deleting, kind_and_name, read_labels
from steelyard_kube.resource import Resource, find_resource

_INVALID = frozenset({400, 413, 422})
"""HTTP statuses that a repeat does not change: the object is unreadable, too large, or breaks a rule of its kind."""
_NOT_SERVED = re.compile("404 page not found|could not find the requested resource")
"""Words of API servers about a path of a kind that they do not serve. A missing namespace is named by them."""
_BUSY = (Conflict, ServerTimeout, TooManyRequests, Unreachable)
"""Errors that say nothing about the child itself."""


class Writes:
    """The API writes that one reconciliation makes for one resource."""

    def __init__(
        self, cluster: Cluster, caches: Caches, recorder: Recorder, workflow: Workflow, resource: Json
    ) -> None:
        self._cluster = cluster
        self._caches = caches
        self._recorder = recorder
        self._workflow = workflow
        self._resource = resource
        self._unseen = False

    async def carry_out(self, kind: Resource, desired: DesiredState, children: Children) -> bool:
        """Patch, create and delete children; return whether some were created that the cache does not show yet."""
        absent = missing(desired, children)
        # A stale cache may show a resource that is gone, whose children would have no owner, or a job that is
        # still suspended, whose Pods another operator has just started.
        if absent or desired.patch or desired.delete or desired.force_delete:
            await self._require_current(kind)
        await concurrency.for_each(self._require, desired.preconditions)
        if desired.patch:
            await concurrency.for_each(self._patch, desired.patch)
        if absent:  # a Pod cannot start before the ConfigMaps and Services that it needs
            await concurrency.for_each(self._create, [child for child in absent if child["kind"] != "Pod"])
            await concurrency.for_each(self._create, [child for child in absent if child["kind"] == "Pod"])
        if desired.delete or desired.force_delete:
            await concurrency.for_each(self._delete_child, desired.delete)
            await concurrency.for_each(lambda child: self._delete_child(child, 0), desired.force_delete)
        return self._unseen

    async def _require_current(self, kind: Resource) -> None:
        """Raise Stale unless the resource itself is as the cache shows it.

        An object that has ended (a session, a Job) must never be created again from an old state.
        """
        metadata = self._resource["metadata"]
        try:
            current = await self._cluster.get(kind, metadata["name"], metadata["namespace"])
        except NotFound:
            raise Stale(f"{kind.kind} {metadata['name']} is gone") from None
        # It was changed since the decision (suspended, scaled, finished): the next reconciliation decides again.
        if current["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise Stale(f"{kind.kind} {metadata['name']} has changed")

    async def _require(self, precondition: Precondition) -> None:
        metadata = {"name": precondition.name, "namespace": self._resource["metadata"]["namespace"]}
        child = await self._get(
            {"apiVersion": precondition.api_version, "kind": precondition.kind, "metadata": metadata}
        )
        if child is None:
            own = False
        else:
            own = controller_uid(child) == self._resource["metadata"]["uid"] or self._is_adoptable(child)
        version = child["metadata"]["resourceVersion"] if child and own else ""
        if version == precondition.version:
            return
        # A Pod whose labels were taken away is invisible to the cache, but its name is in the way: it is released
        # first.
        if child and own and (release := self._workflow.release(self._resource, child)):
            await self._patch(release)
        raise Stale(f"{precondition.kind} {precondition.name} has changed")

    async def _patch(self, patch: Patch) -> None:
        """Patch a child if it is still as the cache shows it; raise Stale if not."""
        child, metadata = patch.child, patch.child["metadata"]
        # Both are preconditions: a newer state is never written over, and a namesake is never patched.
        guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        guarded = {**patch.patch, "metadata": {**patch.patch.get("metadata", {}), **guard}}
        try:
            after = await self._cluster.patch(
                find_resource(child), metadata["name"], guarded, metadata["namespace"]
            )
        except (NotFound, Conflict) as error:
            raise Stale(f"{child['kind']} {metadata['name']} has changed") from error
        except Forbidden as error:
            raise self.missing_right(child, error) from error
        self._recorder.record_write("patch", self._resource, after)
        self._caches.apply_write(after)

    async def _create(self, child: Json) -> None:
        """Create a child once. An object of that name is accepted if it is the resource's own.

        A child of a deleted resource of the same name will be removed by the garbage collector: Stale until then.
        """
        try:
            created = await self._post(child)
        except AlreadyExists:  # an earlier sync made it and the cache lags, or it belongs to another owner
            existing = await self._get(child)
            # The cache will show it soon, and adopting it goes by a patch with preconditions, not by this create.
            if existing and self._is_adoptable(existing):
                raise Stale(f"{child['kind']} {child['metadata']['name']} is to be adopted") from None
            _require_own(self._resource, child, existing)
            self._unseen = True
        except ApiError as refusal:
            error = _name_definition(child, refusal)
            # A repeat would be refused alike: the resource fails with the API's own words instead of being tried for
            # ever.
            if error.status in _INVALID:
                raise Refused(f"{child['kind']} {child['metadata']['name']}: {error.message}") from error
            if events := self._workflow.child_events:
                self._recorder.record_event(self._resource, events.not_created(child, error.message))
            if self._workflow.held_up and not isinstance(error, _BUSY):
                raise HeldUp(child, error) from error
            raise error from refusal
        else:
            self._recorder.record_write("create", self._resource, created)
            self._unseen |= not self._caches.apply_write(created)
            if events := self._workflow.child_events:
                self._recorder.record_event(self._resource, events.created(child))

    async def _post(self, child: Json) -> Json:
        """Create a child below the span of its resource, where that has one."""
        trace = read_trace(self._resource) if child["kind"] in SPANNED else None
        attributes = {"k8s.namespace.name": self._resource["metadata"]["namespace"]}
        with span(f"create {child['kind']}", trace, kind="producer", attributes=attributes) as opened:
            return await self._cluster.create(
                find_resource(child), carry(child, opened.traceparent, environment_for_steps())
            )

    def _is_adoptable(self, obj: Json) -> bool:
        """Return whether the resource will adopt an object once its cache shows it."""
        return bool(self._workflow.observe(self._resource, (obj,), ()).orphans)

    async def _get(self, child: Json) -> Json | None:
        metadata = child["metadata"]
        try:
            return await self._cluster.get(find_resource(child), metadata["name"], metadata["namespace"])
        except NotFound:
            return None
        except Forbidden as error:
            raise self.missing_right(child, error) from error

    def missing_right(self, child: Json, error: Forbidden) -> HeldUp | Forbidden:
        """Return the error that says on the resource which right is missing for a child."""
        return HeldUp(child, error) if self._workflow.held_up else error

    async def _delete_child(self, child: Json, grace: int | None = None) -> None:
        try:
            deleted = await self.delete(child, grace)
        except Forbidden as error:
            raise self.missing_right(child, error) from error
        if deleted and (events := self._workflow.child_events):
            self._recorder.record_event(self._resource, events.deleted(child))

    async def delete_resource(self, kind: Resource) -> bool:
        """Delete the resource itself, if it is as the cache shows it; return whether it was still there.

        Raises Stale if it has changed: it may ask to be kept longer by now.
        """
        await self._require_current(kind)
        return await self.delete(self._resource)

    async def delete(self, obj: Json, grace: int | None = None) -> bool:
        """Delete an object; return whether it was still there. `grace` is in seconds.

        The uid is a precondition: an object that was created again under the name is another one.
        """
        metadata = obj["metadata"]
        name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
        try:
            await self._cluster.delete(find_resource(obj), name, namespace, uid=uid, grace_seconds=grace)
        # Gone, or replaced by a namesake with another uid: in both cases there is nothing left to delete.
        except (NotFound, Conflict):
            return False
        self._recorder.record_write("delete", self._resource, obj)
        return True


def _name_definition(child: Json, refusal: ApiError) -> ApiError:
    """Return the refusal; that of a kind which the API does not serve names the definition that is missing."""
    kind = find_resource(child)
    # Kubernetes' own kinds, such as Pods, have no definition that could be installed.
    if "." not in kind.group or not isinstance(refusal, NotFound) or not _NOT_SERVED.search(refusal.message):
        return refusal
    definition = f"{kind.plural}.{kind.group} ({kind.version})"
    return NotFound(f"the definition {definition} is not installed in the cluster: {refusal.message.strip()}")


def missing(desired: DesiredState, children: Children) -> list[Json]:
    """Return the children that a decision asks for and that the cache does not show."""
    if not desired.create:
        return []
    # What is being deleted does not count: its create is refused while it lasts, and the resource waits (Stale).
    existing = {
        kind_and_name(child) for child in (*children.objects, *children.pods) if not is_deleting(child)
    }
    return [child for child in desired.create if kind_and_name(child) not in existing]


def _require_own(resource: Json, child: Json, existing: Json | None) -> None:
    """Accept the object whose name a child should have, if it is the resource's own.

    Raises Stale if the object is about to go, NameTaken if it belongs to another owner.
    """
    kind, name, uid = child["kind"], child["metadata"]["name"], resource["metadata"]["uid"]
    if existing is None or is_deleting(existing):
        raise Stale(f"{kind} {name} is going away")
    if find_controller(child) is None and read_labels(existing).get(OWNER) == uid:
        return  # it has no owner because it outlives the resource that made it
    owner = find_controller(existing) or {}
    if owner.get("uid") == uid:
        return
    # The owner's uid is another one: the resource was deleted and created again faster than the garbage collector
    # works.
    if (owner.get("kind"), owner.get("name")) == (resource["kind"], resource["metadata"]["name"]):
        raise Stale(f"{kind} {name} is a predecessor's, and will be collected")
    described = f"{owner['kind']} {owner['name']}" if owner.get("kind") else "nobody that controls it"
    raise NameTaken(f"{kind} {name} exists and belongs to {described}")
