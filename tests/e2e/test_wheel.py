"""Tests of a user's installation: the built wheel with its extra, in an empty environment, with the newest
dependencies.
"""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, run

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_the_wheel_leaves_the_tests_out(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "steelyard/cli/main.py" in names
    assert "steelyard/py.typed" in names
    assert not [name for name in names if Path(name).name.startswith(("test_", "conftest"))]


def test_an_unpinned_installation_runs_the_example(install: Callable[..., Path], tmp_path: Path) -> None:
    python = install("[local]", "--compile-bytecode")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    steelyard = python.parent / "steelyard"
    state = tmp_path / "state"
    said = run(steelyard, "run", ROOT / "examples" / "digits", "--state-dir", state, cwd=tmp_path, env=clean)
    assert "report.html" in said
    assert len(list((state / "storage" / "reports").glob("*/report.html"))) == 1
    demo = run(steelyard, "demo", "--display", "plain", "--state-dir", state, cwd=tmp_path, env=clean)
    assert "state/audits/digits-all/index.html" in demo
    assert (state / "audits" / "digits-all" / "index.html").exists()
