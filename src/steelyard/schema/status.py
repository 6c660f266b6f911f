"""Which status may follow which, per kind and by whose word. Only the aggregator applies it.

Terminal statuses stick; `Deleted` is left only by a restore; what comes late or twice changes nothing.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

Source = Literal["api", "orchestrator", "informer", "reaper"]

TERMINAL = frozenset({"Approved", "Complete", "Deleted", "Denied", "Error", "Failed", "Ready", "Terminated"})
SUCCESS = frozenset({"Complete", "Ready", "Approved"})
FAILURE = frozenset({"Error", "Failed", "Denied"})

_OUTCOMES: dict[str, tuple[str, str]] = {
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
"""How a kind ends well and how it ends badly."""

KINDS = tuple(_OUTCOMES)
UPLOADED = frozenset({"Dataset", "Model", "Module"})
"""Kinds whose files a client brings."""
_NO_WORKFLOW = frozenset({"AuditProcedure", "Dataset", "Module"})
"""Kinds that nothing runs for: neither the orchestrator nor the informer has to do with them."""


@dataclass(frozen=True)
class Transition:
    """A change of status that a source may bring about."""

    source: Source
    before: str
    after: str


def statuses(kind: str) -> tuple[str, ...]:
    """Every status of a kind, in the order of a life. Raises KeyError for a kind without a table."""
    good, bad = _OUTCOMES[kind]
    waiting = ("WaitingForUpload",) if kind in UPLOADED else ()
    admitted = ("Admitted",) if kind not in _NO_WORKFLOW else ()
    terminated = ("Terminated",) if good != "Terminated" else ()
    return ("Created", *waiting, *admitted, good, bad, *terminated, "Deleted")


@cache
def transitions(kind: str) -> frozenset[Transition]:
    """Every change of status that the kind allows; a change of reason alone is one from a status to itself."""
    good, bad = _OUTCOMES[kind]
    allowed = {Transition("api", before, "Deleted") for before in statuses(kind) if before != "Deleted"}
    if kind in UPLOADED:
        allowed |= _of_uploads(kind, good, bad)
    if kind in _NO_WORKFLOW:
        return frozenset(allowed)
    return frozenset(
        allowed
        | {
            Transition("orchestrator", "Created", "Created"),
            Transition("orchestrator", "Created", "Admitted"),
            Transition("orchestrator", "Created", bad),
            Transition("informer", "Created", "Admitted"),
            Transition("informer", "Admitted", "Admitted"),
            *(Transition("informer", before, after) for before in _RUNNING for after in (good, bad)),
            *(Transition("api", before, "Terminated") for before in _RUNNING),
        }
    )


_RUNNING = ("Created", "Admitted")


def _of_uploads(kind: str, good: str, bad: str) -> set[Transition]:
    """Finalised by the API; an upload that never is, is given up by the orchestrator or the reaper."""
    finalised = "Created" if kind == "Model" else good
    return {
        Transition("api", "WaitingForUpload", finalised),
        Transition("api", "WaitingForUpload", bad),
        Transition("api", "WaitingForUpload", "WaitingForUpload"),
        Transition("orchestrator", "WaitingForUpload", bad),
        Transition("reaper", "WaitingForUpload", bad),
    }


def allows(kind: str, source: Source, before: str, after: str) -> bool:
    """Whether `source` may turn `before` into `after`. Raises KeyError for a kind without a table."""
    return Transition(source, before, after) in transitions(kind)
