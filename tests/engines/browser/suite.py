"""Accessibility: our pages in Debian's Chromium, checked by axe-core, in an environment made from the lock beside this
file, once per machine.
"""

import asyncio
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.engines.browser.pages import write_pages
from tests.engines.build import Missing
from tests.engines.locked import environment

HERE = Path(__file__).parent
LOCK = HERE / "requirements.txt"


def run() -> int:
    """The exit status of the checks."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise Missing("Chromium is not installed")
    python = environment("browser", LOCK)
    with tempfile.TemporaryDirectory(prefix="steelyard-browser-") as scratch:
        pages = asyncio.run(write_pages(Path(scratch)))
        command = [str(python), str(HERE / "check.py"), chromium, *map(str, pages)]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(run())
