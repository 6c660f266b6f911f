"""Attempts of a step: Job `…-aN`, then `…-aN+1` when that one failed in a way that another may mend.

The number of the last attempt and the count of failures are in the status. Job N+1 may be created before the status
says so (the process may die between): its name says which it is, and creating it again changes nothing.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from steelyard.operator.children import Children, Outcome, job_outcome, live
from steelyard.operator.conditions import Attempts, Memory
from steelyard.operator.desired import Premise, unchanged
from steelyard.operator.jobs import Step, job_and_config, job_name
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.times import MAX_SECONDS, later
from steelyard.types import Json


@dataclass(frozen=True)
class Progress:
    """What to do for a step now: `memory` is what to remember, `outcome` what became of the attempt so far."""

    state: Literal["running", "succeeded", "failed"]
    outcome: Outcome
    memory: Memory
    create: tuple[Json, ...] = ()
    delete: tuple[Json, ...] = ()
    premises: tuple[Premise, ...] = ()
    next_look: datetime | None = None


@dataclass(frozen=True)
class Situation:
    """Everything that a decision is made from."""

    resource: Json
    children: Children
    now: datetime
    settings: OperatorSettings


def advance(step: Step, memory: Memory, at: Situation) -> Progress:
    """Start the step, follow its attempt, or start the next one."""
    attempts = memory.attempts.get(step.name, Attempts())
    if attempts.number == 0:
        memory = replace(memory, started=memory.started or at.now)
        return _start(step, memory, replace(attempts, started=at.now), at)
    job = at.children.named("Job", job_name(at.resource, step, attempts.number))
    outcome = job_outcome(job, at.children, at.now, at.settings)
    unrecorded = at.children.named("Job", job_name(at.resource, step, attempts.number + 1))
    if unrecorded is not None:  # the process died after it had made the next attempt
        counted = _counted(attempts, outcome)
        uid = unrecorded["metadata"]["uid"]
        recorded = memory.with_attempts(
            step.name, Attempts(attempts.number + 1, counted, uid=uid, started=attempts.started)
        )
        progress = advance(step, recorded, at)
        if progress.create:  # not before this one is on record: if it vanished, the status would know neither
            return Progress("running", progress.outcome, recorded)
        return progress
    if job is not None and job["metadata"]["uid"] != attempts.uid:
        memory = memory.with_attempts(step.name, replace(attempts, uid=job["metadata"]["uid"]))
    match outcome.state:
        case "succeeded":
            return Progress("succeeded", outcome, memory)
        case "missing" if not attempts.uid:
            # Not seen yet: the cache lags and creating it meets it, or the process died before it was made.
            following = Premise("batch/v1", "Job", job_name(at.resource, step, attempts.number + 1))
            return replace(_create(step, memory, attempts, at), premises=(following,))
        case "missing":
            name = job_name(at.resource, step, attempts.number)
            gone = Outcome("failed", "Disrupted", f"Job {name} was deleted", counted=False)
            premise = Premise("batch/v1", "Job", name)
            return replace(_next(step, memory, gone, at), premises=(premise,))
        case "failed":
            return _after_failure(step, memory, outcome, job, at)
        case _:
            look = _next_after(at.now, outcome.look_again, _deadline(step, attempts, at))
            return Progress("running", outcome, memory, next_look=look)


def attempted(step: Step, memory: Memory, at: Situation) -> dict[str, Json | None]:
    """The Jobs, by name, that may be the last attempt: the one on record, and the one that came after it if the
    process died before it was recorded.
    """
    number = memory.attempts.get(step.name, Attempts()).number
    names = [job_name(at.resource, step, each) for each in (number, number + 1) if each]
    return {name: at.children.named("Job", name) for name in names}


def as_seen(jobs: dict[str, Json | None]) -> tuple[Premise, ...]:
    """That the Jobs are, or are missing, as the cache shows them."""
    return tuple(unchanged(job) if job else Premise("batch/v1", "Job", name) for name, job in jobs.items())


def _after_failure(step: Step, memory: Memory, outcome: Outcome, job: Json | None, at: Situation) -> Progress:
    """A Job that still lives is deleted first, and only when it is known to be gone does the next one come.

    Its failure was concluded (a lost node, a missing image), so it must not have succeeded meanwhile.
    """
    attempts = memory.attempts[step.name]
    counted = _counted(attempts, outcome)
    alive = live(job)
    premises = tuple(unchanged(each) for each in alive)
    if outcome.permanent or counted >= at.settings.max_attempts:
        return Progress("failed", outcome, memory, premises=premises)
    if alive:
        return Progress("running", outcome, memory, delete=alive, premises=premises)
    return _next(step, memory, outcome, at)


def _next(step: Step, memory: Memory, outcome: Outcome, at: Situation) -> Progress:
    """The next attempt, unless the step's time is over."""
    attempts = memory.attempts[step.name]
    if at.now >= _deadline(step, attempts, at):
        message = f"not done after {step.deadline} s; last: {outcome.message}"
        return Progress("failed", Outcome("failed", "Timeout", message, permanent=True), memory)
    counted = _counted(attempts, outcome)
    return replace(_start(step, memory, replace(attempts, counted=counted), at), outcome=outcome)


def _counted(attempts: Attempts, outcome: Outcome) -> int:
    return attempts.counted + (outcome.state == "failed" and outcome.counted)


def _start(step: Step, memory: Memory, attempts: Attempts, at: Situation) -> Progress:
    following = replace(attempts, number=attempts.number + 1, uid="")
    return _create(step, memory.with_attempts(step.name, following), following, at)


def _create(step: Step, memory: Memory, attempts: Attempts, at: Situation) -> Progress:
    deadline = _deadline(step, attempts, at)
    seconds = min(int((deadline - at.now).total_seconds()), MAX_SECONDS)
    made = job_and_config(at.resource, step, attempts.number, seconds, at.settings)
    return Progress("running", Outcome("running"), memory, create=made, next_look=deadline)


def _deadline(step: Step, attempts: Attempts, at: Situation) -> datetime:
    """The machine's sleep since the start does not count."""
    started = attempts.started or at.now
    return later(started, step.deadline + at.settings.sleeps.since(started))


def _next_after(now: datetime, *times: datetime | None) -> datetime | None:
    return min((each for each in times if each is not None and each > now), default=None)
