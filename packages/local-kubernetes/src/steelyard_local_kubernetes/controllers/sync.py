"""The edge of every built-in controller: read the cache, and before anything is done ask the API itself.

A cache shows when to reconcile, never what to do: the owner and then its children are read from the API, decided upon,
and read again until nothing more is to be done. So no controller remembers what it did, and a crash between any two
calls loses nothing. `run.py` calls `sync` per key, tests call it directly.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from steelyard_common.types import Json
from steelyard_kube.errors import ApiError, Conflict, NotFound
from steelyard_kube.objects import controller_uid, is_later, read_finalizers, read_status
from steelyard_kube.resource import (
    ENDPOINT_SLICES,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SERVICES,
    find_resource,
)
from steelyard_kube.times import parse_time
from steelyard_local_kubernetes.controllers import claim, job_counts, service
from steelyard_local_kubernetes.controllers.adoption import claim_children
from steelyard_local_kubernetes.controllers.decision import Decision
from steelyard_local_kubernetes.controllers.edge import Edge
from steelyard_local_kubernetes.controllers.kinds import CLAIM, JOB, Key, Kind
from steelyard_local_kubernetes.controllers.pods import select_owned, selector_text
from steelyard_local_kubernetes.controllers.writes import record_events, refusal, write_children, write_owner

NEXT_BATCH = -1.0  # the answer of a sync that has made a batch and wants its next turn
TURNS = (
    5  # of the event loop; an API server in this process sends the event of a write one turn after its answer
)
ROUNDS = 8  # a Job's longest way from one outside change to rest takes four


async def sync(edge: Edge, kind: Kind, key: Key) -> float | None:
    """Bring one object's children and status to what they should be; return the requeue time in seconds, if any."""
    cached = edge.view.get(kind.resource, *key)
    children = list(edge.view.children(kind.children, kind.resource, key))
    if cached is not None and kind.adoptions:
        children = await _claim(edge, kind, cached, children)
    if kind is JOB:
        await _release_strangers(edge, key, cached, children)
    if kind is CLAIM:
        await _release_volumes(edge, key, cached)
    if cached is None:
        return None
    owned = select_owned(cached, children) + _read_related(edge, kind, cached)
    owned = _distinct(owned, await kind.observe(edge.cluster, cached, owned))
    # The time first, then what was slept until then: a machine that sleeps in between must not find it in one alone.
    now = edge.now()
    decision = kind.decide(_awake(edge, cached), owned, now, set())
    if not decision:
        record_events(edge, cached, decision)
        return decision.requeue_after
    taken: set[str] = set()
    known: OwnerState | None = None
    for _ in range(ROUNDS):
        try:
            known = known or await _read(edge, kind, key)
            now = edge.now()
            decision = kind.decide(_awake(edge, known.owner), known.children, now, taken)
            if not decision:
                if taken:
                    record_events(edge, known.owner, decision)
                await _await_view(edge, kind, key, known.owner)
                return decision.requeue_after
            known = await _carry_out(edge, kind, known, decision, taken)
            if decision.more:
                return NEXT_BATCH
        except NotFound:
            return None
        except Conflict:
            known = None  # another client wrote meanwhile: what was decided may not hold any more
    raise Conflict(f"{kind.resource.kind} {'/'.join(key)} does not come to rest")


async def _claim(edge: Edge, kind: Kind, owner: Json, children: list[Json]) -> list[Json]:
    candidates = [(adoption, edge.view.orphans(adoption.children, owner)) for adoption in kind.adoptions]
    try:
        return await claim_children(edge.cluster, owner, candidates, children)
    except ApiError as error:
        raise await refusal(edge, owner, "update", error) from error


async def _await_view(edge: Edge, kind: Kind, key: Key, owner: Json) -> None:
    """Let the cache hear of the last write, where that is about to happen.

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
        read_status(owner).get("startTime"),
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
    namespace, selector = owner["metadata"]["namespace"], selector_text(kind.labels(owner))
    listing = await edge.cluster.list(kind.children, namespace, label_selector=selector)
    children = select_owned(owner, listing.items)
    for related in kind.related:
        if related.belongs is None:
            continue
        where = namespace if related.resource.namespaced else None
        others = await edge.cluster.list(related.resource, where)
        children += [obj for obj in others.items if related.belongs(owner, obj)]
    return children


def _read_related(edge: Edge, kind: Kind, owner: Json) -> list[Json]:
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
    """Write; return the state known then, None where it must be read again. An owner that is gone raises NotFound."""
    if not decision.children_first:
        owner = await write_owner(edge, kind.resource, known.owner, decision)
        written = await write_children(edge, owner, decision, taken)
        return None if written is None else _with(owner, known, written)
    try:
        written = await write_children(edge, known.owner, decision, taken)
    except ApiError:
        # The deadline of an owner without children counts from its start, which is in the status.
        await write_owner(edge, kind.resource, known.owner, decision)
        raise
    return None if written is None else _with(known.owner, known, written)


def _with(owner: Json, known: OwnerState, written: list[Json]) -> OwnerState:
    by_uid = {child["metadata"]["uid"]: child for child in (*known.children, *written)}
    owner = by_uid.pop(owner["metadata"]["uid"], owner)
    return OwnerState(owner, list(by_uid.values()))


async def _write(edge: Edge, obj: Json, patch: Json, subresource: str = "") -> None:
    """Patch an object whose owner is gone, so that nobody could be told of a refusal."""
    name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace")
    with suppress(NotFound):
        await edge.cluster.patch(find_resource(obj), name, patch, namespace, subresource=subresource)


async def _release_strangers(edge: Edge, key: Key, cached: Json | None, children: list[Json]) -> None:
    """Take our finalizer from Pods whose Job is gone, or was made again under the same name."""
    mine = cached and cached["metadata"]["uid"]
    strangers = [
        pod
        for pod in children
        if controller_uid(pod) != mine and job_counts.FINALIZER in read_finalizers(pod)
    ]
    if not strangers:
        return
    try:
        there = (await edge.cluster.get(JOBS, key[1], key[0]))["metadata"]["uid"]
    except NotFound:
        there = None
    for pod in strangers:
        if there is None or controller_uid(pod) != there:
            await _write(edge, pod, job_counts.without_finalizer(pod))


async def _release_volumes(edge: Edge, key: Key, cached: Json | None) -> None:
    """Say Released of volumes whose claim is gone, or was made again under the same name."""
    mine = cached["metadata"]["uid"] if cached else None
    volumes = list(edge.view.in_namespace(PERSISTENT_VOLUMES, ""))
    if not claim.volumes_to_release(volumes, key, mine):
        return
    try:
        present = (await edge.cluster.get(PERSISTENT_VOLUME_CLAIMS, key[1], key[0]))["metadata"]["uid"]
    except NotFound:
        present = None
    for volume in claim.volumes_to_release(volumes, key, present):
        await _write(edge, volume, {"status": {"phase": "Released"}}, "status")


async def sync_service(edge: Edge, key: Key) -> float | None:
    """Bring one Service's EndpointSlices to what they should be. Slices may lag: what they say is not counted."""
    cached = edge.view.get(SERVICES, *key)
    if cached is None:
        return None
    slices = select_owned(cached, edge.view.children(ENDPOINT_SLICES, SERVICES, key))
    decision = service.decide(cached, edge.view.in_namespace(PODS, key[0]), slices)
    # The names of slices are fixed: one that is taken has no other one instead.
    taken = {slice["metadata"]["name"] for slice in decision.create}
    await write_children(edge, cached, decision, taken)
    return None
