"""The edge of every built-in controller: read the cache, and before anything is done ask the API itself.

A cache shows when to reconcile, never what to do: the owner and then its children are read from the API, decided upon,
and read again until nothing more is to be done. So no controller remembers what it did, and a crash between any two
calls loses nothing. `run.py` calls `sync` per key, tests call it directly.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from steelyard.awake import SleptSince, never_slept
from steelyard.kube.cluster import Cluster
from steelyard.kube.errors import AlreadyExists, ApiError, BadRequest, Conflict, Forbidden, Invalid, NotFound
from steelyard.kube.objects import (
    annotations_of,
    controller_of,
    controller_uid,
    finalizers_of,
    is_later,
    status_of,
)
from steelyard.kube.resource import (
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RAY_CLUSTERS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
    resource_of,
)
from steelyard.local.controllers import (
    claim,
    job_counts,
    replica_set,
    service,
)
from steelyard.local.controllers import pods as of
from steelyard.local.controllers.adoption import claim_children, may_adopt
from steelyard.local.controllers.decision import Decision, Event, parse_time, with_condition
from steelyard.local.controllers.kinds import CLAIM, JOB, KINDS, Key, Kind
from steelyard.local.controllers.ray import status as ray_status
from steelyard.types import Json, sequence

_log = logging.getLogger(__name__)
NEXT_BATCH = -1.0  # the answer of a sync that has made a batch and wants its next turn
REFUSED = (BadRequest, Forbidden, Invalid)  # what a second try does not mend
TURNS = (
    5  # of the event loop; an API server in this process sends the event of a write one turn after its answer
)
ROUNDS = 8  # a Job's longest way from one outside change to rest takes four


class View(Protocol):
    """A cache of the API's objects, which may lag."""

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None: ...

    def children(self, resource: Resource, owner: Resource, key: Key) -> Iterable[Json]:
        """The objects that name the owner as their controller, by its kind and name."""
        ...

    def in_namespace(self, resource: Resource, namespace: str) -> Iterable[Json]: ...

    def orphans(self, resource: Resource, owner: Json) -> Iterable[Json]:
        """The objects without a controller that the owner's selector may select; it need not select all of them."""
        ...


@dataclass(frozen=True)
class Edge:
    """Dependencies of a sync."""

    cluster: Cluster
    view: View
    now: Callable[[], datetime]
    record: Callable[[Json, Event], None] = lambda obj, event: None
    slept: SleptSince = never_slept


async def sync(edge: Edge, kind: Kind, key: Key) -> float | None:
    """Bring one object's children and status to what they should be; return the requeue time in seconds, if any."""
    cached = edge.view.get(kind.resource, *key)
    children = list(edge.view.children(kind.children, kind.resource, key))
    if cached is not None and kind.adoptions:
        candidates = [(adoption, edge.view.orphans(adoption.children, cached)) for adoption in kind.adoptions]
        children = await claim_children(edge.cluster, cached, candidates, children)
    if kind is JOB:
        await _release_strangers(edge, key, cached, children)
    if kind is CLAIM:
        await _release_volumes(edge, key, cached)
    if cached is None:
        return None
    owned = of.owned_by(cached, children) + _cached_related(edge, kind, cached)
    owned = _distinct(owned, await kind.observe(edge.cluster, cached, owned))
    # The time first, then what was slept until then: a machine that sleeps in between must not find it in one alone.
    now = edge.now()
    decision = kind.decide(_awake(edge, cached), owned, now, set())
    if not decision:
        for event in decision.events:
            edge.record(cached, event)
        return decision.requeue_after
    taken: set[str] = set()
    known: OwnerState | None = None
    for _ in range(ROUNDS):
        try:
            known = known or await _read(edge, kind, key)
            now = edge.now()
            decision = kind.decide(_awake(edge, known.owner), known.children, now, taken)
            if not decision:
                await _await_view(edge, kind, key, known.owner)
                return decision.requeue_after
            known = await _carry_out(edge, kind, known, decision, taken)
            if decision.more:
                return NEXT_BATCH
        except NotFound:
            return None
        except Conflict:
            known = None  # another client wrote meanwhile: what was decided may not hold any more
    return 1.0


async def _await_view(edge: Edge, kind: Kind, key: Key, owner: Json) -> None:
    """Let the cache hear of what was written last, where that is about to happen.

    The children that were written are cause for another sync, which begins at once. On a cache without the owner's new
    status it would read both from the API, and then find nothing to do.
    """
    version = owner["metadata"]["resourceVersion"]
    for _ in range(TURNS):
        cached = edge.view.get(kind.resource, *key)
        if cached is None or not is_later(version, cached["metadata"]["resourceVersion"]):
            return
        await asyncio.sleep(0)


def _awake(edge: Edge, owner: Json) -> Json:
    """The object as it is decided upon: a deadline is put off by what the machine has slept since the start."""
    seconds, started = (
        owner["spec"].get("activeDeadlineSeconds"),
        status_of(owner).get("startTime"),
    )
    slept = 0.0 if seconds is None or started is None else edge.slept(parse_time(started))
    return {**owner, "spec": {**owner["spec"], "activeDeadlineSeconds": seconds + slept}} if slept else owner


@dataclass(frozen=True)
class OwnerState:
    """An owner and its children as the API has them: read, or answered to a write of ours."""

    owner: Json
    children: list[Json]


async def _read(edge: Edge, kind: Kind, key: Key) -> OwnerState:
    """The children are read after the owner, as `job_counts` needs it."""
    owner = await edge.cluster.get(kind.resource, key[1], key[0])
    children = await _children(edge, kind, owner)
    return OwnerState(owner, _distinct(children, await kind.observe(edge.cluster, owner, children)))


def _distinct(first: list[Json], second: list[Json]) -> list[Json]:
    """Return all objects, of those that are in both lists the second form."""
    return list({obj["metadata"]["uid"]: obj for obj in (*first, *second)}.values())


async def _children(edge: Edge, kind: Kind, owner: Json) -> list[Json]:
    """The owner's children, and what else its decision reads, as stored now."""
    namespace, selector = owner["metadata"]["namespace"], of.selector_text(kind.labels(owner))
    listing = await edge.cluster.list(kind.children, namespace, label_selector=selector)
    children = of.owned_by(owner, listing.items)
    for related in kind.related:
        if related.belongs is None:
            continue
        where = namespace if related.resource.namespaced else None
        others = await edge.cluster.list(related.resource, where)
        children += [obj for obj in others.items if related.belongs(owner, obj)]
    return children


def _cached_related(edge: Edge, kind: Kind, owner: Json) -> list[Json]:
    namespace = owner["metadata"]["namespace"]
    return [
        obj
        for related in kind.related
        if related.belongs is not None
        for obj in edge.view.in_namespace(related.resource, namespace if related.resource.namespaced else "")
        if related.belongs(owner, obj)
    ]


async def _carry_out(
    edge: Edge, kind: Kind, known: OwnerState, decision: Decision, taken: set[str]
) -> OwnerState | None:
    """Write; what is known then, or None where it must be read again. An owner that is gone raises NotFound."""
    if not decision.children_first:
        owner = await _write_owner(edge, kind, known.owner, decision)
        written = await _write_children(edge, owner, decision, taken)
        return None if written is None else _with(owner, known, written)
    try:
        written = await _write_children(edge, known.owner, decision, taken)
    except ApiError:
        # The deadline of an owner without children counts from its start, which is in the status.
        await _write_owner(edge, kind, known.owner, decision)
        raise
    return None if written is None else _with(known.owner, known, written)


def _with(owner: Json, known: OwnerState, written: list[Json]) -> OwnerState:
    by_uid = {child["metadata"]["uid"]: child for child in (*known.children, *written)}
    owner = by_uid.pop(owner["metadata"]["uid"], owner)
    return OwnerState(owner, list(by_uid.values()))


async def _write_owner(edge: Edge, kind: Kind, owner: Json, decision: Decision) -> Json:
    """Write the status, record the events; return the owner as it is then."""
    if decision.status is not None or decision.annotations:
        status = status_of(owner) if decision.status is None else decision.status
        updated = {**owner, "status": status}
        if decision.annotations:
            annotations = {**annotations_of(owner), **decision.annotations}
            updated["metadata"] = {**owner["metadata"], "annotations": annotations}
        owner = await edge.cluster.replace(kind.resource, updated, subresource="status")
    for event in decision.events:
        edge.record(owner, event)
    return owner


async def _write_children(edge: Edge, owner: Json, decision: Decision, taken: set[str]) -> list[Json] | None:
    """The API's answers; None when some object is not what was thought, or is deleted."""
    answers = [await _create(edge, owner, child, taken) for child in decision.create]
    answers += [await _patch(edge, obj, patch) for obj, patch in decision.patch]
    answers += [await _patch(edge, obj, {"status": status}, "status") for obj, status in decision.statuses]
    for obj in decision.delete:
        await _delete(edge, owner, obj)
    created = [child for child in answers if child is not None]
    return None if decision.delete or len(created) < len(answers) else created


async def _create(edge: Edge, owner: Json, obj: Json, taken: set[str]) -> Json | None:
    resource, metadata = resource_of(obj), obj["metadata"]
    try:
        created = await edge.cluster.create(resource, obj)
    except AlreadyExists:
        try:
            there = await edge.cluster.get(resource, metadata["name"], metadata.get("namespace"))
        except NotFound:
            return None
        if await _is_anothers(edge, owner, there):
            taken.add(metadata["name"])
        return None
    except ApiError as error:
        if isinstance(error, REFUSED):
            edge.record(owner, Event("FailedCreate", f"Error creating: {error.message}", "Warning"))
            await say_failure(edge, owner, "FailedCreate", error.message)
        raise
    if event := _success(owner, obj, "create"):
        edge.record(owner, event)
    return created


async def _is_anothers(edge: Edge, owner: Json, there: Json) -> bool:
    """Return whether an object with the name of a child belongs to another owner for good.

    An object without a controller, which the cache did not show yet, is adopted here if it may be. One whose owner is
    gone will be collected or released: it is waited for.
    """
    controller = controller_of(there)
    if controller is None:
        adoptions = (
            adoption for kind in KINDS if kind.resource == resource_of(owner) for adoption in kind.adoptions
        )
        candidates = [adoption for adoption in adoptions if may_adopt(owner, there, adoption)]
        await claim_children(edge.cluster, owner, [(adoption, [there]) for adoption in candidates], [])
        return not candidates
    if controller["uid"] == owner["metadata"]["uid"]:
        return False
    resource = resource_of(owner)
    if (controller["apiVersion"], controller["kind"]) != (resource.api_version, resource.kind):
        return True
    try:
        alive = await edge.cluster.get(resource, controller["name"], owner["metadata"].get("namespace"))
    except NotFound:
        return False
    return bool(alive["metadata"]["uid"] == controller["uid"])


def _success(owner: Json, obj: Json, verb: str) -> Event | None:
    """Return the event about a child that was created or deleted, as the owner's controller words it."""
    resource, name, reason = resource_of(obj), obj["metadata"]["name"], f"Successful{verb.title()}"
    word = f"{verb.title()}d {resource.kind.lower()}"
    match resource_of(owner):
        case r if r == CRON_JOBS:
            return Event(reason, f"{word} {name}")
        case r if r == STATEFUL_SETS:
            in_set = f"in StatefulSet {owner['metadata']['name']}"
            if resource == CONTROLLER_REVISIONS:
                return None
            if resource == PERSISTENT_VOLUME_CLAIMS:
                pod = f"{owner['metadata']['name']}-{name.rpartition('-')[2]}"
                return Event(reason, f"{verb} Claim {name} Pod {pod} {in_set} success")
            return Event(reason, f"{verb} Pod {name} {in_set} successful")
        case _:
            return Event(reason, f"{word}: {name}")


async def say_failure(edge: Edge, owner: Json, reason: str, message: str) -> None:
    """The condition that shows why an owner lacks children, of the kinds that have one."""
    resource, metadata = resource_of(owner), owner["metadata"]
    if resource not in (DEPLOYMENTS, REPLICA_SETS, RAY_CLUSTERS):
        return
    try:
        there = await edge.cluster.get(resource, metadata["name"], metadata.get("namespace"))
        status = _failed(there, reason, message, edge.now())
        if status != status_of(there):
            await edge.cluster.replace(resource, {**there, "status": status}, subresource="status")
    except ApiError as error:
        _log.warning("%s %s: %s", resource.kind, metadata["name"], error)


def _failed(owner: Json, reason: str, message: str, now: datetime) -> Json:
    """Return the status with the failure in it."""
    if resource_of(owner) == RAY_CLUSTERS:
        return ray_status.failed(owner, reason, message, now)
    status = status_of(owner)
    failure = {"type": replica_set.FAILURE, "status": "True", "reason": reason, "message": message}
    conditions = with_condition(
        list(sequence(status, "conditions")), failure, now, stamp="lastTransitionTime"
    )
    return {**status, "conditions": conditions}


async def _patch(edge: Edge, obj: Json, patch: Json, subresource: str = "") -> Json | None:
    resource, metadata = resource_of(obj), obj["metadata"]
    try:
        return await edge.cluster.patch(
            resource, metadata["name"], patch, metadata.get("namespace"), subresource=subresource
        )
    except NotFound:
        return None


async def _delete(edge: Edge, owner: Json, obj: Json) -> None:
    resource, metadata = resource_of(obj), obj["metadata"]
    try:
        await edge.cluster.delete(resource, metadata["name"], metadata["namespace"], uid=metadata["uid"])
    except (NotFound, Conflict):
        return  # gone, or already another's
    if obj is not owner and (event := _success(owner, obj, "delete")):
        edge.record(owner, event)


async def _release_strangers(edge: Edge, key: Key, cached: Json | None, children: list[Json]) -> None:
    """Take our finalizer from Pods whose Job is gone, or was made again under the same name."""
    mine = cached and cached["metadata"]["uid"]
    strangers = [
        pod for pod in children if controller_uid(pod) != mine and job_counts.FINALIZER in finalizers_of(pod)
    ]
    if not strangers:
        return
    try:
        there = (await edge.cluster.get(JOBS, key[1], key[0]))["metadata"]["uid"]
    except NotFound:
        there = None
    for pod in strangers:
        if there is None or controller_uid(pod) != there:
            await _patch(edge, pod, job_counts.without_finalizer(pod))


async def _release_volumes(edge: Edge, key: Key, cached: Json | None) -> None:
    """Say Released of volumes whose claim is gone, or was made again under the same name."""
    mine = cached["metadata"]["uid"] if cached else None
    volumes = list(edge.view.in_namespace(PERSISTENT_VOLUMES, ""))
    if not claim.released(volumes, key, mine):
        return
    try:
        present = (await edge.cluster.get(PERSISTENT_VOLUME_CLAIMS, key[1], key[0]))["metadata"]["uid"]
    except NotFound:
        present = None
    for volume in claim.released(volumes, key, present):
        await _patch(edge, volume, {"status": {"phase": "Released"}}, "status")


async def sync_service(edge: Edge, key: Key) -> float | None:
    """Bring one Service's EndpointSlices to what they should be. Slices may lag: what they say is not counted."""
    cached = edge.view.get(SERVICES, *key)
    if cached is None:
        return None
    slices = of.owned_by(cached, edge.view.children(ENDPOINT_SLICES, SERVICES, key))
    decision = service.decide(cached, edge.view.in_namespace(PODS, key[0]), slices)
    await _write_children(edge, cached, decision, set())
    return None
