"""Programs from Debian's packages, where this machine lacks them."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path

from tests.engines.build import Missing, cache, one_at_a_time


def install(packages: Collection[str]) -> None:
    """Install packages. Raises Missing."""
    if packages:
        names = sorted(packages)
        _run_apt(["install", "-y", "-qq", "--no-install-recommends", *names], Path.cwd())


def unpacked(package: str, program: str) -> Path:
    """Return a program of a package, unpacked once per machine: installing it would start its server.

    Raises Missing.
    """
    folder = cache().parent / f"debian-{package}"
    path = folder / program
    with one_at_a_time(folder):
        if not path.exists():
            with tempfile.TemporaryDirectory(prefix="steelyard-debian-") as scratch:
                _run_apt(["download", "-qq", package], Path(scratch))
                (archive,) = Path(scratch).glob("*.deb")
                subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
    return path


def _run_apt(words: list[str], folder: Path) -> None:
    """Run apt-get. A machine whose list of packages is not there yet, or old, gets a new one first. Raises Missing."""
    if not shutil.which("apt-get"):
        raise Missing(f"no apt-get for: {' '.join(words)}")
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for attempt in (words, ["update", "-qq"], words):
        done = subprocess.run(
            ["apt-get", *attempt], cwd=folder, capture_output=True, text=True, env=quiet, check=False
        )
        if attempt is words and not done.returncode:
            return
    raise Missing(f"apt-get {' '.join(words)}: {done.stderr.strip()[-300:]}")
