"""docs/rubrics.md names every rubric and argument of this package, and its worked example works."""

import dataclasses
import re
import sys
import types
from importlib.metadata import entry_points

import pytest

from steelyard_evaluation.report.rubrics import GROUP, alias
from tests.source import ROOT

PAGE = ROOT / "docs" / "rubrics.md"
COMMON = {"target", "field", "threshold"}
POINTS = [
    point for point in entry_points(group=GROUP) if point.value.startswith("steelyard_evaluation.report.")
]


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_the_page_describes_every_rubric_and_argument(point: object) -> None:
    text = PAGE.read_text()
    name, kind = point.name, point.load()  # type: ignore[attr-defined]
    section = re.search(rf"^## {re.escape(name)}\n(.*?)(?=^## )", text, re.M | re.S)
    assert section, f"docs/rubrics.md has no section {name}"
    assert f"| `{alias(name)}` |" in text
    if name == "judge.Verdict":  # described in docs/tasks.md
        return
    arguments = {field.name for field in dataclasses.fields(kind) if field.init} - COMMON
    assert {argument for argument in arguments if f"`{argument}" not in section[1]} == set()


def test_the_worked_example_works(monkeypatch: pytest.MonkeyPatch) -> None:
    brief, test = re.findall(r"```python\n(# (?:my_rubrics/|test_).*?)```", PAGE.read_text(), re.S)
    monkeypatch.setitem(sys.modules, "my_rubrics", types.ModuleType("my_rubrics"))
    for name, source in (("my_rubrics.brief", brief), ("test_brief", test)):
        module = types.ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(source, name, "exec"), module.__dict__)
    sys.modules["test_brief"].test_brief_keeps_the_contract()
