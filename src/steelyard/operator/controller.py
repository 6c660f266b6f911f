"""The one edge: reads caches, asks a pure `reconcile` what should exist, and makes it so through the API.

Every change of a resource or of its children leads to the same `sync`; nothing here depends on which change it was.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from steelyard.operator.desired import Event
from steelyard.operator.edge import (
    Caches,
    Defect,
    HeldUp,
    Key,
    NameTaken,
    NullRecorder,
    Recorder,
    Refused,
    Stale,
    SyncResult,
)
from steelyard.operator.trouble import ERROR, NOT_MADE, error_text
from steelyard.operator.workflow import WORKFLOWS, Workflow
from steelyard.operator.writes import Writes
from steelyard_common.awake import Sleeps, no_sleeps
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError, Conflict, Forbidden, NotFound
from steelyard_kube.objects import read_status
from steelyard_kube.refusals import ToldRefusals
from steelyard_kube.resource import EVENTS, Resource

UNSEEN = timedelta(seconds=30)
"""Pause before the next reconciliation while a new child is missing from the cache: one that is deleted before the
cache shows it leaves no change that would wake the resource.
"""

NOT_KEPT = "the cluster's definition of this kind is not the operator's: it drops these fields of the status"


class Controller:
    """The edge: `sync` brings one resource nearer to what it should be.

    A sync may be interrupted between any two calls, and repeated at any time.
    """

    def __init__(
        self,
        cluster: Cluster,
        caches: Caches,
        recorder: Recorder | None = None,
        sleeps: Callable[[], Sleeps] = no_sleeps,
        workflows: Mapping[Resource, Workflow] = WORKFLOWS,
    ) -> None:
        self._cluster = cluster
        self._sleeps = sleeps
        self._caches = caches
        self._recorder = recorder or NullRecorder()
        self._workflows = workflows
        self._refusals: ToldRefusals[Key] = ToldRefusals()

    async def sync(self, key: Key, now: datetime) -> SyncResult:
        """Reconcile one resource. Raises Stale, ApiError or Defect, after which the caller tries again later."""
        resource = self._caches.resource(key.resource, key.namespace, key.name)
        # The garbage collector removes the children of what is deleted; nothing may be created for it any more.
        if resource is None or resource["metadata"].get("deletionTimestamp"):
            self._refusals.forget(key)
            return SyncResult()
        try:
            return await self._sync(key, resource, now)
        except (Stale, ApiError):
            raise
        except Exception as error:  # a defect concerns this resource alone: all others go on
            message = error_text(error)
            self._recorder.record_event(resource, Event("Warning", ERROR, message))
            errored = self._workflows[key.resource].errored(resource, message, now)
            await self._write_status(key.resource, resource, errored)
            raise Defect(message) from error

    async def _sync(self, key: Key, resource: Json, now: datetime) -> SyncResult:
        workflow = self._workflows[key.resource]
        children = workflow.observe(resource, *self._caches.children(resource))
        settings, sleeps = self._caches.settings(), self._sleeps()
        if sleeps.known:  # time for which the machine slept counts for no deadline
            settings = settings.model_copy(update={"sleeps": sleeps})
        desired = workflow.reconcile(resource, children, now, settings)
        status = workflow.recovered(desired.status)
        requeue_times = [desired.requeue_at] if desired.requeue_at else []
        held_up: HeldUp | None = None
        writes = Writes(self._cluster, self._caches, self._recorder, workflow, resource)
        try:
            # Children first, the status last: a status never says what was not done, and an operator that dies in
            # between repeats only creates.
            if await writes.carry_out(key.resource, desired, children):
                requeue_times.append(now + UNSEEN)
        # Another's object has a child's name: waiting would not help, and it must not be touched.
        except NameTaken as taken:
            status = workflow.name_taken(resource, str(taken), now)
        except Refused as refused:
            status = workflow.refused(resource, str(refused), now)
        except HeldUp as held:
            held_up, status = held, self._hold_up(key, held, status, now)
        else:
            status = await self._explain(key, desired.without_pod, status, now)
        # The one write of the status in a reconciliation, with everything that was decided.
        changed = await self._write_status(key.resource, resource, status)
        # After the write: an event about a status that was refused as stale would be recorded twice.
        for event in desired.events:
            self._recorder.record_event(resource, event)
        if changed:
            for event in workflow.status_events(resource, read_status(resource), status):
                self._recorder.record_event(resource, event)
        # Raised only now: the status says first why it waits, then the work queue backs off.
        if held_up:
            raise held_up.error
        if desired.delete_resource and await writes.delete_resource(key.resource):
            self._recorder.record_event(resource, workflow.expired(resource))
        # An adopted child is the resource's own only from now on: what it does with the child comes next.
        adopts = any("ownerReferences" in patch.patch.get("metadata", {}) for patch in desired.patch)
        more = adopts or (changed and workflow.follows(read_status(resource), status))
        return SyncResult(min((time for time in requeue_times if time > now), default=None), more)

    async def _explain(self, key: Key, without_pod: Sequence[Json], status: Json, now: datetime) -> Json:
        """Return the status with what the API has against the Pods of Jobs, which the Jobs themselves do not say."""
        for job in without_pod:
            if refusal := await find_refusal(self._cluster, job):
                return self._hold_up(key, HeldUp(job, refusal), status, now)
        self._refusals.forget(key)
        return status

    def _hold_up(self, key: Key, held: HeldUp, status: Json, now: datetime) -> Json:
        """Return the status that tells of a refused child: for a while, the message of its last refusal."""
        words = self._refusals.words(key, held.child, str(held), now)
        held_up = self._workflows[key.resource].held_up
        return held_up(status, words, now) if held_up else status

    async def _write_status(self, resource: Resource, obj: Json, status: Json) -> bool:
        """Write a changed status; return whether it was written and kept. Raises Stale if the resource has changed."""
        before = read_status(obj)
        if status == before:
            return False
        metadata = obj["metadata"]
        # With both preconditions, a decision made from an old state is not written over a newer one.
        guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        patch: Json = {"metadata": guard, "status": difference(before, status)}
        try:
            after = await self._cluster.patch(
                resource, metadata["name"], patch, metadata["namespace"], subresource="status"
            )
        except (NotFound, Conflict) as error:
            raise Stale(f"{obj['kind']} {metadata['name']} has changed") from error
        # The API drops unknown fields in silence: a patch that changed nothing met another definition of the kind.
        if after["metadata"]["resourceVersion"] == metadata["resourceVersion"]:
            self._recorder.record_event(
                obj, Event("Warning", "StatusNotKept", f"{NOT_KEPT}: {', '.join(patch['status'])}")
            )
            return False
        self._recorder.record_write("status", obj, after)
        self._caches.apply_write(after)
        return True


async def find_refusal(cluster: Cluster, job: Json) -> ApiError | None:
    """Return why Kubernetes makes no Pod of a Job, as its newest event says; None where none does, or we may not ask.

    A Job's status does not tell that a quota, a webhook or a policy refuses its Pod.
    """
    metadata = job["metadata"]
    selector = f"involvedObject.uid={metadata['uid']},reason={NOT_MADE}"
    try:
        events = (await cluster.list(EVENTS, metadata["namespace"], field_selector=selector)).items
    except ApiError:
        return None
    if not events:
        return None
    newest = max(events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    return Forbidden(str(newest.get("message") or ""))


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """Return the merge patch that turns `before` into `after`."""
    patch: Json = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := difference(old, value):
                patch[name] = inner
        elif value != old or name not in before:
            patch[name] = value
    return patch


__all__ = ["Controller", "Key", "Stale", "SyncResult", "difference"]
