"""The Python of a user, as an image of this machine: `images.toml` gets an entry for it."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from steelyard.errors import UsageError
from steelyard.local.lock import waited_for
from steelyard.local.state import StateDir, write_atomically

TIMEOUT_SECONDS = 60.0


def choose(interpreter: Path | None) -> Path:
    """The chosen Python (or that of an environment's folder), else the active environment's, else our own.

    Raises UsageError where it is none. Links are kept: an environment's `python` is one.
    """
    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    path = (interpreter or Path(active or sys.executable)).expanduser().absolute()
    if path.is_dir():
        path = path / "bin" / "python"
    if not os.access(path, os.X_OK) or path.is_dir():
        raise UsageError(
            f"--python {interpreter or path}: is not a Python interpreter; give a program or an environment's folder"
        )
    return path


def check_module(python: Path, module: str, framework: str) -> None:
    """Raises UsageError where this Python cannot import what the framework's programs import."""
    if not module:
        return
    check = f"import importlib.util as u, sys; sys.exit(0 if u.find_spec({module!r}) else 3)"
    try:
        done = subprocess.run(
            # In its own process: it is another interpreter than this one, with other packages.
            [python, "-c", check],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"--python {python}: does not run: {error}") from error
    if done.returncode == 3:
        raise UsageError(
            f"--python {python}: has no {module}, which {framework} programs need; install it there, or name another "
            "Python or environment with --python"
        )
    if done.returncode:
        raise UsageError(f"--python {python}: does not run: {done.stderr.strip()[-500:]}")


def image_of(state: StateDir, python: Path) -> str:
    """The image that stands for this Python; it is added to images.toml where it is not there yet."""
    digest = hashlib.sha256(str(python).encode()).hexdigest()[:8]
    folder = re.sub(r"[^a-z0-9]+", "-", python.parent.parent.name.lower()).strip("-")[:30]
    name = f"localhost/python/{folder or 'python'}-{digest}".replace("--", "-")
    # Two commands that add an entry at once would each write the file without the other's.
    with waited_for(state.lock("images")):
        said = state.images.read_text() if state.images.exists() else ""
        try:
            known = tomllib.loads(said)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{state.images}: {error}") from error
        if name not in known:
            entry = f'["{name}"]\npython = {json.dumps(str(python))}\n'
            write_atomically(state.images, f"{said.rstrip()}\n\n{entry}".lstrip())
    return name


def progress_folder(state: StateDir) -> Path:
    """A folder for PYTHONPATH from which `steelyard.progress` is imported, and nothing else.

    It has no `__init__.py`: where Steelyard itself is installed, that counts.
    """
    source = Path(__file__).parents[2] / "progress.py"
    target = state.python / "steelyard" / "progress.py"
    content = source.read_text()
    if not target.exists() or target.read_text() != content:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, content)
    return state.python
