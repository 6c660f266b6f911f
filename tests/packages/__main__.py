"""`make packages`: each package alone, or those that are named.

Its wheel is built and installed with its own dependencies into a new environment, and its unit tests run there. They
are not in the wheel: they are laid beside the installed modules, and import what users get. Versions are those of the
lock. A package whose tests take minutes names the folders of those that are run here, and all others are collected,
which imports what they test; `make test` runs them all, and so does `--all` here.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.packages.package import LOCK, PACKAGES, Package
from tests.source import ROOT

HERE = Path(__file__).parent
UV = Path(sys.executable).parent / "uv"
BUILD = (sys.executable, "-m", "hatchling", "build", "-t", "wheel")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.packages", description=__doc__)
    names = [package.name for package in PACKAGES]
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"by default all: {', '.join(names)}")
    parser.add_argument("--all", action="store_true", help="run all tests of a package that names a share")
    arguments = parser.parse_args()
    chosen = arguments.packages or names
    if unknown := sorted({*chosen} - {*names}):
        parser.error(f"there is no package {', '.join(unknown)}; there are {', '.join(names)}")
    with tempfile.TemporaryDirectory(prefix="steelyard-packages-") as scratch:
        wheels = Path(scratch) / "wheels"
        for package in PACKAGES:
            run("build", *BUILD, "-d", wheels, at=package.folder)
        tried = [package for package in PACKAGES if package.name in chosen]
        with ThreadPoolExecutor(2) as side_by_side:
            statuses = side_by_side.map(
                lambda package: test(package, wheels, Path(scratch), whole=arguments.all), tried
            )
            return max(statuses, default=0)


def test(package: Package, wheels: Path, scratch: Path, *, whole: bool) -> int:
    """Install a package into a new environment, and return pytest's exit status of its unit tests there."""
    began = time.monotonic()
    folder = scratch / package.name
    folder.mkdir()
    python = folder / "environment" / "bin" / "python"
    run("venv", UV, "venv", "-q", "--python", sys.executable, python.parent.parent, at=folder)
    (wheel,) = wheels.glob(f"{package.module}-*.whl")
    extras = f"[{','.join(package.extras)}]" if package.extras else ""
    install = (UV, "pip", "install", "-q", "--python", python, "--find-links", wheels, "--constraint", LOCK)
    group = f"{package.folder / 'pyproject.toml'}:test"
    run("install", *install, f"{wheel}{extras}", "--group", group, at=folder)
    (installed,) = python.parent.parent.glob(f"lib/python*/site-packages/{package.module}")
    package.lay_tests(installed)
    # The settings of the repository, and its conftest.py, from which nothing of ours is imported.
    settings = (
        "-c",
        ROOT / "pyproject.toml",
        "--rootdir",
        installed.parent,
        "-p",
        "conftest",
        "-p",
        "no:cacheprovider",
    )
    command: list[str | Path] = [python, "-m", "pytest", "-q", *settings, installed]
    if package.share and not whole:
        command += ["-p", "share", "--share", ",".join(str(installed / folder) for folder in package.share)]
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    clean["PYTHONPATH"] = str(folder / "conftest")
    (folder / "conftest").mkdir()
    for plugin in (ROOT / "conftest.py", HERE / "share.py"):
        (folder / "conftest" / plugin.name).write_bytes(plugin.read_bytes())
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=clean, capture_output=True, text=True, check=False
    )
    shown = done.stdout + done.stderr if done.returncode else done.stdout.strip().splitlines()[-1]
    print(f"{package.name}, alone, in {time.monotonic() - began:.0f} s: {shown}", flush=True)
    return done.returncode


def run(step: str, *command: str | Path, at: Path) -> None:
    done = subprocess.run(
        [str(word) for word in command], cwd=at, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{step} fails in {at}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
