"""Environments of the engines' suites, which run side by side and share the cache."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines import locked

ROOT = Path(__file__).parent.parent
MAKE = """
import sys, time
from pathlib import Path
from tests.engines import locked

def make(python, lock, base, *, dependencies):
    with Path(sys.argv[2]).open("a") as file:
        file.write("made\\n")
    time.sleep(0.3)  # long enough for the others to come
    python.parent.mkdir(parents=True)
    python.touch()
    (python.parents[1] / "complete").touch()

locked._make = make
print(locked.environment("tool", Path(sys.argv[1])))
"""


def test_suites_that_need_one_environment_at_once_make_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lock, made = tmp_path / "lock.txt", tmp_path / "made.txt"
    lock.touch()
    command = [sys.executable, "-c", MAKE, str(lock), str(made)]
    suites = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = {suite.communicate()[0] for suite in suites}
    assert [suite.returncode for suite in suites] == [0, 0, 0]
    assert len(answers) == 1
    assert made.read_text() == "made\n"


def test_an_environment_without_its_python_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lock = tmp_path / "lock.txt"
    lock.touch()
    first = locked.environment("tool", lock)
    first.unlink()
    assert locked.environment("tool", lock) == first
    assert first.exists()
