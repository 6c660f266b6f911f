"""The one edge: reads caches, asks a pure `reconcile` what should be, and makes it so through the API.

Every event of a resource or of its children leads to the same `sync`; nothing here depends on which it was.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from steelyard.awake import Sleeps, no_sleeps
from steelyard.kube.cluster import Cluster
from steelyard.kube.errors import ApiError, Conflict, NotFound
from steelyard.kube.resource import Resource
from steelyard.operator.desired import Desired, Told
from steelyard.operator.edge import (
    Caches,
    Defect,
    HeldUp,
    Key,
    Log,
    NameTaken,
    Refused,
    Silent,
    Stale,
    Synced,
)
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training import events
from steelyard.operator.trouble import ERROR, error_text
from steelyard.operator.workflow import WORKFLOWS, Workflow
from steelyard.operator.writes import Writes
from steelyard.types import Json

UNSEEN = timedelta(seconds=30)
"""A child that is deleted before the cache has shown it may leave no event: look again after this time."""

NOT_KEPT = "the definition of this kind on the cluster is not the operator's: it drops of the status"


class Controller:
    """`sync` is the whole edge. It may be interrupted between any two calls, and repeated at any time."""

    def __init__(
        self,
        cluster: Cluster,
        caches: Caches,
        log: Log | None = None,
        sleeps: Callable[[], Sleeps] = no_sleeps,
        workflows: Mapping[Resource, Workflow] = WORKFLOWS,
    ) -> None:
        self._cluster = cluster
        self._sleeps = sleeps
        self._caches = caches
        self._log = log or Silent()
        self._workflows = workflows

    async def sync(self, key: Key, now: datetime) -> Synced:
        """Bring one resource nearer to what it should be. Raises Stale, ApiError or Defect: try again later."""
        resource = self._caches.resource(key.resource, key.namespace, key.name)
        if resource is None or resource["metadata"].get("deletionTimestamp"):
            return Synced()
        try:
            return await self._sync(key, resource, now)
        except (Stale, ApiError):
            raise
        except Exception as error:  # whatever it is, it concerns this resource alone
            await self._say(key, resource, error, now)
            raise Defect(error_text(error)) from error

    async def _say(self, key: Key, resource: Json, error: Exception, now: datetime) -> None:
        """An unexpected error, by a condition and an event."""
        message = error_text(error)
        self._log.told(resource, Told("Warning", ERROR, message))
        await self._write_status(
            key.resource, resource, self._workflows[key.resource].errored(resource, message, now)
        )

    async def _sync(self, key: Key, resource: Json, now: datetime) -> Synced:
        how = self._workflows[key.resource]
        children = how.observe(resource, *self._caches.children(resource))
        want = how.reconcile(resource, children, now, self._settings())
        status, looks = how.recovered(want.status), [want.next_look] if want.next_look else []
        held_up: HeldUp | None = None
        writes = Writes(self._cluster, self._caches, self._log, how, resource)
        try:
            if await writes.carry_out(key.resource, want, children):
                looks.append(now + UNSEEN)
        except NameTaken as taken:
            status = how.name_taken(resource, str(taken), now)
        except Refused as refused:
            status = how.refused(resource, str(refused), now)
        except HeldUp as held:
            held_up, status = held, how.held_up(status, str(held), now) if how.held_up else status
        changed = await self._write_status(key.resource, resource, status)
        self._tell(how, resource, want, status if changed else None)
        if held_up:
            raise held_up.error
        if want.delete_resource and await writes.delete(resource):
            self._log.told(resource, events.ended(resource))
        more = _claims(want) or (changed and how.follows(resource.get("status") or {}, status))
        return Synced(min((each for each in looks if each > now), default=None), more)

    def _settings(self) -> OperatorSettings:
        """Returns the present settings: the cluster's frameworks and the times that the machine slept are in them."""
        settings, sleeps = self._caches.settings(), self._sleeps()
        return settings.model_copy(update={"sleeps": sleeps}) if sleeps.known else settings

    def _tell(self, how: Workflow, resource: Json, want: Desired, status: Json | None) -> None:
        for each in want.tell:
            self._log.told(resource, each)
        if status is not None:
            for each in how.told(resource, resource.get("status") or {}, status):
                self._log.told(resource, each)

    async def _write_status(self, resource: Resource, obj: Json, status: Json) -> bool:
        """Guarded by uid and resourceVersion: a decision made on an old state is not written over a newer one."""
        before = obj.get("status") or {}
        if status == before:
            return False
        metadata = obj["metadata"]
        guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        patch: Json = {"metadata": guard, "status": difference(before, status)}
        try:
            after = await self._cluster.patch(
                resource, metadata["name"], patch, metadata["namespace"], subresource="status"
            )
        except (NotFound, Conflict) as error:
            raise Stale(f"{obj['kind']} {metadata['name']} has changed") from error
        if after["metadata"]["resourceVersion"] == metadata["resourceVersion"]:
            self._log.told(obj, Told("Warning", "StatusNotKept", f"{NOT_KEPT}: {', '.join(patch['status'])}"))
            return False
        self._log.wrote("status", obj, after)
        self._caches.wrote(after)
        return True


def _claims(want: Desired) -> bool:
    """Whether children became the resource's own, or ceased to be: what it does with them comes next."""
    return any("ownerReferences" in each.patch.get("metadata", {}) for each in want.patch)


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """The merge patch that makes `before` to `after`."""
    patch: Json = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := difference(old, value):
                patch[name] = inner
        elif value != old or name not in before:
            patch[name] = value
    return patch


__all__ = ["Controller", "Key", "Stale", "Synced", "difference"]
