"""Suspension, `runPolicy.suspend`: no Pod of the job runs until it is resumed. Kueue admits jobs this way.

Every replica gets a new attempt when the suspension is recorded, so that Pods which still exist are outdated and the
job starts from new Pods when it resumes. Counters stay.
"""

from dataclasses import replace
from datetime import datetime

from steelyard.operator.training import conditions
from steelyard.operator.training.model import JobStatus, Replica, TrainingJob


def is_requested(job: TrainingJob) -> bool:
    return job.policy.suspend


def is_recorded(status: JobStatus) -> bool:
    """Return whether the status says that the job is suspended."""
    return conditions.holds(status.conditions, "Suspended")


def suspend(job: TrainingJob, status: JobStatus) -> tuple[JobStatus, tuple[conditions.ConditionChange, ...]]:
    """Record a new suspension. Its Pods are deleted by the next reconciliation."""
    known = {
        replica_id: Replica(replica_id, pod=job.replica_name(replica_id)) for replica_id in job.replica_ids
    }
    replicas = {
        replica_id: Replica(
            replica_id, attempt=replica.attempt + 1, pod=replica.pod, restarts=replica.restarts
        )
        for replica_id, replica in (known | dict(status.replicas)).items()
    }
    return replace(status, replicas=replicas, restart_at=None), conditions.suspension(job)


def resume(
    job: TrainingJob, status: JobStatus, now: datetime
) -> tuple[JobStatus, tuple[conditions.ConditionChange, ...]]:
    """Record the end of a suspension. Deadlines count from now."""
    return replace(status, started=now, restart_at=None), (conditions.resumption(job),)
