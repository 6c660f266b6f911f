"""What a training job says of an unexpected error in its reconciliation, in v1's types of conditions.

The condition is one that does not hold, before all others: the last entry says where the job stands, and no decision
is made from one that does not hold. It goes with the first reconciliation that succeeds.
"""

from datetime import datetime

from steelyard.operator.conditions import time_text
from steelyard.operator.training import status
from steelyard.operator.trouble import ERROR, names_error
from steelyard.types import Json


def errored(job: Json, message: str, now: datetime) -> Json:
    """The status after an unexpected error; one that has ended stays as it is."""
    before: Json = job.get("status") or {}
    known = before.get("conditions") or ()
    if status.finished(known) or any(names_error(condition, message) for condition in known):
        return dict(before)
    kind = "Running" if status.holds(known, "Created") else "Created"
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


def recovered(decided: Json) -> Json:
    """The status without the error of an earlier reconciliation."""
    conditions = decided.get("conditions") or ()
    if not any(condition.get("reason") == ERROR for condition in conditions):
        return decided
    return {
        **decided,
        "conditions": [condition for condition in conditions if condition.get("reason") != ERROR],
    }
