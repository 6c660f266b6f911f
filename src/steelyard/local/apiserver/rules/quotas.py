"""Bounds of a namespace: quotas, ranges of limits, and budgets of disruptions."""

from steelyard.local.apiserver.kinds import Rules
from steelyard.local.apiserver.rules.common import defaults
from steelyard.types import Json, mapping, sequence


def _prepare_quota(obj: Json) -> None:
    obj["status"] = {}


def _default_range(obj: Json) -> None:
    for limit in sequence(obj.setdefault("spec", {}), "limits"):
        if limit.get("type") != "Container":
            continue
        # A container without a limit gets the largest that is allowed, and a request of as much.
        default = mapping(limit, "max") | mapping(limit, "default")
        request = mapping(limit, "min") | default | mapping(limit, "defaultRequest")
        for name, amounts in (("default", default), ("defaultRequest", request)):
            if amounts:
                limit[name] = amounts


def _prepare_budget(obj: Json) -> None:
    obj["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


QUOTA = Rules(prepare=_prepare_quota, default=lambda obj: defaults(obj, spec={}))
RANGE = Rules(default=_default_range)
BUDGET = Rules(prepare=_prepare_budget, default=lambda obj: defaults(obj, spec={}))
