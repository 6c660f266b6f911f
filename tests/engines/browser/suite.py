"""Accessibility: our pages in Debian's Chromium, checked by axe-core, in an environment made from the lock beside this
file, once per machine.
"""

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.engines.browser.pages import write_pages
from tests.engines.build import Missing

HERE = Path(__file__).parent
LOCK = HERE / "requirements.txt"


def environment() -> Path:
    """The interpreter of an environment with exactly what the lock says. Missing where it cannot be had."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    folder = Path(base) / "steelyard" / "engines" / f"browser-{digest}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    uv = str(Path(sys.executable).parent / "uv")
    commands = (
        [uv, "venv", "-q", "--clear", "--python", sys.executable, str(folder)],
        [uv, "pip", "install", "-q", "--python", str(python), "--require-hashes", "-r", str(LOCK)],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"axe-core cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
    (folder / "complete").touch()
    return python


def run() -> int:
    """The exit status of the checks."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise Missing("Chromium is not installed")
    python = environment()
    with tempfile.TemporaryDirectory(prefix="steelyard-browser-") as scratch:
        pages = asyncio.run(write_pages(Path(scratch)))
        command = [str(python), str(HERE / "check.py"), chromium, *map(str, pages)]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(run())
