"""Environments with exactly what a lock says, made once per machine: what the suites run beside us."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.engines.build import Missing


def environment(name: str, lock: Path, among: str = "engines") -> Path:
    """The interpreter of the environment of `lock`, in the cache's folder `among`. Missing where it cannot be had."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    folder = Path(base) / "steelyard" / among / f"{name}-{digest}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    uv = str(Path(sys.executable).parent / "uv")
    install = [uv, "pip", "install", "-q", "--compile-bytecode", "--require-hashes", "--python", str(python)]
    commands = (
        [uv, "venv", "-q", "--clear", "--python", sys.executable, str(folder)],
        [*install, "-r", str(lock)],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"{name}: cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
    (folder / "complete").touch()
    return python
