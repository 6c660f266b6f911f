"""What is kept as the job says it now, other than Pods: a PodGroup and an autoscaler grow and shrink with the job."""

from collections.abc import Iterable
from typing import Any

from steelyard.operator.children import Children
from steelyard.operator.desired import Patch
from steelyard.types import Json

_KEPT = {"PodGroup": "spec", "HorizontalPodAutoscaler": "spec", "ConfigMap": "data", "Role": "rules"}


def patches(wanted: Iterable[Json], children: Children) -> Iterable[Patch]:
    """For what is there and says something else. What others have added is left to them."""
    for each in wanted:
        there, field = children.named(each["kind"], each["metadata"]["name"]), _KEPT.get(each["kind"])
        if there is None or field is None or there["metadata"].get("deletionTimestamp"):
            continue
        if not _holds(there.get(field), each[field]):
            yield Patch(there, {field: each[field]})


def _holds(there: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there."""
    if isinstance(wanted, dict) and isinstance(there, dict):
        return all(_holds(there.get(name), value) for name, value in wanted.items())
    return bool(there == wanted)
