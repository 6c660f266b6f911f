"""The environments of peers that a benchmark measures: made on demand from their locks, outside the repository."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

LOCKS = Path(__file__).parent / "requirements"


def peer_python(name: str) -> Path:
    """The interpreter of an environment with exactly what the lock `name` says."""
    lock = LOCKS / f"{name}.txt"
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "steelyard" / "benchmarks"
    folder = cache / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    uv = str(Path(sys.executable).parent / "uv")
    subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, str(folder)], check=True)
    install = [uv, "pip", "install", "-q", "--compile-bytecode", "--python", str(python), "--require-hashes"]
    subprocess.run([*install, "-r", str(lock)], check=True)
    (folder / "complete").touch()
    return python
