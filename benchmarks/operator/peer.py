"""The peer's environment: made on demand from its lock, outside the repository."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).parent.parent / "requirements" / "kopf.txt"


def kopf_python() -> Path:
    """The interpreter of an environment with exactly what the lock says."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "steelyard" / "benchmarks"
    folder = cache / f"kopf-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    uv = str(Path(sys.executable).parent / "uv")
    subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, str(folder)], check=True)
    install = [uv, "pip", "install", "-q", "--python", str(python), "--require-hashes", "-r", str(LOCK)]
    subprocess.run(install, check=True)
    (folder / "complete").touch()
    return python
