"""`steelyard eval` that dies by SIGKILL at one of its writes: `python -m … AT FILTER COUNT_FILE ARGUMENT …`.

A write of ours is a temporary file, its link or rename to where it belongs, and the removal of what is left. Each of
these is a moment, seen by an audit hook before it happens: nothing of the command is changed. It dies at the moment
number AT, from 1, of those whose path FILTER is part of; with 0 it never does, and COUNT_FILE says what they were.
"""

import os
import signal
import sys
from pathlib import Path

MOMENTS = frozenset({"os.link", "os.rename", "os.remove"})


class Hook:
    """Counts, and kills."""

    def __init__(self, at: int, wanted: str, counted: Path) -> None:
        self._at = at
        self._wanted = wanted
        self._counted = counted
        self._seen: list[str] = []

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event not in MOMENTS:
            return
        target = os.fspath(str(arguments[1] if event != "os.remove" else arguments[0]))
        if self._wanted not in target or "/probe/" in target or "progress.json" in target:
            return
        self._seen.append(f"{event} {target}")
        if self._at == 0:
            with self._counted.open("a") as file:
                file.write(f"{event} {target}\n")
        elif len(self._seen) == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    at, wanted, counted, *arguments = sys.argv[1:]
    sys.argv = ["steelyard", *arguments]
    from steelyard.cli.main import main

    sys.addaudithook(Hook(int(at), wanted, Path(counted)))
    main()
