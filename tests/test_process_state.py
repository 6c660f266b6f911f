"""The fixture of conftest.py by which no file of unit tests changes the process of the next one."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHANGES = """
import os
import signal

def test_changes():
    os.environ["SET_BY_A_TEST"] = "1"
    os.environ["SET_BEFORE"] = "changed"
    signal.signal(signal.SIGTERM, lambda *_: None)

def test_sees_the_change_within_its_file():
    assert os.environ["SET_BY_A_TEST"] == "1"
"""
SEES = """
import os
import signal

def test_sees_none():
    assert "SET_BY_A_TEST" not in os.environ
    assert os.environ["SET_BEFORE"] == "before"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""


def test_a_file_changes_neither_variables_nor_handlers_for_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "test_a_changes.py").write_text(CHANGES)
    (tmp_path / "test_b_sees.py").write_text(SEES)
    options = ["-q", "-p", "no:cacheprovider", "-p", "conftest"]
    command = ["env", "SET_BEFORE=before", sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "3 passed" in done.stdout, done.stdout
