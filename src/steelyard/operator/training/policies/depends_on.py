"""Order of replica types, `dependsOn`: which types have to wait because others have not come so far."""

from steelyard.operator.children import Children
from steelyard.operator.training.labels import REPLICA_TYPE
from steelyard.operator.training.model import Dependency, Tally, TrainingJob
from steelyard_kube.objects import is_deleting, labels_of
from steelyard_kube.pods import is_ready, phase_of


def held_roles(job: TrainingJob, tally: Tally, children: Children) -> frozenset[str]:
    """Return the types with a dependency that does not hold now. Their existing Pods stay."""
    return frozenset(
        role.name
        for role in job.roles.values()
        if not all(_holds(job, tally, children, *dependency) for dependency in role.depends_on)
    )


def _holds(job: TrainingJob, tally: Tally, children: Children, role: str, condition: Dependency) -> bool:
    if role not in job.roles:
        return True
    counts, required = tally.of(role), job.roles[role].count
    match condition:
        case "Succeeded":
            return counts.succeeded >= required
        case "Running":
            return counts.active + counts.succeeded >= required
        case "Ready":
            return _ready(job, children, role) + counts.succeeded >= required


def _ready(job: TrainingJob, children: Children, role: str) -> int:
    """Count the Pods of a type that run and are ready."""
    return sum(
        labels_of(pod).get(REPLICA_TYPE) == role.lower()
        and phase_of(pod) == "Running"
        and not is_deleting(pod)
        and is_ready(pod)
        for pod in children.pods_of(job.resource)
    )
