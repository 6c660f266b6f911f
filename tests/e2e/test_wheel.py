"""Tests of a user's installation: the modules of the built wheels, and the wheel with its extra in an empty
environment, with the newest dependencies and with the oldest that it names.
"""

import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.cli.main import COMMANDS
from tests.e2e.conftest import ROOT, run
from tests.e2e.contents import LISTED, Contents
from tests.engines.build import Missing
from tests.interface.python_names import PUBLIC
from tests.versions.interpreters import OTHERS, RUNNING, VERSIONS, interpreter

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def contents(wheel: Path) -> Contents:
    return Contents(sorted(wheel.parent.glob("*.whl")))


def test_the_wheels_hold_the_packages_that_are_listed(contents: Contents) -> None:
    assert contents.packages == LISTED.read_text().splitlines(), "`python -m tests.e2e` lists them anew"


def test_the_wheels_hold_no_module_that_tests_alone_use(contents: Contents) -> None:
    commands = {f"steelyard.cli.{address.partition(':')[0]}" for address in COMMANDS.values()}
    assert sorted(set(contents.modules) - contents.reached(commands | set(PUBLIC))) == []


def test_the_wheels_hold_every_module_that_one_of_them_imports(contents: Contents) -> None:
    assert contents.missing() == []


@pytest.mark.parametrize(
    "package", [ROOT, *sorted((ROOT / "packages").iterdir())], ids=lambda path: path.name
)
def test_what_is_left_out_of_the_wheel_exists(package: Path) -> None:
    settings = tomllib.loads((package / "pyproject.toml").read_text())
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    paths = [path for path in wheel["exclude"] if path.startswith("src/")]
    assert [path for path in paths if not (package / path).exists()] == []


@pytest.mark.parametrize(
    ("version", "resolution"),
    [
        (RUNNING, "highest"),
        pytest.param(RUNNING, "lowest-direct", marks=pytest.mark.soak),
        *(pytest.param(version, "highest", marks=pytest.mark.soak) for version in OTHERS),
        pytest.param(VERSIONS[-1], "lowest-direct", marks=pytest.mark.soak),
    ],
)
def test_an_unpinned_installation_runs_the_example(
    version: str, resolution: str, install: Callable[..., Path], tmp_path: Path
) -> None:
    try:
        base = interpreter(version)
    except Missing as reason:
        pytest.skip(str(reason))
    python = install("[local]", "--resolution", resolution, base=base)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    steelyard = python.parent / "steelyard"
    state = tmp_path / "state"
    said = run(steelyard, "run", ROOT / "examples" / "digits", "--state-dir", state, cwd=tmp_path, env=clean)
    assert "report.html" in said
    assert len(list((state / "storage" / "reports").glob("*/report.html"))) == 1
    demo = run(steelyard, "demo", "--display", "plain", "--state-dir", state, cwd=tmp_path, env=clean)
    assert "state/audits/digits-all/index.html" in demo
    assert (state / "audits" / "digits-all" / "index.html").exists()
