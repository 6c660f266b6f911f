"""How long a job may take: `activeDeadlineSeconds` after its start, which a suspension sets back."""

from dataclasses import replace
from datetime import datetime, timedelta

from steelyard.awake import Sleeps
from steelyard.operator.training.model import Memory, TrainingJob


def at(job: TrainingJob, memory: Memory) -> datetime | None:
    """When the job's time is over, if it has begun and has an end: also the time of the next look."""
    if job.policy.deadline is None or memory.started is None:
        return None
    return later(memory.started, job.policy.deadline)


def awake(job: TrainingJob, sleeps: Sleeps) -> TrainingJob:
    """The job with its deadline put off by what the machine has slept since its start."""
    started, seconds = job.memory.started, job.policy.deadline
    slept = 0.0 if started is None or seconds is None else sleeps.since(started)
    if not slept or seconds is None:
        return job
    return replace(job, policy=replace(job.policy, deadline=seconds + round(slept)))


def later(moment: datetime, seconds: int) -> datetime | None:
    """So many seconds after a moment; None beyond the last year that a time has, which is never."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return None


def exceeded(job: TrainingJob, memory: Memory, now: datetime) -> bool:
    end = at(job, memory)
    return end is not None and now >= end


def message(job: TrainingJob) -> str:
    """v1's words for the condition Failed."""
    return f"{job.kind} {job.name} has failed because it was active longer than specified deadline"
