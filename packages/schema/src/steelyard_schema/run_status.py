"""Status of a pipeline's run, and of a submission, which follow from the workflows that were created with them. Pure.

The API computes it for the answer of the moment; the orchestrator writes it into the entity, so that queries find it.
"""

from collections.abc import Mapping

from steelyard_schema.answers import Status
from steelyard_schema.status import FAILURE, TERMINAL

FOLLOWED = "FailedDependency"
"""Reason of a run, or a submission, with a failed workflow."""
_STOPPED = frozenset({"Terminated", "Deleted"})


def status_of_run(nodes: Mapping[str, str]) -> Status:
    """Return the status of a run whose workflows have these statuses, by their nodes.

    A run ends when all its workflows have ended: Terminated if one was, else Failed if one has failed, else Complete.
    Before that, the message already names a node that has failed. It says nothing more of it: who may see a run or a
    submission may not see every workflow.
    """
    failed = next((name for name, status in nodes.items() if status in FAILURE), None)
    message = None if failed is None else f"the node {failed} is {nodes[failed]}"
    reason = None if failed is None else FOLLOWED
    statuses = set(nodes.values())
    if not statuses <= TERMINAL:
        begun = statuses & (TERMINAL | {"Admitted"})
        return Status(status="Admitted" if begun else "Created", reason=reason, message=message)
    if statuses & _STOPPED:
        return Status(status="Terminated", reason="TerminateCommand")
    return Status(status="Complete" if failed is None else "Failed", reason=reason, message=message)


def status_of_submission(run: Status) -> Status:
    """Return the status of a submission whose run has this one."""
    match run.status:
        case "Deleted":
            return Status(status="Terminated", reason="TerminateCommand")
        case "Failed":
            return run.model_copy(update={"status": "Error"})
        case _:
            return run
