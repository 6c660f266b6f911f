# ruff: noqa: E501 - tables are read by their rows
"""JSON patches: what Kubernetes' library takes, and what it refuses."""

from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.json_patches import TooMuch, Unfit, apply_operations


def obj() -> Json:
    return {"a": {"x": 1}, "l": [1, 2, 3], "s/~": True}


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/a/y", "value": 2}, {"a": {"x": 1, "y": 2}}),
        ({"op": "add", "path": "/l/-", "value": 4}, {"l": [1, 2, 3, 4]}),
        ({"op": "add", "path": "/l/0", "value": 4}, {"l": [4, 1, 2, 3]}),
        ({"op": "add", "path": "/l/3", "value": 4}, {"l": [1, 2, 3, 4]}),
        ({"op": "replace", "path": "/a/none", "value": 2}, {"a": {"x": 1, "none": 2}}),
        ({"op": "replace", "path": "/l/-1", "value": 4}, {"l": [1, 2, 4]}),
        ({"op": "remove", "path": "/s~1~0"}, {"s/~": None}),
        ({"op": "copy", "from": "/a/none", "path": "/b"}, {"b": None}),
        ({"op": "move", "from": "/l/0", "path": "/l/-"}, {"l": [2, 3, 1]}),
        ({"op": "test", "path": "/none", "value": None}, {}),
    ],
)
def test_operations(operation: Json, result: Json) -> None:
    changed = apply_operations(obj(), [operation])
    assert {name: changed.get(name) for name in result} == result


@pytest.mark.parametrize(
    "operation",
    [
        {}, "x", {"op": "foo", "path": "/a"}, {"op": "remove"}, {"op": "remove", "path": "a"}, {"op": "remove", "path": "/none"},
        {"op": "add", "path": "/none/x", "value": 1}, {"op": "add", "path": "/l/4", "value": 1}, {"op": "replace", "path": "/l/3", "value": 1},
        {"op": "test", "path": "/s~1~0", "value": 1}, {"op": "test", "path": "/l/x"}, {"op": "move", "path": "/a"}, {"op": "remove", "path": "/a/x/y"},
        {"op": "remove", "path": "/l/" + "9" * 5000},
    ],
)  # fmt: skip
def test_refusals(operation: Any) -> None:
    with pytest.raises(Unfit):
        apply_operations(obj(), [operation])


def test_the_whole_is_a_member_too() -> None:
    assert apply_operations(obj(), [{"op": "replace", "path": "", "value": {"n": 1}}]) == {"n": 1}


def test_copies_are_bounded() -> None:
    doubled = [{"op": "copy", "from": "/a", "path": f"/a/{index}"} for index in range(40)]
    with pytest.raises(TooMuch, match="accumulated size increase of copy"):
        apply_operations(obj(), doubled)
