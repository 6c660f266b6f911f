"""Tries a release as a reader of the README does: pip installs it from the folder into a new environment, `steelyard
demo` runs there, and so do the README's examples on a platform that `steelyard up` has started.
"""

import os
import shutil
import sys
from pathlib import Path

from tests.readme import EXAMPLES
from tests.release.steps import ReleaseError, run


def install(requirements: Path, scratch: Path) -> Path:
    """Return the folder of programs of a new environment with a release, whose files lie beside its requirements."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    programs = scratch / "environment" / "bin"
    run("venv", sys.executable, "-m", "venv", programs.parent, at=scratch, environment=environment)
    pip = (programs / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check")
    beside = ("--find-links", requirements.parent)
    run("install", *pip, *beside, "-r", requirements, at=scratch, environment=environment)
    return programs


def play(programs: Path, tree: Path, scratch: Path) -> None:
    """Play the README in an empty home, with the examples of the release beside the reader."""
    work = scratch / "work"
    work.mkdir()
    shutil.copytree(tree / "examples", work / "examples")
    reader = {"HOME": str(scratch), "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    state = ("--state-dir", ".steelyard")
    demo = run(
        "demo", programs / "steelyard", "demo", "--display", "plain", *state, at=work, environment=reader
    )
    if "index.html" not in demo:
        raise ReleaseError(f"the demo names no page:\n{demo}")
    run("up", programs / "steelyard", "up", "--detach", *state, at=work, environment=reader)
    try:
        for example in EXAMPLES:
            said = run("example", programs / "python", "-c", example, at=work, environment=reader)
            if "Complete" not in said:
                raise ReleaseError(f"an example of the README is not Complete:\n{said}")
        run("get", programs / "steelyard", "get", "evaluations", at=work, environment=reader)
    finally:
        run("down", programs / "steelyard", "down", *state, at=work, environment=reader)
