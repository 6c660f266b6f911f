"""Environments with exactly what a lock says, made once per machine: what the suites run beside us."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.engines.build import Missing, one_at_a_time


def environment(
    name: str,
    lock: Path,
    among: str = "engines",
    base: Path = Path(sys.executable),
    *,
    dependencies: bool = True,
) -> Path:
    """The interpreter of the environment of `lock`, in the cache's folder `among`, made from the Python `base`.

    Without `dependencies` the lock has only a part of an environment. Raises Missing where it cannot be had.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    folder = Path(cache) / "steelyard" / among / f"{name}-{digest}"
    python = folder / "bin" / "python"
    with one_at_a_time(folder):
        if not ((folder / "complete").exists() and python.exists()):  # its own Python may have been removed
            _make(python, lock, base, dependencies=dependencies)
    return python


def _make(python: Path, lock: Path, base: Path, *, dependencies: bool) -> None:
    folder = python.parents[1]
    uv = str(Path(sys.executable).parent / "uv")
    install = [uv, "pip", "install", "-q", "--compile-bytecode", "--require-hashes", "--python", str(python)]
    if not dependencies:
        install.append("--no-deps")
    commands = (
        [uv, "venv", "-q", "--clear", "--python", str(base), str(folder)],
        [*install, "-r", str(lock)],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"{folder.name}: cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
    (folder / "complete").touch()
