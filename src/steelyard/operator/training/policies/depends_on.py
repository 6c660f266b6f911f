"""`dependsOn`: which replica types are not to be made yet, because others have not come so far."""

from steelyard.operator.children import Children
from steelyard.operator.training.labels import REPLICA_TYPE
from steelyard.operator.training.model import Dependency, Tally, TrainingJob
from steelyard.types import Json


def held(job: TrainingJob, tally: Tally, children: Children) -> frozenset[str]:
    """The types one of whose dependencies does not hold now. What exists already stays."""
    return frozenset(
        role.name
        for role in job.roles.values()
        if not all(_holds(job, tally, children, *each) for each in role.depends_on)
    )


def _holds(job: TrainingJob, tally: Tally, children: Children, role: str, condition: Dependency) -> bool:
    if role not in job.roles:
        return True
    counts, wanted = tally.of(role), job.roles[role].count
    match condition:
        case "Succeeded":
            return counts.succeeded >= wanted
        case "Running":
            return counts.active + counts.succeeded >= wanted
        case "Ready":
            return _ready(job, children, role) + counts.succeeded >= wanted


def _ready(job: TrainingJob, children: Children, role: str) -> int:
    labelled = (
        pod
        for pod in children.pods_of(job.resource)
        if (pod["metadata"].get("labels") or {}).get(REPLICA_TYPE) == role.lower()
    )
    return sum(_is_ready(pod) for pod in labelled)


def _is_ready(pod: Json) -> bool:
    status = pod.get("status") or {}
    if status.get("phase") != "Running" or pod["metadata"].get("deletionTimestamp"):
        return False
    return any(
        each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ()
    )
