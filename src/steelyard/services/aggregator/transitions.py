"""The transition table: which status may follow which, for each kind and each source of commands.

Terminal statuses are final; `Deleted` is left only by a restore. A command that comes late or twice changes nothing.
"""

from dataclasses import dataclass
from functools import cache

from steelyard_schema.status import (
    ENDINGS,
    FOLLOWING,
    NEVER_RAN,
    UPLOADED,
    WITHOUT_WORKFLOW,
    Source,
    statuses,
)

_RUNNING = ("Created", "Admitted")


@dataclass(frozen=True)
class Transition:
    """A change of status that a source may bring about."""

    source: Source
    before: str
    after: str


@cache
def transitions(kind: str) -> frozenset[Transition]:
    """Return every change of status that the kind allows. Raises KeyError for a kind without a table.

    A new reason for the same status is a transition from that status to itself.
    """
    success, failure = ENDINGS[kind]
    allowed = {Transition("api", before, "Deleted") for before in statuses(kind) if before != "Deleted"}
    if kind in UPLOADED:
        # The API finalises uploads; the orchestrator or the reaper gives one up that is never finalised.
        finalised = "Created" if kind == "Model" else success
        allowed |= {
            Transition("api", "WaitingForUpload", finalised),
            Transition("api", "WaitingForUpload", failure),
            Transition("api", "WaitingForUpload", "WaitingForUpload"),
            Transition("orchestrator", "WaitingForUpload", failure),
            Transition("reaper", "WaitingForUpload", failure),
        }
    if kind == "Team":  # the decision about a team may be changed
        decided = [
            Transition("api", before, after) for before in (success, failure) for after in (success, failure)
        ]
        return frozenset(
            {
                *allowed,
                *decided,
                *(Transition("api", "WaitingForApproval", after) for after in (success, failure)),
            }
        )
    if kind in FOLLOWING:
        after_all = (success, failure, "Terminated")
        allowed |= {Transition("api", before, "Terminated") for before in _RUNNING}
        allowed |= {Transition("orchestrator", before, "Admitted") for before in _RUNNING}
        allowed |= {Transition("orchestrator", before, after) for before in _RUNNING for after in after_all}
    if kind in WITHOUT_WORKFLOW:
        return frozenset(allowed)
    return frozenset(
        allowed
        | {
            Transition("orchestrator", "Created", "Created"),
            Transition("orchestrator", "Created", "Admitted"),
            Transition("orchestrator", "Created", NEVER_RAN),
            Transition("informer", "Created", "Admitted"),
            Transition("informer", "Admitted", "Admitted"),
            *(Transition("informer", before, after) for before in _RUNNING for after in (success, failure)),
            *(Transition("api", before, "Terminated") for before in _RUNNING),
        }
    )


def is_allowed(kind: str, source: Source, before: str, after: str) -> bool:
    """Return whether `source` may turn `before` into `after`; False for a kind without a table."""
    return kind in ENDINGS and Transition(source, before, after) in transitions(kind)
