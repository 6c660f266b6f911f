"""Status of a training job after an unexpected error in its reconciliation, with v1's types of conditions.

The error is a condition that is false, before all others: the last condition names the job's state, and no decision
depends on a false one. The first reconciliation that succeeds removes it.
"""

from datetime import datetime

from steelyard.kube.objects import status_of
from steelyard.operator.conditions import time_text
from steelyard.operator.training import conditions
from steelyard.operator.trouble import ERROR, names_error
from steelyard.types import Json, sequence


def errored(job: Json, message: str, now: datetime) -> Json:
    """Make the status after an unexpected error; a finished job keeps its status."""
    before: Json = status_of(job)
    known = sequence(before, "conditions")
    if conditions.finished(known) or any(names_error(condition, message) for condition in known):
        return dict(before)
    kind = "Running" if conditions.holds(known, "Created") else "Created"
    moment = time_text(now)
    error = {
        "type": kind,
        "status": "False",
        "reason": ERROR,
        "message": message,
        "lastUpdateTime": moment,
        "lastTransitionTime": moment,
    }
    return {**before, "conditions": [error, *(condition for condition in known if condition["type"] != kind)]}


def recovered(desired: Json) -> Json:
    """Remove the error of an earlier reconciliation from a status."""
    known = sequence(desired, "conditions")
    if not any(condition.get("reason") == ERROR for condition in known):
        return desired
    return {
        **desired,
        "conditions": [condition for condition in known if condition.get("reason") != ERROR],
    }
