"""Statuses of entities: which a kind has, which are final, and who may change them.

Which status may follow which is the aggregator's transition table (`services/aggregator/transitions.py`).
"""

from typing import Literal

Source = Literal["api", "orchestrator", "informer", "reaper"]
"""The part of the platform that sends a command."""

TERMINAL = frozenset({"Approved", "Complete", "Deleted", "Denied", "Error", "Failed", "Ready", "Terminated"})
SUCCESS = frozenset({"Complete", "Ready", "Approved"})
FAILURE = frozenset({"Error", "Failed", "Denied"})

ENDINGS: dict[str, tuple[str, str]] = {
    "Audit": ("Complete", "Failed"),
    "AuditProcedure": ("Ready", "Error"),
    "Dataset": ("Ready", "Error"),
    "Evaluation": ("Complete", "Failed"),
    "InferenceService": ("Ready", "Error"),
    "InferenceSession": ("Terminated", "Error"),
    "Model": ("Ready", "Error"),
    "Module": ("Ready", "Error"),
    "Report": ("Complete", "Failed"),
}
"""The status in which a kind ends well, and the one in which it ends badly."""

KINDS = tuple(ENDINGS)
UPLOADED = frozenset({"Dataset", "Model", "Module"})
"""Kinds whose files a client uploads."""
WITHOUT_WORKFLOW = frozenset({"AuditProcedure", "Dataset", "Module"})
"""Kinds for which nothing runs: neither the orchestrator nor the informer changes their status."""


def statuses(kind: str) -> tuple[str, ...]:
    """Return every status of a kind, in the order of a life. Raises KeyError for an unknown kind."""
    success, failure = ENDINGS[kind]
    waiting = ("WaitingForUpload",) if kind in UPLOADED else ()
    admitted = ("Admitted",) if kind not in WITHOUT_WORKFLOW else ()
    terminated = ("Terminated",) if success != "Terminated" else ()
    return ("Created", *waiting, *admitted, success, failure, *terminated, "Deleted")


def failure_status(kind: str) -> str:
    """Return the status in which a kind ends badly: Failed or Error."""
    return ENDINGS[kind][1]
