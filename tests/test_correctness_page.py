"""docs/correctness.md names modules and tests: each exists, and no rule is missing."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.source import ROOT, place

PAGE = (ROOT / "docs" / "correctness.md").read_text()
RULES = re.split(r"^\*\*(\d+)\. ", PAGE.partition("## The log")[2], flags=re.MULTILINE)
"""A number, then the text of its rule, and so on."""
SUITES = "testing"
"""Folder of the contract suites: their cases are functions that a test runs on every engine."""


@cache
def functions(path: Path) -> frozenset[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_rule_is_there_once_and_in_order() -> None:
    numbers = [int(number) for number in RULES[1::2]]
    assert numbers == sorted(set(numbers))
    assert set(numbers) >= set(range(1, 39))


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`([^`\s]+\.py)::(\w+)`", PAGE)
    assert len(named) == PAGE.count("::")
    wrong = [f"{path}::{name}" for path, name in named if not _is_test(place(path), name)]
    assert wrong == []


def _is_test(path: Path, name: str) -> bool:
    kind = SUITES in path.parts or name.startswith("test_")
    return kind and path.is_file() and name in functions(path)


def test_every_module_that_is_named_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.(?:py|md))`", PAGE))
    assert [path for path in sorted(named) if not place(path).is_file()] == []


def test_every_rule_says_where_it_is_kept_and_what_tests_it() -> None:
    """Differences on Kafka come after the tests, a rule's gaps last."""
    for number, text in zip(RULES[1::2], RULES[2::2], strict=True):
        words = " ".join(text.split())
        said = re.findall(r" - \*(\w+(?: \w+)?)\*:? (?:`|none|\w)", words)
        assert [part for part in said if part != "On Kafka"] in (
            ["Where", "Tests"],
            ["Where", "Tests", "Not yet"],
        ), number
