"""Corrections of existing objects other than Pods: a PodGroup and an autoscaler grow and shrink with their job."""

from collections.abc import Iterable
from typing import Any

from steelyard.operator.children import Children
from steelyard.operator.desired import Patch
from steelyard_common.types import Json
from steelyard_kube.objects import identity_of, is_deleting

_KEPT = {"PodGroup": "spec", "HorizontalPodAutoscaler": "spec", "ConfigMap": "data", "Role": "rules"}


def patches(desired: Iterable[Json], children: Children) -> Iterable[Patch]:
    """Patch existing objects that differ from the desired ones; fields that others have added stay."""
    for obj in desired:
        existing, field = children.named(*identity_of(obj)), _KEPT.get(obj["kind"])
        if existing is None or field is None or is_deleting(existing):
            continue
        if not _contains(existing.get(field), obj[field]):
            yield Patch(existing, {field: obj[field]})


def _contains(existing: Any, desired: Any) -> bool:
    """Return whether a value has all that is desired, and maybe more."""
    if isinstance(desired, dict) and isinstance(existing, dict):
        return all(_contains(existing.get(name), value) for name, value in desired.items())
    return bool(existing == desired)
