"""The README's examples, on a platform."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Machine, machine_at
from tests.readme import EVALUATION, TRAINING

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A platform that all examples share, as the reader's do."""
    with machine_at(tmp_path_factory.mktemp("readme") / "state") as machine:
        machine.up()
        yield machine


@pytest.fixture
def folder(platform: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the reader's folder: the repository, with a platform that runs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # no platform but this one can be found
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / ".steelyard").symlink_to(platform.state.path)
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


def run(block: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=folder, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_walkthrough_does_what_it_says(folder: Path) -> None:
    assert "Complete" in run(EVALUATION, folder)
    assert {path.name for path in (folder / "my-report").iterdir()} >= {"report.html", "report.json"}


def test_the_training_is_carried_through_to_the_audit(folder: Path) -> None:
    said = run(TRAINING, folder)
    assert "result: rounds 20" in said
    assert "Complete" in said
    assert {path.name for path in (folder / "my-audit").iterdir()} >= {"index.html", "audit.json"}
