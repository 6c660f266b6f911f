"""The status of a training job as a schema: v1's fields, and our own besides."""

from steelyard_common.types import Json


def _time(text: str) -> Json:
    return {"type": "string", "format": "date-time", "description": text}


def _text(text: str) -> Json:
    return {"type": "string", "description": text}


def _number(text: str) -> Json:
    return {"type": "integer", "description": text}


def _free(text: str) -> Json:
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "description": text}


def _list(items: Json, text: str) -> Json:
    return {"type": "array", "items": items, "description": text}


_CONDITION: Json = {
    "type": "object",
    "description": "Events of the job.",
    "required": ["type", "status"],
    "properties": {
        "type": _text("Created, Running, Restarting, Succeeded, Failed or Suspended."),
        "status": _text("Whether it holds: True, False or Unknown."),
        "reason": _text("Why, in one word."),
        "message": _text("Why, in a sentence."),
        "lastUpdateTime": _time("When it was last written."),
        "lastTransitionTime": _time("Since when."),
    },
}
_COUNTS: Json = {
    "type": "object",
    "description": "Replicas of one type by how far they have come.",
    "properties": {
        "active": _number("Running."),
        "succeeded": _number("Ended well."),
        "failed": _number("Ended badly."),
        "selector": _text("Finds their Pods."),
        "labelSelector": _free("The older form of `selector`."),
    },
}

STATUS: Json = {
    "type": "object",
    "description": "What the operator has observed and done.",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "conditions": _list(_CONDITION, "In the order of their last changes."),
        "replicaStatuses": {
            "type": "object",
            "additionalProperties": _COUNTS,
            "description": "Counts by replica type.",
        },
        "startTime": _time("When the job began, or began again after it was suspended."),
        "completionTime": _time("When it had finished."),
        "lastReconcileTime": _time("When the operator last wrote."),
        "replicas": _list(
            _free("One replica."), "Every replica: type, index, attempt, Pod, phase, restarts."
        ),
        "restarts": _number("Restarts that count against the limit."),
        "disruptions": _number("Restarts that do not: evictions, preemptions, Pods deleted by hand."),
        "failures": _list(
            _free("One failure."), "The first failure and the newest, with their last log lines."
        ),
    },
}
