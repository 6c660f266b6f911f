"""Order of replica types, `dependsOn`: which types have to wait because others have not come so far."""

from steelyard.operator.children import Children
from steelyard.operator.training.labels import REPLICA_TYPE
from steelyard.operator.training.model import Dependency, Tally, TrainingJob
from steelyard_kube.objects import is_deleting, read_labels
from steelyard_kube.pods import is_ready, read_phase


def find_blocked_roles(job: TrainingJob, tally: Tally, children: Children) -> frozenset[str]:
    """Return the types with a dependency that does not hold now. Their existing Pods stay."""
    return frozenset(
        role.name
        for role in job.roles.values()
        if not all(_holds(job, tally, children, *dependency) for dependency in role.depends_on)
    )


def _holds(job: TrainingJob, tally: Tally, children: Children, role: str, condition: Dependency) -> bool:
    if role not in job.roles:
        return True
    counts, required = tally.counts_for(role), job.roles[role].count
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
        read_labels(pod).get(REPLICA_TYPE) == role.lower()
        and read_phase(pod) == "Running"
        and not is_deleting(pod)
        and is_ready(pod)
        for pod in children.list_pods(job.resource)
    )
