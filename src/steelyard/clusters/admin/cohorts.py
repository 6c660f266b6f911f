"""Views of cohorts: cluster queues that lend each other quota, in a tree of cohorts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from steelyard.clusters.admin.usage import ClusterQueueView
from steelyard.clusters.reading import text
from steelyard_common.types import Json


@dataclass(frozen=True)
class CohortView:
    """A cohort; `resource` is the whole object, and empty where only queues or other cohorts name it."""

    name: str
    queues: tuple[str, ...]
    """Names of its cluster queues."""
    cohorts: tuple[str, ...]
    """Names of the cohorts whose parent it is."""
    resource: Json = field(default_factory=dict, repr=False)

    @property
    def parent(self) -> str:
        """Cohort from which it borrows; empty for none."""
        return _parent(self.resource)

    def __str__(self) -> str:
        members = ", ".join([*self.queues, *(f"{name} (a cohort)" for name in self.cohorts)]) or "nobody"
        return f"{self.name}{f', of {self.parent}' if self.parent else ''}: {members}"


def cohort_views(objects: Sequence[Json], queues: Sequence[ClusterQueueView]) -> Sequence[CohortView]:
    """Return all cohorts by name."""
    by_name = {text(obj, "metadata", "name"): obj for obj in objects}
    parents = {name: _parent(obj) for name, obj in by_name.items()}
    names = {*by_name, *parents.values(), *(queue.cohort for queue in queues)} - {""}
    return [
        CohortView(
            name,
            tuple(queue.name for queue in queues if queue.cohort == name),
            tuple(sorted(child for child, parent in parents.items() if parent == name)),
            by_name.get(name, {}),
        )
        for name in sorted(names)
    ]


def _parent(resource: Json) -> str:
    return text(resource, "spec", "parentName") or text(resource, "spec", "parent")
