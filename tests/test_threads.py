"""The check of conftest.py that no file of unit tests leaves a thread behind."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEAVES = """
import threading

import conftest

conftest.THREAD_SECONDS = 0.1

def test_leaves_a_thread():
    threading.Thread(target=threading.Event().wait, name="left behind", daemon=True).start()

def test_leaves_none():
    pass
"""
ENDS = """
import threading
import time

def test_leaves_a_thread_that_ends_by_itself():
    threading.Thread(target=time.sleep, args=(0.05,), name="short").start()
"""


def test_a_file_that_leaves_a_thread_behind_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_a_leaves.py").write_text(LEAVES)
    (tmp_path / "test_b_ends.py").write_text(ENDS)
    options = ["-q", "-p", "no:cacheprovider", "-p", "conftest"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "3 passed, 1 error" in done.stdout
    assert "threads that tests of test_a_leaves.py started still run: left behind" in done.stdout
