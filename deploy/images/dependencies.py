"""The locked dependencies of a purpose: cut out of the repository's lock, installed into a folder, freed of what no
program reads.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from deploy.images.debian import Interpreter, Package
from deploy.images.errors import ImageError
from deploy.images.purposes import Purpose
from tests.release.lock import Pin, read_pins
from tests.source import ROOT

LOCK = ROOT / "requirements" / "dev.txt"
"""Lock of every extra that an image has."""
UNUSED_FOLDERS = frozenset({"__pycache__", "include", "test", "tests"})
PROGRAMS, DATA = "bin", ("etc", "share")
"""Folders of an installation beside the modules."""
UNUSED_SUFFIXES = frozenset({".a", ".c", ".cc", ".cpp", ".h", ".hpp", ".pxd", ".pxi", ".pyi", ".pyx"})
UNUSED_LIBRARIES = re.compile(r"pyarrow/[^/]*flight[^/]*")
"""Files of a protocol over networks that Arrow has, and nothing else of Arrow needs: 32 MB."""
KEPT_STUBS = "jedi"
"""Package that reads stubs of others when it completes names."""
RECORDS = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json"})
"""Files about an installation: they would name folders of this machine, and files that are left out."""


def platform_tag(packages: Iterable[Package], machine: str) -> str:
    """Return the platform, as uv names it, whose wheels the libraries of a base can load."""
    version = next(package.version for package in packages if package.name == "libc6")
    match = re.match(r"(\d+)\.(\d+)", version)
    assert match
    return f"{machine}-manylinux_{match[1]}_{match[2]}"


def choose_pins(purpose: Purpose, python: str, platform: str) -> list[Pin]:
    """Return the pins of the lock that the extras of a purpose bring on this Python. Raises ImageError."""
    ours = [f"--no-emit-package=steelyard-{path.name}" for path in sorted((ROOT / "packages").iterdir())]
    extras = [f"--extra={extra}" for extra in purpose.extras]
    words = ("compile", "-q", "pyproject.toml", "--no-header", "--no-annotate", "-c", str(LOCK))
    where = (f"--python-version={python}", f"--python-platform={platform}")
    chosen = _run_uv(*words, *extras, *ours, *where)
    locked = {(pin.name, pin.version): pin for pin in read_pins(LOCK.read_text())}
    pins = re.findall(r"^([a-z0-9-]+)==([^\s;]+)", chosen, re.MULTILINE)
    if unlocked := ["==".join(pin) for pin in pins if pin not in locked]:
        raise ImageError(f"{purpose.name}: the lock lacks {', '.join(unlocked)}")
    return [locked[pin] for pin in pins]


def install(pins: Sequence[Pin], python: Interpreter, platform: str, root: Path, scratch: Path) -> None:
    """Install the pins below a root, each by a digest of the lock, and remove unused files. Raises ImageError."""
    folder = root / python.modules
    lines = [
        f"{pin.name}=={pin.version} " + " ".join(f"--hash=sha256:{one}" for one in pin.hashes) for pin in pins
    ]
    requirements = scratch / "requirements.txt"
    requirements.write_text("\n".join(lines) + "\n")
    words = ("install", "-q", "--no-deps", "--require-hashes", "--only-binary=:all:", "--link-mode=copy")
    where = (f"--python-version={python.version}", f"--python-platform={platform}", f"--target={folder}")
    _run_uv(*words, *where, "-r", str(requirements))
    shutil.rmtree(folder / PROGRAMS, ignore_errors=True)  # their first lines name this machine's Python
    for name in DATA:
        if (folder / name).is_dir():
            (folder / name).rename(root / "usr/local" / name)
    take_out_unused(folder)


def machine() -> str:
    """Return the name of this machine in wheels."""
    return os.uname().machine


def _run_uv(*words: str) -> str:
    uv = Path(sys.executable).parent / "uv"
    command = [str(uv), "pip", words[0], *words[1:]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"uv pip {words[0]}: {done.stderr.strip()[-800:]}")
    return done.stdout


def take_out_unused(modules: Path) -> None:
    """Remove files that no program reads: tests, headers, stubs, records of the installation."""
    for path in sorted(modules.rglob("*"), reverse=True):
        name = path.relative_to(modules).as_posix()
        top = name.partition("/")[0]
        if path.is_dir():
            if path.name in UNUSED_FOLDERS and not path.is_symlink():
                shutil.rmtree(path)
        elif (
            (path.suffix in UNUSED_SUFFIXES and top != KEPT_STUBS)
            or (path.name in RECORDS and top.endswith(".dist-info"))
            or UNUSED_LIBRARIES.fullmatch(name)
            or name == ".lock"
        ):
            path.unlink()
