"""Quotas in a tree: ClusterQueues are its leaves, and a cohort lends and borrows between those below it.

A queue, or a cohort, always has what it does not lend. The rest of its quota is its parent's to give to anybody.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.quantity import number

Usage = dict[tuple[str, str], float]  # by flavour and resource


@dataclass(eq=False)
class Quota:
    """The quota of a ClusterQueue or of a Cohort, and its place in the tree. A queue's use is `used`."""

    spec: Json
    used: Usage = field(default_factory=lambda: defaultdict(float))
    parent: "Quota | None" = None
    children: list["Quota"] = field(default_factory=list)

    def add(self, usage: Mapping[tuple[str, str], float], sign: int = 1) -> None:
        for key, amount in usage.items():
            self.used[key] += sign * amount

    def capacity(self, flavor: str, resource: str) -> float:
        """Return the most that may ever be used here: the own quota, and what may be borrowed."""
        if self.parent is None:
            return self._whole(flavor, resource)
        most = self._own_part(flavor, resource) + self.parent.capacity(flavor, resource)
        limit = self._limit(flavor, resource, "borrowingLimit")
        return most if limit is None else min(most, self._whole(flavor, resource) + limit)

    def free(self, flavor: str, resource: str) -> float:
        """Return what may still be used here."""
        whole, used = self._whole(flavor, resource), self._use(flavor, resource)
        if self.parent is None:
            return whole - used
        kept = self._own_part(flavor, resource)
        left = self.parent.free(flavor, resource)
        limit = self._limit(flavor, resource, "borrowingLimit")
        if limit is not None:
            left = min(left, whole - kept - max(used - kept, 0.0) + limit)
        return max(kept - used, 0.0) + left

    def in_cycle(self) -> bool:
        """Return whether some cohort above is its own parent."""
        seen: set[int] = set()
        node = self.parent
        while node is not None and id(node) not in seen:
            seen.add(id(node))
            node = node.parent
        return node is not None

    def nominal(self, flavor: str, resource: str) -> float:
        return self._limit(flavor, resource, "nominalQuota") or 0.0

    def _limit(self, flavor: str, resource: str, field: str) -> float | None:
        """Return one of the amounts for a resource; None where none is given."""
        for group in sequence(self.spec, "resourceGroups"):
            for entry in group["flavors"]:
                if entry["name"] == flavor:
                    for limit in entry["resources"]:
                        if limit["name"] == resource and limit.get(field) is not None:
                            return number(limit[field])
        return None

    def _whole(self, flavor: str, resource: str) -> float:
        """Return the own quota, and what those below lend."""
        own = self.nominal(flavor, resource)
        return own + sum(
            child._whole(flavor, resource) - child._own_part(flavor, resource) for child in self.children
        )

    def _own_part(self, flavor: str, resource: str) -> float:
        """Return the part of the quota that is not lent."""
        lent = self._limit(flavor, resource, "lendingLimit")
        return 0.0 if lent is None else max(self._whole(flavor, resource) - lent, 0.0)

    def _use(self, flavor: str, resource: str) -> float:
        """Return the used part of the quota here, and of the quota that those below lend."""
        return self.used[flavor, resource] + sum(
            max(child._use(flavor, resource) - child._own_part(flavor, resource), 0.0)
            for child in self.children
        )


def quotas(queues: Iterable[Json], cohorts: Iterable[Json] = ()) -> dict[str, Quota]:
    """Return the quotas by the names of their queues, in the tree of their cohorts.

    A cohort that is only named is there without quotas and limits of its own. Those of a cycle have `in_cycle`, and no
    other method of theirs ends.
    """
    by_queue = {queue["metadata"]["name"]: Quota(queue["spec"]) for queue in queues}
    above = {cohort["metadata"]["name"]: Quota(mapping(cohort, "spec")) for cohort in cohorts}
    for node, name in list(_parents([*by_queue.values(), *above.values()])):
        node.parent = above.setdefault(name, Quota({}))
        node.parent.children.append(node)
    return by_queue


def _parents(nodes: Iterable[Quota]) -> Iterator[tuple[Quota, str]]:
    for node in nodes:
        names = (node.spec.get(field) for field in ("cohortName", "cohort", "parentName"))
        if name := next(filter(None, names), None):
            yield node, name
