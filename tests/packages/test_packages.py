"""Rules for each package: names of its distribution and its module, its version, its README, and a reason for each
library that its modules import.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from steelyard_common import __version__
from tests.packages.package import PACKAGES, Package, requirement_name
from tests.source import ROOT, SOURCES

BY_NAME = {package.name: package for package in PACKAGES}
BROUGHT = {
    "common": {
        "uvloop": "by whoever runs a loop: it is the faster one where it is installed",
        "yarl": "by aiohttp, whose addresses it takes",
    },
    "evaluation": {
        "huggingface-hub": "by datasets, whose files it fetches",
        "lm-eval": "by whoever runs its tasks, which only its own process imports",
        "markupsafe": "by jinja2, whose texts it marks",
        "pydantic-core": "by pydantic",
        "yarl": "by aiohttp, whose addresses it takes",
    },
    "kube": {
        "msgspec": "by lightkube, whose errors it raises",
        "yarl": "by aiohttp, whose addresses it takes",
    },
    "local-kubernetes": {
        "multidict": "by aiohttp, whose headers it reads and makes",
        "pytest": "by whoever has tests: nothing else imports the fixture",
        "yarl": "by aiohttp, whose addresses it takes",
    },
    "schema": {"pydantic-core": "by pydantic"},
}
"""Distributions that a dependency brings for its callers, too."""


def own_requirements(project: Mapping[str, object]) -> Iterator[str]:
    """Yield the requirements of a project that are packages of this repository."""
    extras = project.get("optional-dependencies", {})
    assert isinstance(extras, dict)
    dependencies = project["dependencies"]
    assert isinstance(dependencies, list)
    for requirement in [*dependencies, *(line for lines in extras.values() for line in lines)]:
        if (
            requirement_name(requirement).startswith("steelyard-")
            and requirement_name(requirement) != project["name"]
        ):
            yield requirement


@pytest.mark.parametrize("name", BY_NAME)
def test_a_distribution_and_its_module_have_one_name(name: str) -> None:
    package = BY_NAME[name]
    assert package.project["name"] == f"steelyard-{name}"
    assert package.source in SOURCES
    assert (package.source / "py.typed").exists()
    assert (package.folder / "README.md").read_text().startswith(f"# steelyard-{name}\n")


def test_all_packages_have_one_version_and_need_one_another_in_it() -> None:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {package.name: package.project["version"] for package in PACKAGES} == dict.fromkeys(
        BY_NAME, __version__
    )
    needed = [
        line for project in (whole, *(p.project for p in PACKAGES)) for line in own_requirements(project)
    ]
    assert [line for line in needed if not line.endswith(f"=={__version__}")] == []
    assert {requirement_name(line) for line in own_requirements(whole)} == {
        package.project["name"] for package in PACKAGES
    }


@pytest.mark.parametrize("name", BY_NAME)
def test_each_library_that_is_imported_is_named_with_its_reason(name: str) -> None:
    package = BY_NAME[name]
    project = package.project
    named = {requirement_name(line) for line in project["dependencies"]}
    named |= {
        requirement_name(line)
        for extra in project.get("optional-dependencies", {}).values()
        for line in extra
    }
    named |= {*BROUGHT.get(name, {}), project["name"]}
    assert [
        distributions for distributions in imported_distributions(package) if not distributions & named
    ] == []
    lines = (package.folder / "pyproject.toml").read_text().splitlines()
    # An extra within an extra, and what all tests need, say enough by themselves.
    bare = [line for line in lines if re.match(r'  "[\w\[\],-]+[=<>;]', line) and "#" not in line]
    assert [line for line in bare if "pytest>=" not in line] == []


def imported_distributions(package: Package) -> Iterator[set[str]]:
    """Yield for each module of others that the package imports the distributions that hold it; tests are left out."""
    known = packages_distributions()
    files = [
        path
        for path in package.source.rglob("*.py")
        if not path.name.startswith(("test_", "conftest")) and "simulation" not in path.parts
    ]
    for top in {top for path in files for top in imports(path)} - sys.stdlib_module_names:
        # An editable installation of ours lists no modules; the names are the same.
        yield {re.sub(r"[-_.]+", "-", name).lower() for name in known.get(top, [top])}


def imports(path: Path) -> Iterator[str]:
    """Yield the outermost names of what a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
