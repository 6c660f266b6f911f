"""`runPolicy.suspend`: nothing of the job runs, until it is taken back. Kueue admits jobs this way.

What ran before runs anew afterwards: every replica gets a new attempt when the suspension is recorded, so that the
Pods which are still there are of an earlier one. Counters stay.
"""

from dataclasses import replace
from datetime import datetime

from steelyard.operator.training import status
from steelyard.operator.training.model import Memory, Replica, TrainingJob


def wanted(job: TrainingJob) -> bool:
    return job.policy.suspend


def is_on(memory: Memory) -> bool:
    """Whether the suspension is on record."""
    return status.holds(memory.conditions, "Suspended")


def begun(job: TrainingJob, memory: Memory) -> tuple[Memory, tuple[status.Change, ...]]:
    """A suspension that is not on record yet: what to write. The Pods are deleted in the next sync."""
    known = {place: Replica(place, pod=job.replica_name(place)) for place in job.places}
    replicas = {
        place: Replica(place, attempt=each.attempt + 1, pod=each.pod, restarts=each.restarts)
        for place, each in (known | dict(memory.replicas)).items()
    }
    return replace(memory, replicas=replicas, restart_at=None), status.suspended(job)


def ended(job: TrainingJob, memory: Memory, now: datetime) -> tuple[Memory, tuple[status.Change, ...]]:
    """A suspension that was taken back: the clocks begin now."""
    return replace(memory, started=now, restart_at=None), (status.resumed(job),)
