"""The guided demos, as notebooks that Jupyter's own client runs against `steelyard up`, with real Ray:
`python -m tests.engines.notebooks.suite [NAME ...]`; NAME is the beginning of a notebook's name, such as 3.

The environment of the lock has Ray, Ray Train and Tune, and Jupyter's kernel; `steelyard up` runs in it, so that its
Ray runs the clusters.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.engines.build import Missing
from tests.engines.locked import environment

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SECONDS = 1800


def with_this_checkout() -> Path:
    """Return the Python of the environment with this checkout installed: jobs on the clusters import it, too."""
    own = hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]
    python = environment(f"notebooks-{own}", HERE / "notebooks.txt")
    install = [str(Path(sys.executable).parent / "uv"), "pip", "install", "-q", "--python", str(python)]
    for what in (
        ["--require-hashes", "-r", "requirements/build.txt"],
        ["--no-deps", "--no-build-isolation", "-e", "."],
    ):
        subprocess.run([*install, *what], cwd=ROOT, check=True)
    return python


def run(*names: str) -> int:
    python = with_this_checkout()
    with tempfile.TemporaryDirectory(prefix="steelyard-notebooks-") as folder:
        command = [str(python), "-m", "tests.engines.notebooks.session", folder, *names]
        settings = {"PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command, cwd=ROOT, env=os.environ | settings, timeout=SECONDS, check=False
        ).returncode


def main() -> int:
    try:
        return run(*sys.argv[1:])
    except Missing as missing:
        sys.exit(f"{missing}: the suite of notebooks cannot run")


if __name__ == "__main__":
    sys.exit(main())
