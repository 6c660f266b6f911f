"""Attempts of a step: Job `…-aN`, then `…-aN+1` when that one failed in a way that another may mend.

The number of the last attempt and the count of failures are in the status. Job N+1 may be created before the status
says so (the process may die between): its name says which it is, and creating it again changes nothing.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from steelyard.operator.children import NO_POD, Children, JobOutcome, job_outcome, live
from steelyard.operator.conditions import Attempts, History
from steelyard.operator.desired import Precondition, require_unchanged
from steelyard.operator.jobs import Step, job_and_config, job_name
from steelyard.operator.names import PLATFORM_ENTITY
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.times import MAX_SECONDS, later
from steelyard_common.types import Json
from steelyard_kube.objects import read_labels, true_condition
from steelyard_kube.times import format_time, parse_time

INPUT_MISSING = "InputMissing"
"""Code of a step whose input is not in storage yet."""
WAITING_FOR_INPUT = "WaitingForInput"
LONGEST_PAUSE = 600.0


@dataclass(frozen=True)
class StepProgress:
    """Decision about one step: `history` is what to write down, `outcome` the result of the attempt so far."""

    state: Literal["running", "succeeded", "failed"]
    outcome: JobOutcome
    history: History
    create: tuple[Json, ...] = ()
    delete: tuple[Json, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    requeue_at: datetime | None = None
    without_pod: tuple[Json, ...] = ()


@dataclass(frozen=True)
class ReconcileContext:
    """Arguments of a reconciliation: the resource, its children, the time and the settings."""

    resource: Json
    children: Children
    now: datetime
    settings: OperatorSettings


def advance(step: Step, history: History, context: ReconcileContext) -> StepProgress:
    """Start the step, follow its attempt, or start the next one."""
    attempts = history.attempts.get(step.name, Attempts())
    if attempts.number == 0:
        history = replace(history, started=history.started or context.now)
        return _start(step, history, replace(attempts, started=context.now), context)
    job = context.children.find("Job", job_name(context.resource, step, attempts.number))
    outcome = job_outcome(job, context.children, context.now, context.settings)
    if outcome.code == INPUT_MISSING and not outcome.permanent and waits_for_input(context.resource):
        outcome = replace(outcome, counted=False)
    unrecorded = context.children.find("Job", job_name(context.resource, step, attempts.number + 1))
    if unrecorded is not None:  # the process died after it had created the next attempt
        counted = _count_outcome(attempts, outcome)
        metadata = unrecorded["metadata"]
        # Time in which an input was waited for is not the step's.
        waited = outcome.code == INPUT_MISSING and not outcome.counted
        started = parse_time(metadata["creationTimestamp"]) if waited else attempts.started
        recorded = history.with_attempts(
            step.name, Attempts(attempts.number + 1, counted, uid=metadata["uid"], started=started)
        )
        progress = advance(step, recorded, context)
        # Another attempt waits until this one is on record: if its Job vanished, the status would name neither.
        if progress.create:
            return StepProgress("running", progress.outcome, recorded)
        return progress
    if job is not None and job["metadata"]["uid"] != attempts.uid:
        history = history.with_attempts(step.name, replace(attempts, uid=job["metadata"]["uid"]))
    match outcome.state:
        case "succeeded":
            return StepProgress("succeeded", outcome, history)
        case "missing" if not attempts.uid:
            # Either the cache lags, and creating the Job again is harmless, or the process died before it created it.
            # The next attempt may exist although the cache shows neither: two attempts must never run side by side.
            following = Precondition("batch/v1", "Job", job_name(context.resource, step, attempts.number + 1))
            return replace(_create(step, history, attempts, context), preconditions=(following,))
        case "missing":
            name = job_name(context.resource, step, attempts.number)
            gone = JobOutcome("failed", "Disrupted", f"Job {name} was deleted", counted=False)
            # The cache may lag: only the API knows that the Job is really gone.
            precondition = Precondition("batch/v1", "Job", name)
            return replace(_next(step, history, gone, context), preconditions=(precondition,))
        case "failed":
            return _after_failure(step, history, outcome, job, context)
        case _:
            times = (outcome.requeue_at, _deadline(step, attempts, context))
            requeue_at = min((time for time in times if time and time > context.now), default=None)
            without_pod = (job,) if job is not None and outcome.code == NO_POD else ()
            return StepProgress("running", outcome, history, requeue_at=requeue_at, without_pod=without_pod)


def find_attempts(step: Step, history: History, context: ReconcileContext) -> dict[str, Json | None]:
    """Return the Jobs, by name, that may be the last attempt.

    These are the Job on record, and the one after it, in case the process died before it recorded that one.
    """
    number = history.attempts.get(step.name, Attempts()).number
    names = [job_name(context.resource, step, attempt) for attempt in (number, number + 1) if attempt]
    return {name: context.children.find("Job", name) for name in names}


def all_unchanged(jobs: dict[str, Json | None]) -> tuple[Precondition, ...]:
    """Require that Jobs, by name, are or are missing as the cache shows them."""
    return tuple(
        require_unchanged(job) if job else Precondition("batch/v1", "Job", name) for name, job in jobs.items()
    )


def _after_failure(
    step: Step, history: History, outcome: JobOutcome, job: Json | None, context: ReconcileContext
) -> StepProgress:
    """Fail the step, or delete the failed Job, or start the next attempt once the Job is known to be gone.

    The failure of a Job that still lives was concluded (a lost node, a missing image): a precondition makes sure that
    the Job has not succeeded meanwhile.
    """
    attempts = history.attempts[step.name]
    counted = _count_outcome(attempts, outcome)
    alive = live(job)
    preconditions = tuple(require_unchanged(job) for job in alive)
    # The failed Job stays, so that its Pod and log can be read.
    if outcome.permanent or counted >= context.settings.max_attempts:
        return StepProgress("failed", outcome, history, preconditions=preconditions)
    if alive:
        return StepProgress("running", outcome, history, delete=alive, preconditions=preconditions)
    due = retry_time(job, attempts, outcome, context)
    if due is not None and context.now < due:
        message = f"{outcome.message}; it is tried again at {format_time(due)}"
        return StepProgress("running", replace(outcome, message=message), history, requeue_at=due)
    return _next(step, history, outcome, context)


def waits_for_input(resource: Json) -> bool:
    """Return whether a missing input may still come: resources are applied in any order, and those of the platform
    after everything that they need was there."""
    return PLATFORM_ENTITY not in read_labels(resource)


def retry_time(
    job: Json | None, attempts: Attempts, outcome: JobOutcome, context: ReconcileContext
) -> datetime | None:
    """Return the time before which a failed step is not tried again; None where it is tried at once.

    A disruption is not the step's fault, and says nothing of the next attempt.
    """
    failed = true_condition(job, "Failed") if job is not None else None
    if failed is None or not (outcome.counted or outcome.code == INPUT_MISSING):
        return None
    earlier = attempts.counted if outcome.counted else attempts.number - attempts.counted - 1
    pause = min(context.settings.retry_seconds * 2.0 ** min(max(earlier, 0), 30), LONGEST_PAUSE)
    return later(parse_time(failed["lastTransitionTime"]), pause)


def _next(step: Step, history: History, outcome: JobOutcome, context: ReconcileContext) -> StepProgress:
    """Start the next attempt, unless the step's time is over."""
    attempts = history.attempts[step.name]
    if outcome.code == INPUT_MISSING and not outcome.counted:
        first = history.started or context.now
        if context.now >= later(first, context.settings.input_seconds):
            message = f"waited for {context.settings.input_seconds} s; last: {outcome.message}"
            return StepProgress("failed", JobOutcome("failed", "Timeout", message, permanent=True), history)
        # The step's own time begins with the input.
        return replace(
            _start(step, history, replace(attempts, started=context.now), context), outcome=outcome
        )
    if context.now >= _deadline(step, attempts, context):
        message = f"not done after {step.deadline} s; last: {outcome.message}"
        return StepProgress("failed", JobOutcome("failed", "Timeout", message, permanent=True), history)
    counted = _count_outcome(attempts, outcome)
    return replace(_start(step, history, replace(attempts, counted=counted), context), outcome=outcome)


def _count_outcome(attempts: Attempts, outcome: JobOutcome) -> int:
    return attempts.counted + (outcome.state == "failed" and outcome.counted)


def _start(step: Step, history: History, attempts: Attempts, context: ReconcileContext) -> StepProgress:
    following = replace(attempts, number=attempts.number + 1, uid="")
    return _create(step, history.with_attempts(step.name, following), following, context)


def _create(step: Step, history: History, attempts: Attempts, context: ReconcileContext) -> StepProgress:
    deadline = _deadline(step, attempts, context)
    # All attempts share the step's time: a Job gets what the earlier ones have left.
    seconds = min(int((deadline - context.now).total_seconds()), MAX_SECONDS)
    objects = job_and_config(context.resource, step, attempts.number, seconds, context.settings)
    return StepProgress("running", JobOutcome("running"), history, create=objects, requeue_at=deadline)


def _deadline(step: Step, attempts: Attempts, context: ReconcileContext) -> datetime:
    """The end of the step's time; what the machine slept since its start does not count."""
    started = attempts.started or context.now
    return later(started, step.deadline + context.settings.sleeps.since(started))
