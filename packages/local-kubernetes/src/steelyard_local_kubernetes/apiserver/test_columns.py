"""Cells: ages and JSON paths."""

from datetime import UTC, datetime
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.builtin import builtin_kinds
from steelyard_local_kubernetes.apiserver.columns import duration, job_status
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.printer import json_path
from steelyard_local_kubernetes.apiserver.rendering import builtin_columns


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


@pytest.mark.parametrize(
    ("true", "deleted", "expected"),
    [
        ((), False, "Running"),
        (("Suspended",), False, "Suspended"),
        # What is to become of a Job stays among its conditions when it has become so.
        (("FailureTarget",), False, "FailureTarget"),
        (("FailureTarget", "Failed"), False, "Failed"),
        (("SuccessCriteriaMet",), False, "SuccessCriteriaMet"),
        (("SuccessCriteriaMet", "Complete"), False, "Complete"),
        (("Complete",), True, "Complete"),
        (("Suspended",), True, "Terminating"),
        ((), True, "Terminating"),
    ],
)
def test_the_status_of_a_job_is_its_end_as_soon_as_it_has_one(
    true: tuple[str, ...], deleted: bool, expected: str
) -> None:
    conditions = [{"type": kind, "status": "True"} for kind in true]
    conditions.append({"type": "Failed", "status": "False"})
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    job: Json = {"metadata": metadata, "status": {"conditions": [*conditions, {"status": "True"}]}}
    assert job_status(job, datetime(2026, 1, 1, tzinfo=UTC)) == expected


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
