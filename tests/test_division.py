"""The division of the unit tests between workers (`--divide-files` of conftest.py): it leaves out no test."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("src/steelyard/sqlite", "src/steelyard/runners", "src/steelyard/storage")
DIVIDED = ("-n", "3", "--dist", "each", "--divide-files")


def passed(*options: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *FOLDERS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (number,) = re.findall(r"^(\d+) passed", done.stdout, re.MULTILINE)
    return int(number)


def test_divided_files_are_all_tested_once() -> None:
    assert passed(*DIVIDED) == passed()
