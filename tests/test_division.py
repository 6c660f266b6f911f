"""The division of the unit tests between workers (`--divide-files` of conftest.py): it leaves out no test, and hides
no failure.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = (
    "src/steelyard/sqlite",
    "src/steelyard/runners",
    "packages/evaluation/src/steelyard_evaluation/storage",
)
DIVIDED = ("-n", "3", "--dist", "each", "--divide-files")
FAILING = """
import pytest

@pytest.fixture
def bad(request):
    if request.param == "before":
        raise ValueError("before")
    yield
    raise ValueError("after")

@pytest.mark.parametrize("bad", ["before", "after"], indirect=True)
def test_fails_around(bad):
    pass

def test_fails():
    raise ValueError("within")

def test_passes():
    pass
"""


def passed(*options: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *FOLDERS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (number,) = re.findall(r"^(\d+) passed", done.stdout, re.MULTILINE)
    return int(number)


def test_divided_files_are_all_tested_once() -> None:
    assert passed(*DIVIDED) == passed()


def test_failures_before_within_and_after_a_test_are_shown(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING)
    options = ["-q", "-p", "no:cacheprovider", "-p", "conftest", *DIVIDED]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "1 failed, 2 passed, 2 errors" in done.stdout
    for when in ("before", "within", "after"):
        assert f"ValueError: {when}" in done.stdout
