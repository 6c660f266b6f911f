"""Deadline of a job: `activeDeadlineSeconds` after its start, which a suspension sets back."""

from dataclasses import replace
from datetime import datetime, timedelta

from steelyard.operator.training.model import JobStatus, TrainingJob
from steelyard_common.awake import Sleeps


def at(job: TrainingJob, status: JobStatus) -> datetime | None:
    """Return when the job's time is over; None if it has not begun or has no deadline."""
    if job.policy.deadline is None or status.started is None:
        return None
    return later(status.started, job.policy.deadline)


def extend_by_sleep(job: TrainingJob, sleeps: Sleeps) -> TrainingJob:
    """Put the job's deadline off by the time that the machine has slept since its start."""
    started, seconds = job.status.started, job.policy.deadline
    slept = 0.0 if started is None or seconds is None else sleeps.since(started)
    if not slept or seconds is None:
        return job
    return replace(job, policy=replace(job.policy, deadline=seconds + round(slept)))


def later(moment: datetime, seconds: int) -> datetime | None:
    """Add seconds to a time; None if the result is beyond the calendar, which means never."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return None


def is_exceeded(job: TrainingJob, status: JobStatus, now: datetime) -> bool:
    end = at(job, status)
    return end is not None and now >= end


def message(job: TrainingJob) -> str:
    """Make the message of the condition Failed, in v1's words."""
    return f"{job.kind} {job.name} has failed because it was active longer than specified deadline"
