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
    "Challenge": ("Ready", "Error"),
    "DataSource": ("Ready", "Error"),
    "Dataset": ("Ready", "Error"),
    "Evaluation": ("Complete", "Failed"),
    "Family": ("Ready", "Error"),
    "Hazard": ("Ready", "Error"),
    "History": ("Ready", "Error"),
    "InferenceService": ("Ready", "Error"),
    "InferenceSession": ("Terminated", "Error"),
    "Measurement": ("Complete", "Failed"),
    "Method": ("Ready", "Error"),
    "Model": ("Ready", "Error"),
    "Module": ("Ready", "Error"),
    "OCIArtifact": ("Ready", "Error"),
    "Pipeline": ("Ready", "Error"),
    "PipelineRun": ("Complete", "Failed"),
    "Quota": ("Ready", "Error"),
    "Report": ("Complete", "Failed"),
    "Revision": ("Ready", "Error"),
    "SafetyCase": ("Complete", "Failed"),
    "Submission": ("Complete", "Error"),
    "Team": ("Active", "EntryDenied"),
    "UseCase": ("Ready", "Error"),
}
"""The status in which a kind ends well, and the one in which it ends badly."""
NEVER_RAN = "Error"
"""The status of every kind's entity that the orchestrator does not let run, as Dyff has it."""

KINDS = tuple(ENDINGS)
UPLOADED = frozenset({"DataSource", "Dataset", "Model", "Module", "OCIArtifact"})
"""Kinds whose files a client uploads, or may upload."""
WITH_WORKFLOW = frozenset(
    {
        "Audit",
        "DataSource",
        "Dataset",
        "Evaluation",
        "InferenceService",
        "InferenceSession",
        "Measurement",
        "Model",
        "Report",
        "SafetyCase",
    }
)
"""Kinds for which something runs: the orchestrator and the informer change their status."""
CREATIONS_COUNTED = WITH_WORKFLOW - {"Dataset"}
"""Kinds whose creations are limited by rates: most datasets are uploaded, and nothing runs for them."""
WITHOUT_WORKFLOW = frozenset(KINDS) - WITH_WORKFLOW
"""Kinds for which nothing runs: only the API changes their status, and the orchestrator that of `FOLLOWING`."""
FOLLOWING = frozenset({"PipelineRun", "Submission"})
"""Kinds without a workflow of their own, whose status follows from the workflows that were created with them."""


def statuses(kind: str) -> tuple[str, ...]:
    """Return every status of a kind, in the order of a life. Raises KeyError for an unknown kind."""
    success, failure = ENDINGS[kind]
    if kind == "Team":
        return ("WaitingForApproval", success, failure, "Deleted")
    waiting = ("WaitingForUpload",) if kind in UPLOADED else ()
    admitted = ("Admitted",) if kind in WITH_WORKFLOW | FOLLOWING else ()
    terminated = ("Terminated",) if success != "Terminated" else ()
    refused = (NEVER_RAN,) if kind in WITH_WORKFLOW and failure != NEVER_RAN else ()
    return ("Created", *waiting, *admitted, success, failure, *refused, *terminated, "Deleted")


def failure_status(kind: str) -> str:
    """Return the status in which an entity of the kind ends badly once it runs: Failed or Error."""
    return ENDINGS[kind][1]
