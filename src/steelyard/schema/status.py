"""Which status may follow which, per kind and by whose word. Only the aggregator applies it.

Terminal statuses stick; `Deleted` is left only by a restore; what comes late or twice changes nothing.
"""

from dataclasses import dataclass
from typing import Literal

Source = Literal["api", "orchestrator", "informer", "reaper"]

TERMINAL = frozenset({"Approved", "Complete", "Deleted", "Denied", "Error", "Failed", "Ready", "Terminated"})
SUCCESS = frozenset({"Complete", "Ready", "Approved"})
FAILURE = frozenset({"Error", "Failed", "Denied"})

_OUTCOMES: dict[str, tuple[str, str]] = {
    "Audit": ("Complete", "Failed"),
    "Dataset": ("Ready", "Error"),
    "Evaluation": ("Complete", "Failed"),
    "InferenceService": ("Ready", "Error"),
    "InferenceSession": ("Terminated", "Error"),
    "Model": ("Ready", "Error"),
    "Report": ("Complete", "Failed"),
}
"""How a kind ends well and how it ends badly."""

KINDS = tuple(_OUTCOMES)


@dataclass(frozen=True)
class Transition:
    """A change of status that a source may bring about."""

    source: Source
    before: str
    after: str


def statuses(kind: str) -> tuple[str, ...]:
    """Every status of a kind, in the order of a life. Raises KeyError for a kind without a table."""
    good, bad = _OUTCOMES[kind]
    waiting = ("WaitingForUpload",) if kind in {"Dataset", "Model"} else ()
    return ("Created", *waiting, "Admitted", good, bad, "Deleted")


def transitions(kind: str) -> frozenset[Transition]:
    """Every change of status that the kind allows; a change of reason alone is one from a status to itself."""
    good, bad = _OUTCOMES[kind]
    allowed = {
        Transition("orchestrator", "Created", "Created"),
        Transition("orchestrator", "Created", "Admitted"),
        Transition("orchestrator", "Created", bad),
        Transition("informer", "Created", "Admitted"),
        Transition("informer", "Admitted", "Admitted"),
        *(
            Transition("informer", before, after)
            for before in ("Created", "Admitted")
            for after in (good, bad)
        ),
        *(Transition("api", before, "Deleted") for before in statuses(kind) if before != "Deleted"),
        *(Transition("api", before, "Terminated") for before in ("Created", "Admitted")),
    }
    if kind in {"Dataset", "Model"}:
        allowed |= {
            Transition("api", "WaitingForUpload", after)
            for after in ("Created", "Admitted", good, bad, "Terminated")
        }
    if kind == "Dataset":
        allowed |= {Transition("api", "Created", after) for after in (good, bad)}
    return frozenset(allowed)


def allows(kind: str, source: Source, before: str, after: str) -> bool:
    """Whether `source` may turn `before` into `after`. Raises KeyError for a kind without a table."""
    return Transition(source, before, after) in transitions(kind)
