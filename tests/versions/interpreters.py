"""Finds the Pythons of this machine: on PATH, among pyenv's, among uv's."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.engines.build import Missing

ROOT = Path(__file__).parents[2]
VERSIONS = tuple(
    re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
)
"""The versions that the package says it runs on, the newest last."""
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
OTHERS = tuple(version for version in VERSIONS if version != RUNNING)
"""Versions other than the one that runs this."""


@cache
def interpreter(version: str) -> Path:
    """A Python of this version, such as "3.12". Raises Missing on a machine without one."""
    if version == RUNNING:
        return Path(sys.executable)
    for candidate in _candidates(version):
        if _version(candidate) == version:
            return candidate
    raise Missing(f"Python {version} is not installed")


def _candidates(version: str) -> Iterator[Path]:
    name = f"python{version}"
    folders = [Path(folder) for folder in os.get_exec_path()]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv" / "python")
    for installed in (pyenv.glob(f"{version}*/bin"), uv.glob(f"cpython-{version}*/bin")):
        folders += sorted(installed, reverse=True)
    yield from (folder / name for folder in folders if (folder / name).is_file())


def _version(candidate: Path) -> str | None:
    """Return the version that an interpreter reports: a shim of pyenv may stand for a version that is not
    chosen.
    """
    said = "import sys; print(sys.implementation.name, '%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [candidate, "-I", "-c", said], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.removeprefix("cpython").strip() or None if done.returncode == 0 else None
