"""Status of a training job after an unexpected error in its reconciliation, or while the API does not accept a child.

Either is a condition of v1's types that is false, before all others: the last condition names the job's state, and no
decision depends on a false one. The first reconciliation that succeeds removes it.
"""

from datetime import datetime

from steelyard.operator.training import conditions
from steelyard.operator.trouble import ERROR, NOT_MADE, names_error
from steelyard_common.types import Json, sequence
from steelyard_kube.objects import read_status
from steelyard_kube.times import format_time

_MESSAGE_LIMIT = 1000
"""Longest message of a condition, in characters."""


def record_error(job: Json, message: str, now: datetime) -> Json:
    """Make the status after an unexpected error; a finished job keeps its status."""
    before: Json = read_status(job)
    known = sequence(before, "conditions")
    if conditions.finished(known) or any(names_error(condition, message) for condition in known):
        return dict(before)
    kind = "Running" if conditions.holds(known, "Created") else "Created"
    return _with_false(before, kind, ERROR, message, format_time(now))


def record_refusal(status: Json, message: str, now: datetime) -> Json:
    """Add the API's objection against a child to the desired status of a job that does not run."""
    known = sequence(status, "conditions")
    if conditions.holds(known, "Running") or conditions.finished(known):
        return status
    # Since the last change, and not since now: a status that differs at each try wakes its own writer.
    moment = max(
        (str(condition.get("lastUpdateTime") or "") for condition in known), default=format_time(now)
    )
    if message.startswith("PodGroup "):
        message += "; without it, operator.training.gang_scheduler has to be empty"
    return _with_false(status, "Running", NOT_MADE, message, moment)


def _with_false(status: Json, kind: str, reason: str, message: str, moment: str) -> Json:
    """Put a condition that is false before all others: the last one names the job's state."""
    condition = {
        "type": kind,
        "status": "False",
        "reason": reason,
        "message": message[:_MESSAGE_LIMIT],
        "lastUpdateTime": moment,
        "lastTransitionTime": moment,
    }
    others = [other for other in sequence(status, "conditions") if other["type"] != kind]
    return {**status, "conditions": [condition, *others]}


def clear_trouble(desired: Json) -> Json:
    """Remove the trouble of an earlier reconciliation from a status."""
    known = sequence(desired, "conditions")
    left = [condition for condition in known if condition.get("reason") not in (ERROR, NOT_MADE)]
    return desired if len(left) == len(known) else {**desired, "conditions": left}
