"""Tests of the cluster with a real node. `python -m tests.engines.node.suite` runs them."""

import os
import subprocess
import sys
from pathlib import Path

from tests.engines.build import Missing
from tests.engines.node.cluster import NODE, ROOT, prepare

HERE = Path(__file__).parent


def run() -> int:
    """Run the tests of the cluster. Raises Missing where there is no root, no Go, or no package."""
    if NODE not in os.environ:
        prepare()
    command = [sys.executable, "-m", "pytest", "-q", str(HERE)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(run())
    except Missing as missing:
        sys.exit(f"{missing}: there is no real node")
