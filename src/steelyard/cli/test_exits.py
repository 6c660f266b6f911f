"""Processes that end while threads of a library may still come back to Python."""

import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.steps.example import make_config

FINALIZATION = """
import atexit, obstore, os, sys

class Finalized:
    def __del__(self):
        os.abort()  # as a thread of the library does that comes then

finalized = Finalized()
atexit.register(print, "registered")
"""
LEAVE = """
from steelyard.steps.exits import leave

print("done", end=" ")
leave(65)
"""
STEP = """
from steelyard.steps.common import StepFailed, run_step

async def main(config, log):
    raise StepFailed("Test", "it fails for good", permanent=True)

run_step(main, "test")
"""
COMMAND = """
from steelyard.cli.main import main

sys.argv = ["steelyard", "--version"]
main()
"""


@pytest.mark.parametrize(
    ("program", "status", "word"),
    [
        pytest.param(LEAVE, 65, "done", id="leave"),
        pytest.param(STEP, 65, "", id="a step"),
        pytest.param(COMMAND, 0, "steelyard", id="a command"),
    ],
)
def test_what_is_done_is_not_undone_by_the_interpreters_end(
    tmp_path: Path, program: str, status: int, word: str
) -> None:
    config = tmp_path / "config.json"
    config.write_text(make_config("test", "Report", {}).model_dump_json())
    ended = run(FINALIZATION + program, "--config", str(config))
    assert ended.returncode == status
    assert ended.stdout.startswith(word)
    assert ended.stdout.endswith("registered\n")


def test_without_the_library_a_process_ends_as_usual() -> None:
    ended = run(FINALIZATION.replace("obstore, ", "").replace("os.abort()", "print('finalized')") + LEAVE)
    assert (ended.returncode, ended.stdout) == (65, "done registered\nfinalized\n")


def run(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
