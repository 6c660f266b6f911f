"""The worker of `make planted`, on a repository of one module: what it finds, and that it leaves nothing behind."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.planted import worker

TEST = "tests/test_sign.py::test_sign"
SLOW = "tests/test_sign.py::test_slow"
SOURCE = "def sign(number):\n    return number > 0\n"
TESTS = """
import time
from pathlib import Path
from sign import sign
def test_sign(): assert sign(1) and not sign(0)
def test_slow():
    (Path(__file__).parents[2] / "began").touch()
    time.sleep(600)
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    for path, text in {"src/sign.py": SOURCE, "tests/test_sign.py": TESTS, "pyproject.toml": ""}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    worker.git("init", "-q", cwd=root)
    worker.git("add", ".", cwd=root)
    worker.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "one", cwd=root)
    return root


@pytest.fixture
def process(repository: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    folder = tmp_path / "w"
    folder.mkdir()
    command = [sys.executable, str(Path(worker.__file__)), str(repository), "HEAD", str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    assert not folder.exists()
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert len(listed.stdout.splitlines()) == 1


def ask(process: subprocess.Popen[str], **request: object) -> worker.Outcome:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    return worker.Outcome(**json.loads(process.stdout.readline()))


def test_a_bug_fails_its_test_and_is_gone_afterwards(process: subprocess.Popen[str]) -> None:
    """Two bugs of one size come one after the other: compiled code of the first is not taken for the second's."""
    assert ask(process, tests=[TEST]).code == 0
    for wrong in ("number < 0", "number > 9"):
        outcome = ask(process, tests=[TEST], file="src/sign.py", source=SOURCE.replace("number > 0", wrong))
        assert (outcome.code, outcome.failed) == (1, [TEST])
        assert ask(process, tests=[TEST]).code == 0
    harmless = ask(process, tests=[TEST], file="src/sign.py", source=SOURCE.replace("> 0", ">0 "))
    assert (harmless.code, harmless.failed) == (0, [])


def test_a_test_that_cannot_be_collected_says_why(process: subprocess.Popen[str]) -> None:
    outcome = ask(process, tests=[TEST], file="src/sign.py", source="import")
    assert outcome.code not in (0, 1)
    assert "SyntaxError" in outcome.output


def test_a_runner_that_goes_away_leaves_neither_tests_nor_a_worktree(
    process: subprocess.Popen[str], tmp_path: Path
) -> None:
    """The fixture checks the worktree; it waits for the worker, which would otherwise wait for the slow test."""
    assert process.stdin is not None
    process.stdin.write(json.dumps({"tests": [SLOW]}) + "\n")
    process.stdin.flush()
    while not (tmp_path / "w" / "began").exists():
        os.sched_yield()
        assert process.poll() is None


def test_a_runner_that_is_killed_leaves_no_worktree(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "k"
    folder.mkdir()
    command = [sys.executable, str(Path(worker.__file__)), str(repository), "HEAD", str(folder)]
    start = f"import subprocess; worker = subprocess.Popen({command}, stdin=subprocess.PIPE)"
    program = f"{start}; print(worker.pid, flush=True); worker.wait()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as runner:
        assert runner.stdout is not None
        started = os.pidfd_open(int(runner.stdout.readline()))
        runner.send_signal(signal.SIGKILL)
    select.select([started], [], [])
    os.close(started)
    assert not folder.exists()
