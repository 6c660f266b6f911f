"""The status of a training job: v1's conditions and their algebra, the counts per replica type, and what we remember.

The list of conditions is ordered by last change, so that its last entry says where the job stands. What has ended
stays as it ended: never Succeeded and Failed together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from steelyard.operator.conditions import time_text
from steelyard.operator.training.job_status import written
from steelyard.operator.training.labels import JOB_NAME, OPERATOR_NAME, REPLICA_TYPE
from steelyard.operator.training.model import Counts, Memory, Tally, TrainingJob
from steelyard.types import Json

Condition = Literal["Created", "Running", "Restarting", "Succeeded", "Failed", "Suspended"]
ENDS = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Change:
    """A condition that comes to hold, or ceases to."""

    type: Condition
    reason: str
    message: str
    holds: bool = True


def holds(conditions: Iterable[Json], type: Condition) -> bool:
    return any(each["type"] == type and each["status"] == "True" for each in conditions)


def finished(conditions: Iterable[Json]) -> bool:
    return any(each["type"] in ENDS and each["status"] == "True" for each in conditions)


def conditions(before: tuple[Json, ...], change: Change, now: datetime) -> tuple[Json, ...]:
    """The list after one change. The same status for the same reason is none, and after the end there are none."""
    known = next((each for each in before if each["type"] == change.type), None)
    word = "True" if change.holds else "False"
    if finished(before) or (known is None and not change.holds):
        return before
    if known and (known["status"], known["reason"]) == (word, change.reason):
        return before
    same = known is not None and known["status"] == word
    entry = {
        "type": change.type,
        "status": word,
        "reason": change.reason,
        "message": change.message,
        "lastUpdateTime": time_text(now),
        "lastTransitionTime": known["lastTransitionTime"] if known and same else time_text(now),
    }
    return (*_others(before, change, now), entry)


_EXCLUDES = {"Running": "Restarting", "Restarting": "Running"}


def _others(before: tuple[Json, ...], change: Change, now: datetime) -> Iterable[Json]:
    for each in before:
        if each["type"] in (change.type, _EXCLUDES.get(change.type)):
            continue
        if each["type"] == "Running" and change.type in ENDS and each["status"] == "True":
            yield {
                **each,
                "status": "False",
                "lastUpdateTime": time_text(now),
                "lastTransitionTime": time_text(now),
            }
        else:
            yield each


# ---- what may be said of a job


def created(job: TrainingJob) -> Change:
    return Change("Created", f"{job.kind}Created", _worded(job, job.framework.words_of(job).created))


def running(job: TrainingJob) -> Change:
    return Change("Running", f"{job.kind}Running", _worded(job, job.framework.words_of(job).running))


def succeeded(job: TrainingJob) -> Change:
    return Change("Succeeded", f"{job.kind}Succeeded", _worded(job, job.framework.words_of(job).succeeded))


def restarting(job: TrainingJob, count: int, role: str) -> Change:
    words = _worded(job, job.framework.words_of(job).restarting, count=count, role=role)
    return Change("Restarting", f"{job.kind}Restarting", words)


def failed(job: TrainingJob, count: int, role: str) -> Change:
    return failed_because(job, _worded(job, job.framework.words_of(job).failed, count=count, role=role))


def failed_because(job: TrainingJob, message: str) -> Change:
    return Change("Failed", f"{job.kind}Failed", message)


def suspended(job: TrainingJob) -> tuple[Change, Change]:
    reason, message = f"{job.kind}Suspended", _worded(job, job.framework.words_of(job).suspended)
    return Change("Running", reason, message, holds=False), Change("Suspended", reason, message)


def resumed(job: TrainingJob) -> Change:
    message = _worded(job, job.framework.words_of(job).resumed)
    return Change("Suspended", f"{job.kind}Resumed", message, holds=False)


def _worded(job: TrainingJob, words: str, **more: object) -> str:
    return words.format(kind=job.kind, name=job.name, namespace=job.namespace, **more)


# ---- the whole status


def status_of(
    job: TrainingJob, tally: Tally, changes: Sequence[Change], memory: Memory, now: datetime
) -> Json:
    """The whole status after `changes`. Of a finished job, the one that it has."""
    before: Json = job.resource.get("status") or {}
    if finished(before.get("conditions") or ()):
        return dict(before)
    after = tuple(before.get("conditions") or ())
    for change in changes:
        after = conditions(after, change, now)
    ended = finished(after)
    if ended and memory.completed is None:
        memory = replace(memory, completed=now)
    won = holds(after, "Succeeded")
    counts = {role: _written_counts(job, role, tally.of(role), won) for role in job.roles}
    return {"conditions": list(after), "replicaStatuses": counts, **written(memory)}


_SEEN = frozenset({"replicas", "replicaStatuses"})
"""What a status says of the Pods alone."""


def follows(before: Json, after: Json) -> bool:
    """Whether a change of status calls for more to be done, or only says how the Pods are."""
    if any(before.get(name) != after.get(name) for name in {*before, *after} - _SEEN):
        return True
    return _attempts(before) != _attempts(after)


def _attempts(status: Json) -> list[tuple[str, int, int]]:
    return [(each["type"], each["index"], each["attempt"]) for each in status.get("replicas") or ()]


def invalid(resource: Json, message: str, now: datetime) -> Json:
    """The status of a job that cannot be run as it is written, of which no more is known than its kind."""
    return _ended_early(resource, f"{resource['kind']}FailedValidation", message, now)


def name_conflict(resource: Json, message: str, now: datetime) -> Json:
    """The status of a job one of whose names is another's."""
    return _ended_early(resource, f"{resource['kind']}Failed", message, now)


def _ended_early(resource: Json, reason: str, message: str, now: datetime) -> Json:
    before: Json = resource.get("status") or {}
    known = tuple(before.get("conditions") or ())
    if finished(known):
        outputs = before.get("outputs")
        return (
            {**before, "outputs": {**outputs, "state": "Failed", "message": message}}
            if outputs
            else dict(before)
        )
    after = conditions(known, Change("Failed", reason, message), now)
    return {**before, "conditions": list(after), "completionTime": time_text(now)}


def _written_counts(job: TrainingJob, role: str, counts: Counts, won: bool) -> Json:
    if won:  # whoever still runs when the job has succeeded has done what was wanted of it
        counts = Counts(0, counts.active + counts.succeeded, counts.failed)
    numbers = {"active": counts.active, "succeeded": counts.succeeded, "failed": counts.failed}
    return {**{name: number for name, number in numbers.items() if number}, "selector": selector(job, role)}


def selector(job: TrainingJob, role: str) -> str:
    """Of a replica type's Pods, as the scale subresource gives it."""
    labels = {JOB_NAME: job.name, OPERATOR_NAME: job.framework.label, REPLICA_TYPE: role.lower()}
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
