"""What to make and what to end for a job that goes on, from what its status says."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from steelyard.awake import pause_lasts
from steelyard.operator.desired import Precondition
from steelyard.operator.names import owner_reference
from steelyard.operator.training import replica_objects as replica
from steelyard.operator.training.model import Memory, Place, Scope, Tally, TrainingJob
from steelyard.operator.training.observed.pods import Seen
from steelyard.operator.training.observed.replicas import ENDED, Crew
from steelyard.operator.training.policies import autoscaler, gang
from steelyard.operator.training.policies import depends_on as depends
from steelyard.types import Json

_WIDTH: dict[Scope, int] = {"Pod": 0, "ReplicaType": 1, "Job": 2}


MOST = 256
"""Objects that one look makes for a job. Others' jobs have their turn before the next ones."""
NAMES = 200_000
"""Host names that are written into the Pods of one look: each may have those of all replicas."""
SOON = timedelta(milliseconds=50)
"""Until the next look, where there is more to make than one look does."""


def share(job: TrainingJob) -> int:
    """How many objects one look makes for the job."""
    return max(min(MOST, NAMES // max(job.total, 1)), 16)


def create(crew: Crew, memory: Memory, tally: Tally, now: datetime) -> tuple[Json, ...]:
    """What is missing, as much of it as is the job's share: first what Pods need, then Pods."""
    return tuple(islice(_missing(crew, memory, tally, now), share(crew.job)))


def _missing(crew: Crew, memory: Memory, tally: Tally, now: datetime) -> Iterator[Json]:
    job, children = crew.job, crew.children
    there = {(each["kind"], each["metadata"]["name"]) for each in (*children.objects, *children.orphans)}
    yield from (each for each in besides(job) if (each["kind"], each["metadata"]["name"]) not in there)
    yield from replica.services(job, frozenset(name for kind, name in there if kind == "Service"))
    if gang.admitted(job, children) and not waits(job, memory, now):
        for place in missing(crew, memory, tally):
            yield replica.pod(job, place, memory.replicas[place].attempt)


def besides(job: TrainingJob) -> Iterator[Json]:
    """What a job has once, other than its replicas."""
    yield from (_owned(job, each) for each in job.framework.extras(job))
    yield from (each for each in (gang.pod_group(job), autoscaler.wanted(job)) if each)


def _owned(job: TrainingJob, extra: Json) -> Json:
    metadata = extra["metadata"]
    labels = {**(metadata.get("labels") or {}), **replica.selector(job)}
    owned = {"namespace": job.namespace, **metadata, "labels": labels}
    return {**extra, "metadata": {**owned, "ownerReferences": [owner_reference(job.resource)]}}


def waits(job: TrainingJob, memory: Memory, now: datetime) -> bool:
    """Whether a restart is to come, and not yet.

    One that is further ahead than the longest delay was noted before the clock was set back.
    """
    if memory.restart_at is None or now >= memory.restart_at:
        return False
    return pause_lasts(memory.restart_at, job.settings.longest_restart_delay_seconds + 1, now)


def missing(crew: Crew, memory: Memory, tally: Tally) -> Iterator[Place]:
    """Replicas without a Pod, whose turn it is.

    What starts again together is ended together first: a new Pod that met one of the old would be lost with it.
    """
    held = depends.held(crew.job, tally, crew.children)
    taken = {each["metadata"]["name"] for each in crew.children.orphans if each["kind"] == "Pod"}
    going = {each.place for each in crew.outdated() if each.place.role in crew.job.roles}
    for place in crew.job.places:
        there = crew.pods.get(place) or memory.replicas[place].phase in ENDED
        name = crew.job.replica_name(place)
        if (
            there
            or place.role in held
            or name in taken
            or any(_together(crew.job, place, each) for each in going)
        ):
            continue
        yield place


def preconditions(crew: Crew, memory: Memory, create: Sequence[Json]) -> tuple[Precondition, ...]:
    """That no Pod of an earlier attempt is there which the cache does not show: a new process may have read the Pods
    before the job.
    """
    made = {each["metadata"]["name"] for each in create if each["kind"] == "Pod"}
    again = (each for each in memory.replicas.values() if each.attempt and each.pod in made)
    return tuple(Precondition("v1", "Pod", each.pod) for each in again)


def _together(job: TrainingJob, one: Place, other: Place) -> bool:
    width = max(_width(job, one), _width(job, other))
    return width == _WIDTH["Job"] or (width == _WIDTH["ReplicaType"] and one.role == other.role)


def _width(job: TrainingJob, place: Place) -> int:
    """Of the widest scope in which the replica may have to start again."""
    ruled = (
        rule.scope
        for rule in job.rules
        if rule.scope is not None and (not rule.roles or place.role in rule.roles)
    )
    return max(_WIDTH[each] for each in (job.roles[place.role].scope, *ruled))


def delete(crew: Crew) -> Iterator[Json]:
    """Pods of the past, and the Services of replicas that are no more."""
    for each in crew.outdated():
        if each.deleting is None:
            yield each.pod
    yield from (each for each in crew.nameless if not each["metadata"].get("deletionTimestamp"))
    names = replica.service_names(crew.job)
    for service in crew.children.of_kind("Service"):
        going = service["metadata"].get("deletionTimestamp")
        if not going and service["metadata"]["name"] not in names:
            yield service


def stuck(crew: Crew, now: datetime) -> tuple[Json, ...]:
    """Pods on a lost node whose time to end is over: nobody but us will say that they are gone."""
    return tuple(each.pod for each in _lost(crew) if now >= _given_up(crew.job, each))


def looks(crew: Crew, memory: Memory) -> Iterator[datetime]:
    """When something comes due by itself."""
    if memory.restart_at is not None:
        yield memory.restart_at
    for each in _lost(crew):
        yield _given_up(crew.job, each)
    for pods in crew.pods.values():
        for each in pods:
            if each.lost_since is not None and each.deleting is None and each.phase not in ENDED:
                yield each.lost_since + timedelta(seconds=crew.job.settings.node_lost_seconds)


def _lost(crew: Crew) -> Iterable[Seen]:
    return (each for pods in crew.pods.values() for each in pods if each.deleting and each.lost_since)


def _given_up(job: TrainingJob, pod: Seen) -> datetime:
    assert pod.deleting is not None
    return pod.deleting + timedelta(seconds=job.settings.termination_seconds)
