"""Attempts of a step: Job `…-aN`, then `…-aN+1` when that one failed in a way that another may mend.

The number of the last attempt and the count of failures are in the status. Job N+1 may be created before the status
says so (the process may die between): its name says which it is, and creating it again changes nothing.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from steelyard.operator.children import Children, Outcome, job_outcome
from steelyard.operator.conditions import Attempts, Memory
from steelyard.operator.jobs import Step, job_and_config, job_name
from steelyard.operator.settings import OperatorSettings

Json = dict[str, Any]


@dataclass(frozen=True)
class Progress:
    """What to do for a step now: `memory` is what to remember, `outcome` what became of the attempt so far."""

    state: Literal["running", "succeeded", "failed"]
    outcome: Outcome
    memory: Memory
    create: tuple[Json, ...] = ()
    delete: tuple[Json, ...] = ()
    absent: tuple[tuple[str, str], ...] = ()
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
        return _start(step, replace(memory, started=memory.started or at.now), attempts, at)
    job = at.children.named("Job", job_name(at.resource, step, attempts.number))
    outcome = job_outcome(job, at.children, at.now, at.settings)
    deadline = _deadline(step, memory, at.now)
    if job is not None and job["metadata"]["uid"] != attempts.uid:
        memory = memory.with_attempts(step.name, replace(attempts, uid=job["metadata"]["uid"]))
    match outcome.state:
        case "succeeded":
            return Progress("succeeded", outcome, memory)
        case "missing" if not attempts.uid:
            # Not seen yet: either the cache lags, and creating it again meets it, or the process died before.
            return _again(step, memory, attempts, at)
        case "missing":
            name = job_name(at.resource, step, attempts.number)
            gone = Outcome("failed", "Disrupted", f"Job {name} was deleted", counted=False)
            return replace(_next(step, memory, gone, at), absent=(("Job", name),))
        case "failed":
            return _after_failure(step, memory, outcome, job, at)
        case _:
            return Progress("running", outcome, memory, next_look=_earliest(outcome.look_again, deadline))


def _after_failure(step: Step, memory: Memory, outcome: Outcome, job: Json | None, at: Situation) -> Progress:
    attempts = memory.attempts[step.name]
    counted = attempts.counted + 1 if outcome.counted else attempts.counted
    if outcome.permanent or counted >= at.settings.max_attempts:
        return Progress("failed", outcome, memory, delete=_live(job))
    if _live(job):  # a Pod on a lost node: its Job goes first, and is known gone before the next one comes
        return Progress("running", outcome, memory, delete=_live(job))
    return _next(step, memory, outcome, at)


def _next(step: Step, memory: Memory, outcome: Outcome, at: Situation) -> Progress:
    """The next attempt, unless the step's time is over."""
    attempts = memory.attempts[step.name]
    if at.now >= _deadline(step, memory, at.now):
        late = Outcome(
            "failed", "Timeout", f"not done after {step.deadline} s; last: {outcome.message}", permanent=True
        )
        return Progress("failed", late, memory)
    counted = attempts.counted + 1 if outcome.counted else attempts.counted
    return _start(step, memory, replace(attempts, counted=counted), at, outcome)


def _start(
    step: Step, memory: Memory, attempts: Attempts, at: Situation, last: Outcome | None = None
) -> Progress:
    following = Attempts(attempts.number + 1, attempts.counted)
    started = _again(step, memory.with_attempts(step.name, following), following, at)
    return replace(started, outcome=last or started.outcome)


def _again(step: Step, memory: Memory, attempts: Attempts, at: Situation) -> Progress:
    deadline = _deadline(step, memory, at.now)
    seconds = int((deadline - at.now).total_seconds())
    made = job_and_config(at.resource, step, attempts.number, seconds, at.settings)
    return Progress("running", Outcome("running"), memory, create=made, next_look=deadline)


def _deadline(step: Step, memory: Memory, now: datetime) -> datetime:
    return (memory.started or now) + timedelta(seconds=step.deadline)


def _live(job: Json | None) -> tuple[Json, ...]:
    """The Job, if it has not ended by itself."""
    if job is None or job["metadata"].get("deletionTimestamp"):
        return ()
    conditions = (job.get("status") or {}).get("conditions") or ()
    ended = any(each["type"] in {"Complete", "Failed"} and each["status"] == "True" for each in conditions)
    return () if ended else (job,)


def _earliest(*times: datetime | None) -> datetime | None:
    return min((each for each in times if each is not None), default=None)
