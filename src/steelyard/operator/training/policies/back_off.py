"""Limit of a job's restarts, and the pause before each.

Every restart counts, whichever program made it: the operator (of a Pod, a type or the whole job) or the kubelet in
place. Only disruptions (see `restart.py`), and failures that a rule exempts, do not count; recent ones delay the next
restart, so that a Pod which a node evicts again and again makes no busy loop.
"""

from datetime import datetime, timedelta

from steelyard.operator.settings import TrainingSettings
from steelyard.operator.training.model import JobStatus, TrainingJob
from steelyard_common.backoff import backoff_seconds
from steelyard_kube.times import parse_time


def limit(job: TrainingJob) -> int | None:
    """Return how many restarts are allowed in all; one more failure fails the job. None means no limit."""
    given = job.policy.backoff_limit
    return given if given is not None else job.settings.backoff_limit


def is_spent(job: TrainingJob, restarts: int) -> bool:
    """Return whether the operator may not make the last of a number of restarts: they are more than allowed."""
    allowed = limit(job)
    return allowed is not None and restarts > allowed


def is_reached(job: TrainingJob, restarts: int) -> bool:
    """Return whether a number of restarts ends the job; the last one is the kubelet's.

    As in v1, that is once their sum has reached the limit; a limit of 0 allows none.
    """
    allowed = limit(job)
    return allowed is not None and restarts >= max(allowed, 1)


def restart_at(job: TrainingJob, status: JobStatus, counted: bool, now: datetime) -> datetime | None:
    """Return the earliest time of the restart that was just recorded; None if it may begin at once.

    The first restart never waits; each further one waits twice as long as the one before it, up to a limit.
    """
    before = status.restarts - 1 if counted else _recent_disruptions(status, job.settings, now) - 1
    first, longest = job.settings.restart_delay_seconds, job.settings.longest_restart_delay_seconds
    if before < 1 or not first:
        return status.restart_at
    after = now + timedelta(seconds=backoff_seconds(before, first, longest))
    return max(after, status.restart_at) if status.restart_at else after


def _recent_disruptions(status: JobStatus, settings: TrainingSettings, now: datetime) -> int:
    """Count the recorded restarts of the last minutes that use up no limit."""
    since = now - timedelta(seconds=2 * settings.longest_restart_delay_seconds)
    causes = (
        failure for failure in status.failures if not failure["counted"] and not failure.get("consequence")
    )
    return sum(parse_time(failure["time"]) > since for failure in causes)


def message(job: TrainingJob) -> str:
    """Make the message of the condition Failed, in v1's words."""
    return f"Job {job.name} has failed because it has reached the specified backoff limit"
