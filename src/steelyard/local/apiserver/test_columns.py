"""Cells: ages and JSON paths."""

from datetime import UTC, datetime
from typing import Any

import pytest

from steelyard.local.apiserver.builtin import builtin_kinds
from steelyard.local.apiserver.columns import duration
from steelyard.local.apiserver.kinds import ResourceType
from steelyard.local.apiserver.printer import json_path
from steelyard.local.apiserver.tables import builtin_columns


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (121, "2m1s"), (600, "10m"), (601, "10m"),
        (10_799, "179m"), (10_800, "3h"), (10_860, "3h1m"), (28_800, "8h"), (172_799, "47h"), (172_800, "2d"),
        (176_400, "2d1h"), (691_200, "8d"), (63_071_999, "729d"), (63_072_000, "2y"), (66_000_000, "2y33d"),
    ],
)  # fmt: skip
def test_durations_read_as_kubectls(seconds: float, text: str) -> None:
    assert duration(seconds) == text


OBJ = {
    "spec": {"n": 3, "a.b": "dotted"},
    "status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.n", [3]),
        (".spec.absent.more", []),
        (".spec.a\\.b", ["dotted"]),
        (".spec['a.b']", ["dotted"]),
        ('.status.conditions[?(@.type=="B")].status', ["False"]),
        ("""status.conditions""", []),
        (".status.conditions[*].type", ["A", "B"]),
        (".status.conditions[1].type", ["B"]),
        (".status.conditions[7].type", []),
        (".status.conditions[-1].type", ["B"]),
        (".status.conditions[-1:].type", ["B"]),
        (".status.conditions[:1].type", ["A"]),
        (".status.conditions[-3].type", []),
    ],
)
def test_json_paths(path: str, expected: list[Any]) -> None:
    assert list(json_path(path, OBJ)) == expected


@pytest.mark.parametrize("kind", builtin_kinds(), ids=lambda kind: f"{kind.plural} {kind.version}")
def test_every_column_of_every_kind_has_a_cell(kind: ResourceType) -> None:
    obj = {"metadata": {"name": "a"}, "spec": {}, "roleRef": {}}
    now = datetime(2026, 1, 1, tzinfo=UTC)
    cells = [column.cell(obj, now) for column in builtin_columns(kind)]
    assert "a" in cells
