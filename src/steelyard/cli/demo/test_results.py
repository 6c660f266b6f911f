"""The demo's results in sentences."""

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.cli.demo.results import result_lines
from steelyard_common.types import Json

RIGHT = "Of 100 answers, {} % were right (95 % interval 80.0 to 97.4 %)."
COMPARED: Json = {
    "comparable": True,
    "questions": 50,
    "difference": {"value": 0.12, "low": 0.0963, "high": 0.1434},
    "p": 1e-24,
    "test": "McNemar's exact test (12 questions differ)",
}


def audit(folder: Path, name: str, share: str, comparison: Json | None = None) -> Path:
    place = folder / name
    place.mkdir()
    content: dict[str, Any] = {
        "system": {"name": name},
        "baseline": {"system": {"name": "few"}} if comparison else None,
        "requirements": [{"headline": RIGHT.format(share), "comparison": comparison}],
    }
    (place / "audit.json").write_text(json.dumps(content))
    return place


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "all compared with few on the same 50 questions: +12.0 percentage points (95 % interval +9.6 to +14.3), "
         "p < 0.001 by McNemar's exact test (12 questions differ)."),
        ({"p": 0.25}, "p = 0.250 by"),
        ({"difference": {"value": 0.0, "low": None, "high": None}}, "0.0 percentage points (no interval)"),
        ({"comparable": False, "because": "other rows"}, "all cannot be compared with few: other rows"),
    ],
)  # fmt: skip
def test_each_model_and_the_comparison_have_a_sentence(tmp_path: Path, changes: Json, said: str) -> None:
    folders = [audit(tmp_path, "few", "84.3"), audit(tmp_path, "all", "96.3", {**COMPARED, **changes})]
    first, second, comparison = result_lines(folders)
    assert (first, second) == (f"few: {RIGHT.format('84.3')}", f"all: {RIGHT.format('96.3')}")
    assert said in comparison
    assert len(result_lines(folders[:1])) == 1
