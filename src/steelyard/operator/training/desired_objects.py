"""The objects to create and delete for a job that runs, from its status and the observed objects."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from steelyard.operator.desired import Precondition
from steelyard.operator.names import owner_reference
from steelyard.operator.training import replica_objects
from steelyard.operator.training.model import JobStatus, ReplicaId, Scope, Tally, TrainingJob
from steelyard.operator.training.observed.pods import ObservedPod
from steelyard.operator.training.observed.replicas import ENDED, ObservedJob
from steelyard.operator.training.policies import autoscaler, depends_on, gang
from steelyard_common.awake import pause_lasts
from steelyard_common.types import Json
from steelyard_kube.objects import is_deleting, kind_and_name, read_labels

_WIDTH: dict[Scope, int] = {"Pod": 0, "ReplicaType": 1, "Job": 2}
MAX_OBJECTS = 256
"""Most objects that one reconciliation creates for a job, so that other jobs have their turn."""
MAX_HOST_NAMES = 200_000
"""Most host names in the Pods of one reconciliation: each Pod may contain those of all replicas."""
NEXT_BATCH = timedelta(milliseconds=50)
"""Pause before the next reconciliation, if there is more to create than one does."""


def batch_size(job: TrainingJob) -> int:
    """Number of objects that one reconciliation creates for a job."""
    return max(min(MAX_OBJECTS, MAX_HOST_NAMES // max(job.total, 1)), 16)


def to_create(observed: ObservedJob, status: JobStatus, tally: Tally, now: datetime) -> tuple[Json, ...]:
    """Return one batch of the missing objects: first those that Pods need, then Pods."""
    return tuple(islice(_missing(observed, status, tally, now), batch_size(observed.job)))


def _missing(observed: ObservedJob, status: JobStatus, tally: Tally, now: datetime) -> Iterator[Json]:
    job, children = observed.job, observed.children
    existing = {kind_and_name(obj) for obj in (*children.objects, *children.orphans)}
    yield from (obj for obj in common_objects(job) if kind_and_name(obj) not in existing)
    services = frozenset(name for kind, name in existing if kind == "Service")
    yield from replica_objects.services(job, services)
    # Volcano's contract: a group that is Pending has no room, and Pods made before would wait for nodes one by one.
    if gang.is_admitted(job, children) and not waits_for_restart(job, status, now):
        for replica_id in missing_replicas(observed, status, tally):
            yield replica_objects.pod(job, replica_id, status.replicas[replica_id].attempt)


def common_objects(job: TrainingJob) -> Iterator[Json]:
    """Objects that a job has once, besides those of its replicas."""
    for extra in job.framework.extras(job):
        labels = {**read_labels(extra), **replica_objects.selector(job)}
        metadata = {"namespace": job.namespace, **extra["metadata"], "labels": labels}
        yield {**extra, "metadata": {**metadata, "ownerReferences": [owner_reference(job.resource)]}}
    yield from (obj for obj in (gang.pod_group(job), autoscaler.pod_autoscaler(job)) if obj)


def waits_for_restart(job: TrainingJob, status: JobStatus, now: datetime) -> bool:
    """Return whether a restart is due later.

    A time that is further ahead than the longest delay was noted before the clock was set back, and does not count.
    """
    if status.restart_at is None or now >= status.restart_at:
        return False
    return pause_lasts(status.restart_at, job.settings.longest_restart_delay_seconds + 1, now)


def missing_replicas(observed: ObservedJob, status: JobStatus, tally: Tally) -> Iterator[ReplicaId]:
    """Replicas without a Pod that may have one now.

    Replicas that restart together must all have ended first: a new Pod that met an old one would be lost with it.
    """
    job = observed.job
    held = depends_on.find_blocked_roles(job, tally, observed.children)
    taken = {orphan["metadata"]["name"] for orphan in observed.children.orphans if orphan["kind"] == "Pod"}
    outdated = {pod.replica_id for pod in observed.list_outdated() if pod.replica_id.role in job.roles}
    for replica_id in job.replica_ids:
        # A Pod of an earlier attempt still has the name: it must be gone before the next one can be created.
        if observed.pods.get(replica_id) or status.replicas[replica_id].phase in ENDED:
            continue
        if replica_id.role in held or job.replica_name(replica_id) in taken:
            continue
        if not any(_restart_together(job, replica_id, other) for other in outdated):
            yield replica_id


def _restart_together(job: TrainingJob, one: ReplicaId, other: ReplicaId) -> bool:
    width = max(_widest_scope(job, one), _widest_scope(job, other))
    return width == _WIDTH["Job"] or (width == _WIDTH["ReplicaType"] and one.role == other.role)


def _widest_scope(job: TrainingJob, replica_id: ReplicaId) -> int:
    """Width of the widest scope in which the replica may have to restart."""
    scopes = (
        rule.scope
        for rule in job.rules
        if rule.scope is not None and (not rule.roles or replica_id.role in rule.roles)
    )
    return max(_WIDTH[scope] for scope in (job.roles[replica_id.role].scope, *scopes))


def creation_preconditions(status: JobStatus, create: Sequence[Json]) -> tuple[Precondition, ...]:
    """Require that a Pod which is to be created again does not exist.

    The cache of a new process may show the job but not yet a Pod of an earlier attempt.
    """
    names = {obj["metadata"]["name"] for obj in create if obj["kind"] == "Pod"}
    again = (replica for replica in status.replicas.values() if replica.attempt and replica.pod in names)
    return tuple(Precondition("v1", "Pod", replica.pod) for replica in again)


def to_delete(observed: ObservedJob) -> Iterator[Json]:
    """Outdated Pods, Pods without a replica's labels, and Services of replicas that the job has no more."""
    for pod in observed.list_outdated():
        # A Pod that is being deleted has its grace period; another delete would change nothing.
        if pod.deleting is None:
            yield pod.pod
    yield from (pod for pod in observed.pods_without_replica if not is_deleting(pod))
    names = replica_objects.service_names(observed.job)
    for service in observed.children.list_kind("Service"):
        if not is_deleting(service) and service["metadata"]["name"] not in names:
            yield service


def to_force_delete(observed: ObservedJob, now: datetime) -> tuple[Json, ...]:
    """Pods on lost nodes that should have ended by now: no kubelet will ever confirm that they have."""
    return tuple(
        pod.pod for pod in _deleting_on_lost_nodes(observed) if now >= _give_up_at(observed.job, pod)
    )


def requeue_times(observed: ObservedJob, status: JobStatus) -> Iterator[datetime]:
    """Times at which something becomes due although nothing changes."""
    # No event comes when a pause is over: the work queue needs the time.
    if status.restart_at is not None:
        yield status.restart_at
    for pod in _deleting_on_lost_nodes(observed):
        yield _give_up_at(observed.job, pod)
    for pods in observed.pods.values():
        for pod in pods:
            if pod.lost_since is not None and pod.deleting is None and pod.phase not in ENDED:
                yield pod.lost_since + timedelta(seconds=observed.job.settings.node_lost_seconds)


def _deleting_on_lost_nodes(observed: ObservedJob) -> Iterable[ObservedPod]:
    return (pod for pods in observed.pods.values() for pod in pods if pod.deleting and pod.lost_since)


def _give_up_at(job: TrainingJob, pod: ObservedPod) -> datetime:
    assert pod.deleting is not None
    return pod.deleting + timedelta(seconds=job.settings.termination_seconds)
