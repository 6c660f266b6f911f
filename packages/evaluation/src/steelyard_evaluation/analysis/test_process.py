"""Tests of the bounded output of a method's process, and of its end."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from steelyard_evaluation.analysis.process import (
    LAST_BYTES,
    LINE_BYTES,
    PRINTED_BYTES,
    Lines,
    run_process,
    status_text,
)


def test_lines_are_passed_on_as_they_come() -> None:
    lines: list[str] = []
    output = Lines(lines.append)
    output.add(b"one\ntw")
    assert lines == ["one"]
    output.add(b"o\n\xff\x1b[31mred\x1b[0m\r\n10 %\r20 %")
    output.close()
    assert lines == ["one", "two", "\ufffdred", "20 %"]


def test_a_line_without_end_is_cut() -> None:
    lines: list[str] = []
    output = Lines(lines.append)
    for _ in range(10):
        output.add(b"x" * LINE_BYTES)
        assert len(output._begun) <= LINE_BYTES
    output.close()
    assert lines == ["x" * LINE_BYTES] * 10


def test_of_a_long_output_the_beginning_and_the_end_are_kept() -> None:
    lines: list[str] = []
    output = Lines(lines.append)
    for number in range(20):
        output.add(f"{number} ".encode() + b"x\n" * (1 << 20))
    output.add(b"the last line\n")
    output.close()
    assert lines[0] == "0 x"
    assert lines[-1] == "the last line"
    assert sum(map(len, lines)) < PRINTED_BYTES + 2 * LAST_BYTES
    assert any("bytes of output are left out here" in line for line in lines)


async def test_a_process_gets_its_environment_alone(tmp_path: Path) -> None:
    lines: list[str] = []
    code = "import os; print(sorted(name for name in os.environ if not name.startswith('LC_')), os.getcwd())"
    assert await run_process(["-c", code], {"PATH": "/bin"}, tmp_path, lines.append) == 0
    assert lines == [f"['PATH', 'STEELYARD_ANALYSIS_PROCESS'] {tmp_path}"]


async def test_a_flood_of_output_takes_no_memory(tmp_path: Path) -> None:
    count = 0

    def write(line: str) -> None:
        nonlocal count
        count += len(line)

    code = "import sys; [sys.stdout.write('x' * (1 << 20)) for _ in range(256)]; sys.exit(3)"
    assert await run_process(["-c", code], {}, tmp_path, write) == 3
    assert count < PRINTED_BYTES + 2 * LAST_BYTES


HIDING = """
import subprocess, sys
sleeping = [sys.executable, "-c", "import time; time.sleep(3600)"]
null = subprocess.DEVNULL
hidden = subprocess.Popen(sleeping, env={}, start_new_session=True, stdin=null, stdout=null, stderr=null)
print(hidden.pid)
"""
STEP = f"""
import asyncio, pathlib
from steelyard_common.processes import adopt_orphans
from steelyard_evaluation.analysis.process import run_process
adopt_orphans()
asyncio.run(run_process(["-c", {HIDING!r}], {{}}, pathlib.Path("/"), print))
"""


def test_a_process_that_hides_itself_is_ended_too() -> None:
    # In a process of its own, which takes the orphans of no other test.
    step = subprocess.run([sys.executable, "-c", STEP], capture_output=True, text=True, check=True)
    pid = int(step.stdout)
    try:
        assert not _is_running(pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


HIDDEN = """
import ctypes
from steelyard_evaluation.analysis.process import hide_environment
PR_GET_DUMPABLE = 3
before = ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)
hide_environment()
print(before, ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0))
"""


def test_a_hidden_process_is_not_dumpable() -> None:
    # For root, who may run the tests, that hides nothing: so the kernel is asked, and no other process.
    step = subprocess.run([sys.executable, "-c", HIDDEN], capture_output=True, text=True, check=True)
    assert step.stdout == "1 0\n"


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_ends_are_reported_in_words() -> None:
    assert [status_text(status) for status in (3, -11, -9)] == [
        "exit status 3",
        "SIGSEGV",
        "SIGKILL, perhaps because there was no memory left",
    ]
