"""A report is the same bytes wherever it is drawn: in processes of other time zones, languages and hash seeds."""

import os
import subprocess
import sys
from pathlib import Path

MAKE = """
import asyncio, sys
from pathlib import Path
from steelyard_evaluation.report.example import make_verified
from steelyard_evaluation.storage.files import FileStore
root = Path(sys.argv[1])
asyncio.run(make_verified(FileStore(root / "inputs"), FileStore(root / "outputs")))
"""
DRAW = """
import asyncio, sys
from pathlib import Path
from steelyard_evaluation.report.evidence.report_statement import report_statement
from steelyard_evaluation.report.report import Request, make_report
from steelyard_evaluation.storage.files import FileStore
root, scratch = map(Path, sys.argv[1:])
rubrics = ("exact-match?target=label&field=label", "token-f1?target=label&field=label")
stores = FileStore(root / "inputs"), FileStore(root / "outputs")
report = asyncio.run(make_report(Request("classification", *stores, {}, more=rubrics), scratch))
files = [report.scores, *report.extra_files.values()]
statement = report_statement(report.page, report.numbers)
sys.stdout.buffer.write(report.page + report.numbers + statement + b"".join(file.read_bytes() for file in files))
"""
SURROUNDINGS = (
    {"TZ": "Pacific/Auckland", "LC_ALL": "C", "LANG": "C", "PYTHONHASHSEED": "1"},
    {"TZ": "America/New_York", "LC_ALL": "C.UTF-8", "LANG": "de_DE.UTF-8", "PYTHONHASHSEED": "2"},
)


def test_other_surroundings_give_the_same_bytes(tmp_path: Path) -> None:
    root = tmp_path / "run"
    subprocess.run([sys.executable, "-c", MAKE, str(root)], check=True)
    drawn = []
    for number, surrounding in enumerate(SURROUNDINGS):
        scratch = tmp_path / str(number)
        scratch.mkdir()
        command = [sys.executable, "-c", DRAW, str(root), str(scratch)]
        drawn.append(
            subprocess.run(command, env=os.environ | surrounding, capture_output=True, check=True).stdout
        )
    one, other = drawn
    assert one.startswith(b"<!DOCTYPE html>")
    assert one == other
