"""Ends the machines of a test run that was killed: `steelyard up` runs in a session of its own and outlives its test.

`tests/conftest.py` has one guard for each process that runs tests.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUARD = 'read -r _ || exec "$@"'
"""Wait for the end of the test process. One that ends in order says a line first: its tests have ended what they
started."""


@contextlib.contextmanager
def machines_end_with_this_process(folder: Path) -> Iterator[None]:
    """Ends the machines whose folders lie below `folder` when this process is killed."""
    command = ["sh", "-c", GUARD, "sh", sys.executable, "-m", "tests.leftovers", str(folder)]
    # A session of its own: the guard must outlive a SIGKILL to the group of the tests.
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    ) as guard:
        yield
        assert guard.stdin is not None
        guard.stdin.write(b"\n")


def running_below(folder: Path) -> list[Path]:
    """Return the folder of every `steelyard up` that runs below `folder`, also of one that has just been started."""
    states = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue
        if "up" in words and "--state-dir" in words[:-1]:
            states.append(Path(words[words.index("--state-dir") + 1]))
    return [state for state in states if state.is_relative_to(folder)]


def main(folder: Path) -> None:
    """End all machines below `folder`, and the Pods of those whose supervisor had been killed before."""
    from steelyard.local.detached import stop

    while True:
        for log in folder.rglob("logs/up.log"):
            stop(log.parents[1])
        if not running_below(folder):  # one that starts holds no lock yet by which `stop` would know it
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
