"""Tests of our container images. `python -m tests.engines.images.suite` runs them."""

import subprocess
import sys
from pathlib import Path

from tests.engines.build import Missing
from tests.engines.node.cluster import ROOT, prepare

HERE = Path(__file__).parent


def run() -> int:
    """Run the tests. Raises Missing where there is no root, no Go, or no package."""
    prepare()
    command = [sys.executable, "-m", "pytest", "-q", "--durations=3", str(HERE)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(run())
    except Missing as missing:
        sys.exit(f"{missing}: there is no real node")
