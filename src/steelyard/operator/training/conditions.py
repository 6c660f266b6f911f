"""The status of a training job: v1's conditions and how they exclude one another, and counts per replica type.

Conditions are in the order of their last change, so that the last one names the job's state. An end is final: a job is
never Succeeded and Failed both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from steelyard.operator.training.job_status import status_fields
from steelyard.operator.training.labels import JOB_NAME, OPERATOR_NAME, REPLICA_TYPE
from steelyard.operator.training.model import Counts, JobStatus, Tally, TrainingJob
from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_status
from steelyard_kube.times import format_time

ConditionType = Literal["Created", "Running", "Restarting", "Succeeded", "Failed", "Suspended"]
ENDS = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class ConditionChange:
    """A condition that becomes true, or false."""

    type: ConditionType
    reason: str
    message: str
    holds: bool = True


def holds(conditions: Iterable[Json], type: ConditionType) -> bool:
    return any(entry["type"] == type and entry["status"] == "True" for entry in conditions)


def finished(conditions: Iterable[Json]) -> bool:
    return any(entry["type"] in ENDS and entry["status"] == "True" for entry in conditions)


def apply_change(before: tuple[Json, ...], change: ConditionChange, now: datetime) -> tuple[Json, ...]:
    """Return the conditions after a change.

    The same status for the same reason is not a change, and a finished job's conditions never change.
    """
    known = next((entry for entry in before if entry["type"] == change.type), None)
    word = "True" if change.holds else "False"
    # An end is final (v1 could be Succeeded and Failed both), and a condition that was never true is not written as
    # false.
    if finished(before) or (known is None and not change.holds):
        return before
    # No new time for what has not changed: each write of a status wakes every watch.
    if known and (known["status"], known["reason"]) == (word, change.reason):
        return before
    same = known is not None and known["status"] == word
    entry = {
        "type": change.type,
        "status": word,
        "reason": change.reason,
        "message": change.message,
        "lastUpdateTime": format_time(now),
        "lastTransitionTime": known["lastTransitionTime"] if known and same else format_time(now),
    }
    return (*_remaining_conditions(before, change, now), entry)


_EXCLUDES = {"Running": "Restarting", "Restarting": "Running"}


def _remaining_conditions(before: tuple[Json, ...], change: ConditionChange, now: datetime) -> Iterable[Json]:
    for entry in before:
        if entry["type"] in (change.type, _EXCLUDES.get(change.type)):
            continue
        # v1's SDK takes a job with Running=True for one that runs.
        if entry["type"] == "Running" and change.type in ENDS and entry["status"] == "True":
            yield {
                **entry,
                "status": "False",
                "lastUpdateTime": format_time(now),
                "lastTransitionTime": format_time(now),
            }
        else:
            yield entry


# ---- changes of each type


def creation(job: TrainingJob) -> ConditionChange:
    return ConditionChange(
        "Created", f"{job.kind}Created", _message(job, job.framework.make_messages(job).created)
    )


def running(job: TrainingJob) -> ConditionChange:
    return ConditionChange(
        "Running", f"{job.kind}Running", _message(job, job.framework.make_messages(job).running)
    )


def success(job: TrainingJob) -> ConditionChange:
    return ConditionChange(
        "Succeeded", f"{job.kind}Succeeded", _message(job, job.framework.make_messages(job).succeeded)
    )


def restarting(job: TrainingJob, count: int, role: str) -> ConditionChange:
    messages = _message(job, job.framework.make_messages(job).restarting, count=count, role=role)
    return ConditionChange("Restarting", f"{job.kind}Restarting", messages)


def failure(job: TrainingJob, count: int, role: str) -> ConditionChange:
    return failure_because(
        job, _message(job, job.framework.make_messages(job).failed, count=count, role=role)
    )


def failure_because(job: TrainingJob, message: str) -> ConditionChange:
    return ConditionChange("Failed", f"{job.kind}Failed", message)


def suspension(job: TrainingJob) -> tuple[ConditionChange, ConditionChange]:
    reason, message = f"{job.kind}Suspended", _message(job, job.framework.make_messages(job).suspended)
    return ConditionChange("Running", reason, message, holds=False), ConditionChange(
        "Suspended", reason, message
    )


def resumption(job: TrainingJob) -> ConditionChange:
    message = _message(job, job.framework.make_messages(job).resumed)
    return ConditionChange("Suspended", f"{job.kind}Resumed", message, holds=False)


def _message(job: TrainingJob, template: str, **more: object) -> str:
    return template.format(kind=job.kind, name=job.name, namespace=job.namespace, **more)


# ---- the whole status


def make_status(
    job: TrainingJob, tally: Tally, changes: Sequence[ConditionChange], status: JobStatus, now: datetime
) -> Json:
    """Make the whole status after `changes`. A finished job keeps the status that it has."""
    before: Json = read_status(job.resource)
    # Late changes of Pods must not alter the counts of a job that has ended.
    if finished(sequence(before, "conditions")):
        return dict(before)
    after = tuple(sequence(before, "conditions"))
    for change in changes:
        after = apply_change(after, change, now)
    if finished(after) and status.completed is None:
        status = replace(status, completed=now)
    succeeded = holds(after, "Succeeded")
    counts = {role: _replica_status(job, role, tally.counts_for(role), succeeded) for role in job.roles}
    return {"conditions": list(after), "replicaStatuses": counts, **status_fields(status)}


_OBSERVATIONS = frozenset({"replicas", "replicaStatuses"})
"""Fields of the status that only describe Pods."""


def follows(before: Json, after: Json) -> bool:
    """Return whether a change of status calls for more work, or only describes Pods."""
    # The cache shows our own write at once, so that no watch announces it: whether more follows is decided here.
    if any(before.get(name) != after.get(name) for name in {*before, *after} - _OBSERVATIONS):
        return True
    return _attempts(before) != _attempts(after)


def _attempts(status: Json) -> list[tuple[str, int, int]]:
    return [(entry["type"], entry["index"], entry["attempt"]) for entry in sequence(status, "replicas")]


def invalid(resource: Json, message: str, now: datetime) -> Json:
    """Make the status of a job that cannot run as it is written; only its kind is known."""
    return _end_early(resource, f"{resource['kind']}FailedValidation", message, now)


def name_conflict(resource: Json, message: str, now: datetime) -> Json:
    """Make the status of a job with a child whose name another owner's object has."""
    return _end_early(resource, f"{resource['kind']}Failed", message, now)


def _end_early(resource: Json, reason: str, message: str, now: datetime) -> Json:
    before: Json = read_status(resource)
    known = tuple(sequence(before, "conditions"))
    if finished(known):
        outputs = before.get("outputs")
        return (
            {**before, "outputs": {**outputs, "state": "Failed", "message": message}}
            if outputs
            else dict(before)
        )
    after = apply_change(known, ConditionChange("Failed", reason, message), now)
    return {**before, "conditions": list(after), "completionTime": format_time(now)}


def _replica_status(job: TrainingJob, role: str, counts: Counts, succeeded: bool) -> Json:
    if succeeded:  # as in v1, replicas that still run when the job has succeeded count as succeeded
        counts = Counts(0, counts.active + counts.succeeded, counts.failed)
    numbers = {"active": counts.active, "succeeded": counts.succeeded, "failed": counts.failed}
    return {**{name: number for name, number in numbers.items() if number}, "selector": selector(job, role)}


def selector(job: TrainingJob, role: str) -> str:
    """Make the label selector of a replica type's Pods, which the scale subresource serves."""
    labels = {JOB_NAME: job.name, OPERATOR_NAME: job.framework.label, REPLICA_TYPE: role.lower()}
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
