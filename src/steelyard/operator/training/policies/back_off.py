"""How many restarts a job may have, and how long it waits before each.

Every restart counts, whoever made it: the operator, of a Pod, a type or the whole job, and the kubelet in place.
Only disruptions (`restart.py` says which) do not count, and what a rule spares; those of the last while make the next
one wait, so that a Pod which a node throws out again and again is no busy loop.
"""

from datetime import datetime, timedelta

from steelyard.operator.conditions import parse_time
from steelyard.operator.settings import TrainingSettings
from steelyard.operator.training.model import Memory, TrainingJob


def limit(job: TrainingJob) -> int | None:
    """Restarts allowed in all; one more failure fails the job. None: without end."""
    given = job.policy.backoff_limit
    return given if given is not None else job.settings.backoff_limit


def spent(job: TrainingJob, restarts: int) -> bool:
    """Whether so many restarts are more than are allowed."""
    allowed = limit(job)
    return allowed is not None and restarts > allowed


def restart_at(job: TrainingJob, memory: Memory, counted: bool, now: datetime) -> datetime | None:
    """When the restart that was just noted may begin; None: at once, as the first always may."""
    before = memory.restarts - 1 if counted else _recent(memory, job.settings, now) - 1
    if before < 1 or not job.settings.restart_delay_seconds:
        return memory.restart_at
    delay = job.settings.restart_delay_seconds * 2 ** min(before - 1, 30)
    after = now + timedelta(seconds=min(delay, job.settings.longest_restart_delay_seconds))
    return max(after, memory.restart_at) if memory.restart_at else after


def _recent(memory: Memory, settings: TrainingSettings, now: datetime) -> int:
    """Restarts that do not count, so short ago that they belong together, as far as they are remembered."""
    since = now - timedelta(seconds=2 * settings.longest_restart_delay_seconds)
    causes = (each for each in memory.failures if not each["counted"] and not each.get("consequence"))
    return sum(parse_time(each["time"]) > since for each in causes)


def message(job: TrainingJob) -> str:
    """v1's words for the condition Failed."""
    return f"Job {job.name} has failed because it has reached the specified backoff limit"
