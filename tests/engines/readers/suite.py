"""Programs that read what a platform gives. `python -m tests.engines.readers.suite` runs their tests."""

import subprocess
import sys
from pathlib import Path

from tests.engines.build import Missing
from tests.engines.readers.programs import AGES, promtool, python

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def run() -> int:
    """Run the tests. Raises Missing where a program cannot be had."""
    for age in AGES:
        promtool(age)
        for name in ("duckdb", "mlcroissant", "svix"):
            python(name, age)
    command = [sys.executable, "-m", "pytest", "-q", "--durations=3", str(HERE)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(run())
    except Missing as missing:
        sys.exit(f"{missing}: its tests cannot run")
