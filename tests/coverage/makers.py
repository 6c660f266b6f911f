"""Finds by syntax every function of the source that makes an interval."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.source import modules, short_name


def makers() -> set[str]:
    """`report.statistics.proportion` and the like: functions that build or widen an Estimate with an interval."""
    return {name for path in modules() if not path.name.startswith("test_") for name in _in(path)}


def _in(path: Path) -> Iterator[str]:
    text = path.read_text()
    if "Estimate" not in text:
        return
    module = short_name(path.with_suffix("")).replace("/", ".")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and any(map(_makes_an_interval, ast.walk(node))):
            yield f"{module}.{node.name}"


def _makes_an_interval(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    low = next((word.value for word in node.keywords if word.arg == "low"), None)
    if node.func.id == "Estimate":
        low = low or (node.args[1] if len(node.args) > 1 else None)
    elif node.func.id != "replace":
        return False
    return low is not None and not (isinstance(low, ast.Constant) and low.value is None)
