"""What a resource says of trouble with its reconciliation: an unexpected error, a child that the API does not take.

Neither ends it: it is reconciled again after a growing pause, and its condition Progressing says why it stands still.
"""

from datetime import datetime

from steelyard.operator.conditions import condition, time_text
from steelyard.schema.resources import RESOURCES
from steelyard.types import Json

ERROR = "Error"
NOT_MADE = "FailedCreate"
"""Kubernetes' own controllers use this word for the same."""
_LIMIT = 1000
"""Characters of a message."""


def error_text(error: Exception) -> str:
    """The exception's name and what it says."""
    return f"{type(error).__name__}: {error}"[:_LIMIT]


def says_the_same(written: Json, message: str) -> bool:
    """Whether a condition names this kind of error already. What differs from time to time in the text, such as a
    moment or an address, is no news: writing it would wake the resource before its pause is over.
    """
    before = str(written.get("message") or "")
    return written.get("reason") == ERROR and before.partition(":")[0] == message.partition(":")[0]


def errored(resource: Json, message: str, now: datetime) -> Json:
    """The status after an unexpected error. Nothing of the rest of it is read: it may be what the error is about."""
    before = resource.get("status") or {}
    if condition(resource, "Finished"):
        return dict(before)
    conditions = {condition["type"]: condition for condition in before.get("conditions") or ()}
    if says_the_same(conditions.get("Progressing") or {}, message):
        return dict(before)
    status = {"status": "Admitted", **before, "reason": ERROR}
    status["conditions"] = [
        conditions.get(kind) or _condition(resource, kind, now)
        for kind in RESOURCES[resource["kind"]].conditions
    ]
    return _progressing(status, ERROR, message)


def held_up(status: Json, message: str, now: datetime) -> Json:
    """The status that was decided on, with what the API has against a child; one that has ended stays as it is."""
    progressing = condition({"status": status}, "Progressing")
    return _progressing({**status, "reason": NOT_MADE}, NOT_MADE, message[:_LIMIT]) if progressing else status


def _progressing(status: Json, reason: str, message: str) -> Json:
    """Writes into Progressing why the resource does not get on, also where it is Ready and progresses no more."""
    conditions = [
        {**condition, "reason": reason, "message": message}
        if condition["type"] == "Progressing"
        else condition
        for condition in status["conditions"]
    ]
    return {**status, "conditions": conditions}


def _condition(resource: Json, kind: str, now: datetime) -> Json:
    """Returns a condition of a resource that was never reconciled well: it progresses, and nothing else holds."""
    return {
        "type": kind,
        "status": "True" if kind == "Progressing" else "False",
        "reason": ERROR,
        "message": "",
        "lastTransitionTime": time_text(now),
        "observedGeneration": resource["metadata"].get("generation", 1),
    }
