"""The edge of every built-in controller: look into the cache, and before anything is done ask the API itself.

A cache tells when to look, never what to do: the owner and then its children are read from the API, decided upon,
and read again until nothing more is wanted. So no controller remembers what it did, and a crash between any two
calls loses nothing. `run.py` calls `sync` per key, tests call it directly.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from steelyard.awake import SleptSince, never_slept
from steelyard.kube.cluster import Cluster
from steelyard.kube.errors import AlreadyExists, ApiError, BadRequest, Conflict, Forbidden, Invalid, NotFound
from steelyard.kube.objects import controller_uid, finalizers_of, labels_of, owner_references, status_of
from steelyard.kube.resource import (
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
    resource_of,
)
from steelyard.local.controllers import (
    claim,
    cron_job,
    deployment,
    job,
    job_counts,
    replica_set,
    service,
    stateful_claims,
    stateful_set,
)
from steelyard.local.controllers import pods as of
from steelyard.local.controllers.decision import Decision, Event, parse_time, with_condition
from steelyard.types import Json, mapping, sequence

Key = tuple[str, str]  # namespace, name
_log = logging.getLogger(__name__)
NEXT_BATCH = -1.0  # the answer of a sync that has made a batch and wants its next turn
REFUSED = (BadRequest, Forbidden, Invalid)  # what a second try does not mend
ROUNDS = 8  # a Job's longest way from one outside change to rest takes four


class View(Protocol):
    """A cache of the API's objects, which may lag."""

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None: ...

    def children(self, resource: Resource, owner: Resource, key: Key) -> Iterable[Json]:
        """The objects that name the owner as their controller, by its kind and name."""
        ...

    def in_namespace(self, resource: Resource, namespace: str) -> Iterable[Json]: ...


@dataclass(frozen=True)
class Edge:
    """Dependencies of a sync."""

    cluster: Cluster
    view: View
    now: Callable[[], datetime]
    record: Callable[[Json, Event], None] = lambda obj, event: None
    slept: SleptSince = never_slept


def _match_labels(owner: Json) -> Json:
    return mapping(owner["spec"], "selector", "matchLabels")


def _job_labels(owner: Json) -> Json:
    return {"batch.kubernetes.io/controller-uid": owner["metadata"]["uid"]}


def _no_labels(owner: Json) -> Json:
    return {}


def _is_owned(owner: Json, obj: Json) -> bool:
    return controller_uid(obj) == str(owner["metadata"]["uid"])


@dataclass(frozen=True)
class Related:
    """Further objects that a decision looks at, chosen from all of the owner's namespace, or of the cluster."""

    resource: Resource
    belongs: Callable[[Json, Json], bool]


@dataclass(frozen=True)
class Kind:
    """One controller: whose objects it looks after, what they own, and its decision."""

    resource: Resource
    children: Resource
    decide: Callable[[Json, list[Json], datetime, set[str]], Decision]
    labels: Callable[[Json], Json] = _match_labels  # by which the API lists the children
    related: tuple[Related, ...] = ()


JOB = Kind(JOBS, PODS, job.decide, _job_labels)
REPLICA_SET = Kind(REPLICA_SETS, PODS, replica_set.decide)
DEPLOYMENT = Kind(DEPLOYMENTS, REPLICA_SETS, deployment.decide)
CRON_JOB = Kind(CRON_JOBS, JOBS, cron_job.decide, _no_labels)
STATEFUL_SET = Kind(
    STATEFUL_SETS,
    PODS,
    stateful_set.decide,
    related=(
        Related(CONTROLLER_REVISIONS, _is_owned),
        Related(PERSISTENT_VOLUME_CLAIMS, stateful_claims.is_claim_of),
    ),
)
CLAIM = Kind(
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    claim.decide,
    _no_labels,
    related=(Related(PERSISTENT_VOLUMES, claim.is_volume_of),),
)
KINDS = (JOB, REPLICA_SET, DEPLOYMENT, CRON_JOB, STATEFUL_SET, CLAIM)


def owner_key(child: Json, owner: Resource) -> Key | None:
    """The key of the child's controller if that is of this kind. A Pod that still carries a Job's finalizer counts
    as that Job's even when its owner reference is gone: nobody else would take the finalizer away."""
    metadata = child["metadata"]
    for reference in owner_references(child):
        if reference.get("controller"):
            mine = reference.get("kind") == owner.kind and reference.get("name")
            return (metadata["namespace"], reference["name"]) if mine else None
    if owner == JOBS and job_counts.FINALIZER in finalizers_of(child):
        name = labels_of(child).get("batch.kubernetes.io/job-name")
        return (metadata["namespace"], name) if name else None
    return None


async def sync(edge: Edge, kind: Kind, key: Key) -> float | None:
    """Bring one object's children and status to what they should be; the seconds until the next look, if any."""
    cached = edge.view.get(kind.resource, *key)
    children = list(edge.view.children(kind.children, kind.resource, key))
    if kind is JOB:
        await _release_strangers(edge, key, cached, children)
    if kind is CLAIM:
        await _release_volumes(edge, key, cached)
    if cached is None:
        return None
    # The time first, then what was slept until then: a machine that sleeps in between must not find it in one alone.
    now = edge.now()
    owned = of.owned_by(cached, children) + _cached_related(edge, kind, cached)
    decision = kind.decide(_awake(edge, cached), owned, now, set())
    if not decision:
        for event in decision.events:
            edge.record(cached, event)
        return decision.look_again
    taken: set[str] = set()
    known: Known | None = None
    for _ in range(ROUNDS):
        try:
            known = known or await _read(edge, kind, key)
            now = edge.now()
            decision = kind.decide(_awake(edge, known.owner), known.children, now, taken)
            if not decision:
                return decision.look_again
            known = await _carry_out(edge, kind, known, decision, taken)
            if decision.more:
                return NEXT_BATCH
        except NotFound:
            return None
        except Conflict:
            known = None  # somebody wrote meanwhile: what was decided may not hold any more
    return 1.0


def _awake(edge: Edge, owner: Json) -> Json:
    """The object as it is decided upon: a deadline is put off by what the machine has slept since the start."""
    seconds, started = (
        owner["spec"].get("activeDeadlineSeconds"),
        status_of(owner).get("startTime"),
    )
    slept = 0.0 if seconds is None or started is None else edge.slept(parse_time(started))
    return {**owner, "spec": {**owner["spec"], "activeDeadlineSeconds": seconds + slept}} if slept else owner


@dataclass(frozen=True)
class Known:
    """An owner and its children as the API has them: read, or answered to a write of ours."""

    owner: Json
    children: list[Json]


async def _read(edge: Edge, kind: Kind, key: Key) -> Known:
    """The children are read after the owner, as `job_counts` needs it."""
    owner = await edge.cluster.get(kind.resource, key[1], key[0])
    return Known(owner, await _children(edge, kind, owner))


async def _children(edge: Edge, kind: Kind, owner: Json) -> list[Json]:
    """The owner's children, and what else its decision looks at, as stored now."""
    namespace, selector = owner["metadata"]["namespace"], of.selector_text(kind.labels(owner))
    listing = await edge.cluster.list(kind.children, namespace, label_selector=selector)
    children = of.owned_by(owner, listing.items)
    for related in kind.related:
        where = namespace if related.resource.namespaced else None
        others = await edge.cluster.list(related.resource, where)
        children += [obj for obj in others.items if related.belongs(owner, obj)]
    return children


def _cached_related(edge: Edge, kind: Kind, owner: Json) -> list[Json]:
    namespace = owner["metadata"]["namespace"]
    return [
        obj
        for related in kind.related
        for obj in edge.view.in_namespace(related.resource, namespace if related.resource.namespaced else "")
        if related.belongs(owner, obj)
    ]


async def _carry_out(
    edge: Edge, kind: Kind, known: Known, decision: Decision, taken: set[str]
) -> Known | None:
    """Write; what is known then, or None where it must be read again. An owner that is gone raises NotFound."""
    owner = known.owner
    if decision.status is not None:
        wanted = {**owner, "status": decision.status}
        owner = await edge.cluster.replace(kind.resource, wanted, subresource="status")
    for event in decision.events:
        edge.record(owner, event)
    written = await _write_children(edge, owner, decision, taken)
    if written is None:
        return None
    by_uid = {child["metadata"]["uid"]: child for child in (*known.children, *written)}
    owner = by_uid.pop(owner["metadata"]["uid"], owner)
    return Known(owner, list(by_uid.values()))


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
        made = await edge.cluster.create(resource, obj)
    except AlreadyExists:
        try:
            there = await edge.cluster.get(resource, metadata["name"], metadata.get("namespace"))
        except NotFound:
            return None
        if controller_uid(there) != owner["metadata"]["uid"]:
            taken.add(metadata["name"])
        return None
    except ApiError as error:
        if isinstance(error, REFUSED):
            edge.record(owner, Event("FailedCreate", f"Error creating: {error.message}", "Warning"))
            await say_failure(edge, owner, "FailedCreate", error.message)
        raise
    if event := _success(owner, obj, "create"):
        edge.record(owner, event)
    return made


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
    """The condition that tells why an owner lacks children, of the kinds that have one."""
    resource, metadata = resource_of(owner), owner["metadata"]
    if resource not in (DEPLOYMENTS, REPLICA_SETS):
        return
    failure = {"type": replica_set.FAILURE, "status": "True", "reason": reason, "message": message}
    try:
        there = await edge.cluster.get(resource, metadata["name"], metadata.get("namespace"))
        status = status_of(there)
        before = list(sequence(status, "conditions"))
        after = with_condition(before, failure, edge.now(), stamp="lastTransitionTime")
        if after != before:
            await edge.cluster.replace(
                resource, {**there, "status": {**status, "conditions": after}}, subresource="status"
            )
    except ApiError as error:
        _log.warning("%s %s: %s", resource.kind, metadata["name"], error)


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


async def sync_service(edge: Edge, key: Key) -> None:
    """Bring one Service's EndpointSlices to what they should be. Slices may lag: what they say is not counted."""
    cached = edge.view.get(SERVICES, *key)
    if cached is None:
        return
    slices = of.owned_by(cached, edge.view.children(ENDPOINT_SLICES, SERVICES, key))
    decision = service.decide(cached, edge.view.in_namespace(PODS, key[0]), slices)
    await _write_children(edge, cached, decision, set())
