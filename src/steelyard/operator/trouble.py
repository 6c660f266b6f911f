"""Statuses for trouble with a reconciliation: an unexpected error, or a child that the API does not accept.

Neither ends the resource: it is reconciled again after a growing pause, and its condition Progressing says why it does
not go on.
"""

from datetime import datetime

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_status, true_condition
from steelyard_kube.times import format_time
from steelyard_schema.faults import exception_text
from steelyard_schema.resources import RESOURCES

ERROR = "Error"
NOT_MADE = "FailedCreate"
"""The reason that Kubernetes' own controllers give for the same."""
_MESSAGE_LIMIT = 1000
"""Longest message of a condition, in characters."""


def error_text(error: Exception) -> str:
    """Make a message from an exception: its class and its text."""
    return exception_text(error)[:_MESSAGE_LIMIT]


def names_error(condition: Json, message: str) -> bool:
    """Return whether a condition names an error of this class already.

    The rest of the text may differ each time, by a time or an address. Writing it again would be a change that wakes
    the resource before its pause is over.
    """
    before = str(condition.get("message") or "")
    return condition.get("reason") == ERROR and before.partition(":")[0] == message.partition(":")[0]


def record_error(resource: Json, message: str, now: datetime) -> Json:
    """Make the status after an unexpected error. Only conditions are read: the rest may be what causes the error."""
    before = read_status(resource)
    if true_condition(resource, "Finished"):
        return dict(before)
    conditions = {condition["type"]: condition for condition in sequence(before, "conditions")}
    if names_error(mapping(conditions, "Progressing"), message):
        return dict(before)
    status = {"status": "Admitted", **before, "reason": ERROR}
    status["conditions"] = [
        conditions.get(kind) or _condition(resource, kind, now)
        for kind in RESOURCES[resource["kind"]].conditions
    ]
    return _progressing(status, ERROR, message)


def record_refusal(status: Json, message: str, now: datetime) -> Json:
    """Add the API's objection against a child to the desired status; a finished resource keeps its status."""
    progressing = true_condition({"status": status}, "Progressing")
    return (
        _progressing({**status, "reason": NOT_MADE}, NOT_MADE, message[:_MESSAGE_LIMIT])
        if progressing
        else status
    )


def _progressing(status: Json, reason: str, message: str) -> Json:
    """Write into Progressing why the resource does not go on, also when it is Ready and progresses no more."""
    conditions = [
        {**condition, "reason": reason, "message": message}
        if condition["type"] == "Progressing"
        else condition
        for condition in status["conditions"]
    ]
    return {**status, "conditions": conditions}


def _condition(resource: Json, kind: str, now: datetime) -> Json:
    """Make a condition of a resource that was never reconciled well: it progresses, and nothing else holds."""
    return {
        "type": kind,
        "status": "True" if kind == "Progressing" else "False",
        "reason": ERROR,
        "message": "",
        "lastTransitionTime": format_time(now),
        "observedGeneration": resource["metadata"].get("generation", 1),
    }
