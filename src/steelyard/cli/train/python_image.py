"""The Python of a user, as an image of this machine: `images.toml` gets an entry for it."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from steelyard.local.images import OWN
from steelyard.local.state import StateDir
from steelyard_common import bounded_toml
from steelyard_common.durable import write_atomically
from steelyard_common.errors import UsageError
from steelyard_common.lock import hold_lock

TIMEOUT_SECONDS = 60.0


def choose(interpreter: Path | None) -> Path:
    """The chosen Python (or that of an environment's folder), else the active environment's, else our own.

    Raises UsageError for any other value. Links are kept: an environment's `python` is one.
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


def find_image(python: Path) -> str:
    """The image that stands for this Python.

    The Python of Steelyard itself needs no entry: the folder may be used by another installation later.
    """
    if python.parent == Path(sys.executable).parent and os.path.samefile(python, sys.executable):
        return f"{OWN}python"
    digest = hashlib.sha256(str(python).encode()).hexdigest()[:8]
    folder = re.sub(r"[^a-z0-9]+", "-", python.parent.parent.name.lower()).strip("-")[:30]
    return f"localhost/python/{folder or 'python'}-{digest}".replace("--", "-")


def missing_entry(state: StateDir, python: Path) -> str | None:
    """The entry that images.toml lacks for this Python; None where it has one. Raises UsageError."""
    if (name := find_image(python)).startswith(OWN):
        return None
    try:
        known = bounded_toml.load(bounded_toml.read(state.images)) if state.images.exists() else {}
    except bounded_toml.BadToml as error:
        raise UsageError(f"{state.images}: {error}") from error
    return None if name in known else f'["{name}"]\npython = {json.dumps(str(python))}\n'


def enter(state: StateDir, python: Path) -> None:
    """Add this Python to images.toml where it is not there yet. Raises UsageError."""
    # Two commands that add an entry at once would each write the file without the other's.
    with hold_lock(state.lock("images")):
        if (entry := missing_entry(state, python)) is not None:
            said = bounded_toml.read(state.images) if state.images.exists() else ""
            write_atomically(state.images, f"{said.rstrip()}\n\n{entry}".lstrip())
