"""The replicas of a job as its Pods show them: changes, failures, and their progress."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from steelyard.operator.children import Children
from steelyard.operator.desired import Precondition, require_unchanged
from steelyard.operator.training.model import Counts, JobStatus, Replica, ReplicaId, Tally, TrainingJob
from steelyard.operator.training.observed.pods import ObservedPod, observe_pod
from steelyard.operator.training.policies.restart import UNKNOWN_END, ReplicaFailure, replicas_in_scope
from steelyard.operator.training.replica_objects import leader
from steelyard_common.awake import pause_lasts
from steelyard_common.types import Json

ENDED = frozenset({"Succeeded", "Failed"})
RESULTS_PAUSE = timedelta(seconds=5)
"""Longest wait, after a job's success, for the end of its leading replica, whose last message is the result."""


@dataclass(frozen=True)
class ObservedJob:
    """A job and its children. `job.status` is what earlier reconciliations wrote, before anything new is observed."""

    job: TrainingJob
    children: Children

    @cached_property
    def pods(self) -> Mapping[ReplicaId, tuple[ObservedPod, ...]]:
        """The job's own Pods by replica, the newest attempt last."""
        by_replica: dict[ReplicaId, list[ObservedPod]] = {}
        for pod in self._pods:
            by_replica.setdefault(pod.replica_id, []).append(pod)
        return {
            replica_id: tuple(sorted(pods, key=lambda pod: pod.attempt))
            for replica_id, pods in by_replica.items()
        }

    @cached_property
    def _pods(self) -> tuple[ObservedPod, ...]:
        own = self.children.list_pods(self.job.resource)
        return tuple(observed for pod in own if (observed := observe_pod(pod, self.job)))

    @cached_property
    def pods_without_replica(self) -> tuple[Json, ...]:
        """Own Pods whose labels name no replica any more."""
        labelled = {pod.uid for pod in self._pods}
        own = self.children.list_pods(self.job.resource)
        return tuple(pod for pod in own if pod["metadata"]["uid"] not in labelled)

    @cached_property
    def orphan_uids(self) -> frozenset[str]:
        """Uids of Pods that the edge is about to adopt."""
        return frozenset(orphan["metadata"]["uid"] for orphan in self.children.orphans)

    def current(self, replica: Replica) -> ObservedPod | None:
        """The Pod of the attempt that should run."""
        for pod in self.pods.get(replica.replica_id, ()):
            if pod.attempt == replica.attempt and replica.uid in {"", pod.uid}:
                return pod
        return None

    def list_outdated(self) -> Iterator[ObservedPod]:
        """Pods that should go: those of earlier attempts, and of replicas that the job has no more."""
        for pod in self._pods:
            replica = self.job.status.replicas.get(pod.replica_id)
            if replica is not None and pod.attempt < replica.attempt:
                yield pod


def update_status(observed: ObservedJob) -> JobStatus:
    """Add to the status what the Pods show, without a decision about replicas that have failed."""
    status = observed.job.status
    replicas: dict[ReplicaId, Replica] = {}
    for replica_id in observed.job.replica_ids:
        # The Pod's name is on record, so that the Pod is still looked for when the job no longer has the replica.
        pod = observed.job.replica_name(replica_id)
        known = replace(status.replicas.get(replica_id, Replica(replica_id)), pod=pod)
        replicas[replica_id] = _update_replica(observed, known)
    for replica_id, pods in observed.pods.items():
        if replica_id not in replicas:
            known = status.replicas.get(replica_id, Replica(replica_id, pod=pods[-1].name))
            # The job has this replica no more. Its attempt is raised: its Pod is outdated even if it comes back.
            attempt = pods[-1].attempt
            if known.attempt <= attempt:
                known = replace(known, attempt=attempt + 1, uid="", phase="Pending", in_place=0)
            replicas[replica_id] = known
    # Orphans become the job's own in the next reconciliation: until then, what is on record of their replicas stays.
    adopted = {pod["metadata"]["name"] for pod in observed.children.orphans}
    for replica_id, known in status.replicas.items():
        if replica_id not in replicas and known.pod in adopted:
            replicas[replica_id] = known
    return replace(status, replicas=replicas)


def _update_replica(observed: ObservedJob, replica: Replica) -> Replica:
    newest = observed.pods.get(replica.replica_id, ())[-1:]
    if newest and newest[0].attempt > replica.attempt:  # adopted from an earlier job that had got so far
        replica = replace(replica, attempt=newest[0].attempt, uid="", phase="Pending", in_place=0)
    pod = observed.current(replica)
    # An end on record is final: a Pod that comes back, or a stale cache, must not take a success or failure back.
    if pod is None or replica.phase in ENDED:
        return replica
    phase, code, reason = replica.phase, replica.exit_code, replica.reason
    # A Pod that exits with 0 because it was asked to end has not done its work.
    if pod.phase == "Succeeded" and not pod.disruption:
        phase, code, reason = "Succeeded", 0, pod.termination.reason if pod.termination else ""
    elif pod.phase != "Failed" and not pod.disruption:
        # The reason of the last termination stays; that of a wait which is over does not.
        last_reason = replica.reason if replica.exit_code is not None or replica.restarts else ""
        waiting = pod.waiting if pod.phase == "Pending" else ""
        phase, reason = pod.phase, waiting or last_reason
    started = pod.start_time or replica.started
    new = (pod.uid, pod.node, started, phase, code, reason)
    if new == (replica.uid, replica.node, replica.started, replica.phase, replica.exit_code, replica.reason):
        return replica  # the usual case: a copy would cost as much as all of the above
    return replace(
        replica, uid=pod.uid, node=pod.node, started=started, phase=phase, exit_code=code, reason=reason
    )


def removal_preconditions(observed: ObservedJob, status: JobStatus) -> tuple[Precondition, ...]:
    """Require that no Pod of a removed replica is left before the status forgets the replica.

    A new process may not have read that Pod yet; once forgotten, nothing would keep new Pods from meeting it.
    """
    known = observed.job.status.replicas
    return tuple(
        Precondition("v1", "Pod", known[replica_id].pod)
        for replica_id in sorted(known.keys() - status.replicas.keys())
    )


def raises_attempts(before: JobStatus, after: JobStatus) -> bool:
    """Return whether a status makes existing Pods outdated; it must be on record before anything is done."""
    return any(
        replica.attempt > before.replicas.get(replica_id, Replica(replica_id)).attempt
        for replica_id, replica in after.replicas.items()
    )


# ---- failures


def failures(observed: ObservedJob, status: JobStatus, now: datetime) -> tuple[ReplicaFailure, ...]:
    """Return the replicas that failed, or were ended, since the status was written.

    The operator waits for a replica on a lost node. But if replicas that restart together with it fail meanwhile, the
    lost node is their cause, and that replica has failed as well.
    """
    candidates = (_failure(observed, status.replicas[id], now) for id in observed.job.replica_ids)
    failed = tuple(failure for failure in candidates if failure is not None)
    return (*failed, *_causes(observed, status, failed))


def _causes(
    observed: ObservedJob, status: JobStatus, failed: Sequence[ReplicaFailure]
) -> Iterator[ReplicaFailure]:
    failed_ids = {failure.replica_id for failure in failed}
    for replica_id in observed.job.replica_ids:
        replica = status.replicas[replica_id]
        pod = observed.current(replica)
        if pod is None or pod.lost_since is None or replica_id in failed_ids or replica.phase in ENDED:
            continue
        # A silent node breaks the others' collective operations: the replica on it is the cause, and restarts with
        # them.
        if failed_ids & replicas_in_scope(
            observed.job, replica_id, observed.job.roles[replica_id.role].scope
        ):
            yield _node_failure(replica, pod, pod.lost_since)


def _node_failure(replica: Replica, pod: ObservedPod, since: datetime) -> ReplicaFailure:
    return ReplicaFailure(
        replica.replica_id, replica.attempt, pod.name, pod.uid, since, disruption="NodeLost"
    )


def _failure(observed: ObservedJob, replica: Replica, now: datetime) -> ReplicaFailure | None:
    if replica.phase in ENDED:
        return None
    pod = observed.current(replica)
    if pod is None:
        # Nothing was ever seen of its Pod: it is only not created yet, or the cache does not show it yet.
        if not replica.uid or replica.uid in observed.orphan_uids:
            return None
        return ReplicaFailure(
            replica.replica_id, replica.attempt, replica.pod, replica.uid, now, disruption="Deleted"
        )
    termination = pod.termination or UNKNOWN_END
    failure = ReplicaFailure(replica.replica_id, replica.attempt, pod.name, pod.uid, now, termination)
    if pod.disruption:
        return replace(failure, disruption=pod.disruption, at=pod.disrupted or now)
    if pod.phase == "Failed":
        return replace(failure, at=termination.at or now)
    # A silent node may come back with its Pods still running: they are given up only after a while.
    if pod.lost_since is not None:
        limit = timedelta(seconds=observed.job.settings.node_lost_seconds)
        if now >= pod.lost_since + limit:
            return _node_failure(replica, pod, pod.lost_since)
    # The kubelet's restarts are compared with those on record, so that each counts once, however often it is observed.
    if pod.in_place > replica.in_place:
        last = pod.last_termination or UNKNOWN_END
        return replace(failure, termination=last, at=last.at or now, in_place=pod.in_place)
    return None


def failure_preconditions(
    observed: ObservedJob, failed: Iterable[ReplicaFailure], restarted: Iterable[ReplicaId]
) -> tuple[Precondition, ...]:
    """Require at the API what failures were concluded from, before they are put on record.

    A Pod that has vanished is gone; a Pod that was given up is as the cache shows it; a replica that restarts
    although the cache showed no Pod is without a Pod, so that no Pod of an earlier attempt can appear together with
    the next one.
    """
    failed = tuple(failed)
    concerned = (*(failure.replica_id for failure in failed), *restarted)
    absent = {replica_id for replica_id in concerned if not observed.pods.get(replica_id)}
    given_up = [
        observed.current(Replica(failure.replica_id, failure.attempt, uid=failure.uid))
        for failure in failed
        if failure.disruption and failure.termination is UNKNOWN_END
    ]
    adopted = {orphan["metadata"]["name"] for orphan in observed.children.orphans}
    names = (observed.job.replica_name(replica_id) for replica_id in sorted(absent))
    return (
        *(Precondition("v1", "Pod", name) for name in names if name not in adopted),
        *(require_unchanged(pod.pod) for pod in given_up if pod is not None),
    )


# ---- how far the replicas have come


def tally(observed: ObservedJob, status: JobStatus) -> Tally:
    """Count replicas by type; active are those whose Pod of the current attempt runs and is not being deleted."""
    counts = {role: _counts(observed, status, role) for role in observed.job.roles}
    succeeded = (replica for replica in _present(observed, status) if replica.phase == "Succeeded")
    return Tally(counts, frozenset(replica.replica_id for replica in succeeded))


def _present(observed: ObservedJob, status: JobStatus) -> Iterator[Replica]:
    ids = observed.job.replica_ids
    return (status.replicas[replica_id] for replica_id in ids if replica_id in status.replicas)


def _counts(observed: ObservedJob, status: JobStatus, role: str) -> Counts:
    own = [replica for replica in _present(observed, status) if replica.replica_id.role == role]
    running = (observed.current(replica) for replica in own if replica.phase not in ENDED)
    return Counts(
        active=sum(pod is not None and pod.active for pod in running),
        succeeded=sum(replica.phase == "Succeeded" for replica in own),
        failed=sum(replica.phase == "Failed" for replica in own),
    )


def results_due(observed: ObservedJob, now: datetime) -> datetime | None:
    """Time until which a job that has succeeded waits for its leading replica, whose last message is the result.

    None if that replica has ended, does not exist, or serves the others. MXNet's scheduler ends a moment before its
    workers.
    """
    lead = leader(observed.job)
    pods = observed.pods.get(lead, ()) if lead.role == "Worker" else ()
    if not pods or pods[-1].phase != "Running" or pods[-1].deleting is not None:
        return None
    terminations = (pod.termination for own in observed.pods.values() for pod in own)
    ends = [termination.at for termination in terminations if termination and termination.at]
    waits = ends and pause_lasts(max(ends), RESULTS_PAUSE.total_seconds(), now)
    return max(ends) + RESULTS_PAUSE if waits else None


def results(observed: ObservedJob) -> Json | None:
    """Return the last message of the leading replica, if it is a JSON object."""
    # The newest attempt first: an earlier one may have left a message before it failed.
    for pod in reversed(observed.pods.get(leader(observed.job), ())):
        if pod.termination is not None and pod.termination.message:
            try:
                message = json.loads(pod.termination.message)
            except ValueError:
                return None
            return message if isinstance(message, dict) else None
    return None
