"""How long a job may take: `activeDeadlineSeconds` after its start, which a suspension sets back."""

from datetime import datetime, timedelta

from steelyard.operator.training.model import Memory, TrainingJob


def at(job: TrainingJob, memory: Memory) -> datetime | None:
    """When the job's time is over, if it has begun and has an end: also the time of the next look."""
    if job.policy.deadline is None or memory.started is None:
        return None
    return memory.started + timedelta(seconds=job.policy.deadline)


def exceeded(job: TrainingJob, memory: Memory, now: datetime) -> bool:
    end = at(job, memory)
    return end is not None and now >= end


def message(job: TrainingJob) -> str:
    """v1's words for the condition Failed."""
    return f"{job.kind} {job.name} has failed because it was active longer than specified deadline"
