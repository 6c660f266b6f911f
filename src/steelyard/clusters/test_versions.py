"""Fields that a server has dropped, as distinct from values that it has changed."""

from typing import Any

import pytest

from steelyard.clusters.versions import list_dropped


@pytest.mark.parametrize(
    ("sent", "kept", "paths"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": 1, "b": 2}, {"a": 1}, ["spec.b"]),
        ({"cpu": "1000m"}, {"cpu": "1"}, []),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {}}}, ["spec.a.b.c"]),
        ({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {}]}, ["spec.a[1].b"]),
        ({"a": [1]}, {"a": [1, 2]}, []),
        ({"a": [], "b": {}, "c": "", "d": None}, {}, []),
        ({"a": 0, "b": False}, {}, ["spec.a", "spec.b"]),
        (None, {"a": 1}, []),
    ],
)
def test_fields_that_are_missing(sent: Any, kept: Any, paths: list[str]) -> None:
    assert list(list_dropped(sent, kept, "spec")) == paths
