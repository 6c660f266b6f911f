# ruff: noqa: E501 - a table is read by its rows
"""Bounds of a LimitRange that contradict each other."""

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.rules.quotas import RANGE


def faults(**limit: object) -> list[tuple[str, str]]:
    obj: Json = {"spec": {"limits": [{"type": "Container", **limit}]}}
    RANGE.default(obj)
    return [(cause.field.removeprefix("spec.limits[0]."), cause.message) for cause in RANGE.check(obj, None)]


def test_bounds_in_order_are_taken() -> None:
    assert not faults(
        min={"cpu": "1m"}, max={"cpu": "1"}, default={"cpu": "500m"}, maxLimitRequestRatio={"cpu": "2"}
    )


def test_a_default_above_the_maximum() -> None:
    assert faults(max={"cpu": "1"}, default={"cpu": "2"}) == [
        ("defaultRequest[cpu]", 'Invalid value: "2": default request value 2 is greater than max value 1'),
        ("default[cpu]", 'Invalid value: "1": default value 2 is greater than max value 1'),
    ]


@pytest.mark.parametrize(
    ("limit", "field"),
    [
        ({"min": {"cpu": "2"}, "max": {"cpu": "1"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}, "min[cpu]"),
        ({"type": "Pod", "default": {"cpu": "1"}}, "default"),
        ({"type": "PersistentVolumeClaim"}, "limits"),
        ({"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}}, "maxLimitRequestRatio[cpu]"),
        ({"default": {"a.b/c": "2"}, "defaultRequest": {"a.b/c": "1"}}, "defaultRequest[a.b/c]"),
    ],
    ids=["minimum above maximum", "a Pod's default", "a claim without bounds", "a ratio below one", "devices"],
)  # fmt: skip
def test_what_is_refused(limit: Json, field: str) -> None:
    assert field in [name for name, _ in faults(**limit)]


def test_a_type_twice() -> None:
    obj: Json = {"spec": {"limits": [{"type": "Pod"}, {"type": "Pod"}]}}
    assert [cause.field for cause in RANGE.check(obj, None)] == ["spec.limits[1].type"]
