"""Runs tests of this tree on another Python: its packages are those of the lock, kept in the cache."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.engines.locked import environment
from tests.packages.package import LOCK
from tests.source import FOLDERS, write_metadata
from tests.versions.interpreters import ROOT, interpreter

USERS_SIDE = (
    *(f"src/steelyard/{name}" for name in ("client", "clusters", "cli")),
    *(f"packages/{name}" for name in ("common", "evaluation", "kube", "schema")),
)
"""Folders that run in programs of users: the client, the command line and the evaluation engine."""


def run(version: str, arguments: Sequence[str] = USERS_SIDE) -> int:
    """pytest's exit status on this version. Raises Missing where there is no such Python."""
    packages = environment(f"python-{version}", LOCK, "pythons", interpreter(version))
    with tempfile.TemporaryDirectory(prefix="steelyard-python-") as folder:
        python = link(packages, Path(folder))
        command = [str(python), "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *arguments]
        settings = {"STEELYARD_EXAMPLES": os.environ.get("STEELYARD_EXAMPLES", "few")}
        return subprocess.run(command, cwd=ROOT, env=os.environ | settings, check=False).returncode


def link(packages: Path, folder: Path) -> Path:
    """The interpreter of a new environment: the packages of the one in the cache, and this tree as if installed.

    The cache is shared by trees; this one's source, entry points and command are in a folder of its own.
    """
    subprocess.run([packages, "-m", "venv", "--without-pip", folder / "environment"], check=True)
    python = folder / "environment" / "bin" / "python"
    (site,) = python.parent.parent.glob("lib/python*/site-packages")
    (cached,) = packages.parent.parent.glob("lib/python*/site-packages")
    write_metadata(site)
    # `addsitedir` reads the .pth files of the packages, which a line with their folder alone would not.
    (site / "steelyard.pth").write_text(
        f"import site; site.addsitedir({str(cached)!r})\n" + "".join(f"{source}\n" for source in FOLDERS)
    )
    command = python.parent / "steelyard"
    command.write_text(f"#!{python}\nfrom steelyard.cli.main import main\n\nmain()\n")
    command.chmod(0o755)
    return python
