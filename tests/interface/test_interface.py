"""Tests of the public interface against its listing: Python names, custom resources, the API, the command
line, settings.

A difference is either a mistake, or meant: then `python -m tests.interface` writes the listing again, the commit shows
what changed, and CHANGELOG.md says it. A name that goes stays as an alias.
"""

import ast
import difflib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interface.listings import FOLDER, LISTINGS, written
from tests.interface.python_names import PUBLIC, names

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
CONTRIBUTED = {ROOT / "docs" / "training" / "frameworks.md"}
"""Pages whose code goes into the tree, in addition to what it imports."""


@pytest.mark.parametrize("name", LISTINGS)
def test_what_users_build_on_is_as_listed(name: str) -> None:
    listed = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    difference = difflib.unified_diff(listed, written(name).splitlines(), "listed", "now", lineterm="", n=0)
    assert "\n".join(difference) == "", "mend it, or `python -m tests.interface` lists it anew"


def test_documents_and_examples_import_public_names_alone() -> None:
    private = sorted(
        f"{path.relative_to(ROOT)}: {module}.{name}"
        for path, code in _documented()
        for module, name in _imports(code)
        if not _is_public(module, name)
    )
    assert private == []


def _documented() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        if page not in CONTRIBUTED:
            for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
                yield page, block
    for example in (ROOT / "examples").rglob("*.py"):
        yield example, example.read_text()


def _imports(code: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("steelyard"):
            yield from ((node.module or "", alias.name) for alias in node.names)
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("steelyard"))


def _is_public(module: str, name: str) -> bool:
    if f"{module}.{name}" in PUBLIC:
        return True
    return module in PUBLIC and (not name or name in names(module))
