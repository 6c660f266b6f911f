"""Environments of the engines' suites, which run side by side and share the cache."""

import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.engines import locked
from tests.source import write_metadata
from tests.versions.suite import USERS_SIDE

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


def test_metadata_beside_the_source_names_what_an_installation_does(tmp_path: Path) -> None:
    write_metadata(tmp_path)
    written = {
        distribution.metadata["Name"]: distribution.entry_points
        for distribution in distributions(path=[str(tmp_path)])
    }
    installed = {
        name: distribution.entry_points
        for distribution in distributions()
        if (name := distribution.metadata["Name"]).split("-")[0] == "steelyard"
    }
    assert {name: sorted(points) for name, points in written.items()} == {
        name: sorted(points) for name, points in installed.items()
    }
    assert any(point.group == "steelyard.rubrics" for points in written.values() for point in points)


@pytest.mark.parametrize("folder", USERS_SIDE)
def test_other_pythons_run_tests_of_folders_that_exist(folder: str) -> None:
    assert list((ROOT / folder).rglob("test_*.py"))
