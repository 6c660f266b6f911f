"""The environments of runners that are installed for this user, and the records that name them.

A folder that no record names is what an interrupted installation left: it counts for nothing, and the next
installation removes it. So the record is written last, and removed first.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from steelyard.runners.kind import Program, Variant
from steelyard_common.durable import write_atomically
from steelyard_common.errors import UsageError
from steelyard_common.lock import FileLock, LockHeld

TIMEOUT_SECONDS = 300.0
RECORD = "environment.json"
_LIST = """
import importlib.metadata as m, importlib.util as u, json, os, sys
faults = []
versions = {}
for d in m.distributions():
    versions[d.name.lower().replace("_", "-")] = d.version
    for f in d.files or ():
        if f.size and not str(f).endswith(".pyc") and ".." not in f.parts:
            try:
                if os.stat(d.locate_file(f)).st_size != f.size:
                    faults.append(f"{f}: was changed")
            except OSError:
                faults.append(f"{f}: is missing")
if u.find_spec(sys.argv[1].partition(".")[0]) is None:
    faults.append(f"{sys.argv[1]}: cannot be imported")
json.dump({"versions": versions, "faults": faults}, sys.stdout)
"""


@dataclass(frozen=True)
class Environment:
    """One installed environment, as its record says."""

    kind: str
    variant: Variant
    folder: str
    """Path of the virtual environment."""
    lock: str
    """SHA-256 of the lock that it was installed from."""
    version: str
    """Version of the server."""
    versions: Mapping[str, str]
    """Versions of all packages, by their names."""

    @property
    def python(self) -> Path:
        return Path(self.folder) / "bin" / "python"


def data_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_DATA_HOME/steelyard/runners`, by default below `~/.local/share`."""
    base = environment.get("XDG_DATA_HOME") or ""
    return (
        (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "steelyard" / "runners"
    )


def read(kind: Program, folder: Path | None = None) -> Environment | None:
    """Return the environment of a kind; None where none is installed, or its Python is gone."""
    path = (folder or data_folder()) / kind.name / RECORD
    try:
        environment = Environment(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return environment if environment.python.exists() else None


def write(environment: Environment, folder: Path) -> None:
    """Write the record, from which on the environment is installed."""
    write_atomically(folder / environment.kind / RECORD, json.dumps(asdict(environment)))


def lock_text(kind: Program, variant: Variant) -> str:
    """Return the lock: every package of the environment with its version and digests."""
    return (files("steelyard.runners") / "locks" / kind.environments[variant].lock).read_text()


def lock_digest(kind: Program, variant: Variant) -> str:
    return sha256(lock_text(kind, variant).encode()).hexdigest()


def contents(python: Path, module: str) -> tuple[dict[str, str], list[str]]:
    """Return the versions of all packages of an environment, and the faults of their files."""
    done = subprocess.run(
        [python, "-c", _LIST, module], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if done.returncode:
        return {}, [f"{python}: does not run: {done.stderr.strip()[-300:]}"]
    content = json.loads(done.stdout)
    return content["versions"], content["faults"]


def faults(kind: Program, environment: Environment) -> list[str]:
    """Return what is wrong with an environment: damaged files, other versions, another lock."""
    versions, wrong = contents(environment.python, kind.module)
    for name, version in environment.versions.items():
        if versions and versions.get(name) != version:
            wrong.append(f"{name}: should be {version}, is {versions.get(name, 'missing')}")
    if environment.lock != lock_digest(kind, environment.variant):
        wrong.append(
            f"it was installed from the lock of another version of Steelyard: {kind.install_command}"
        )
    return wrong


def remove(kind: Program, folder: Path | None = None) -> bool:
    """Remove the environment of a kind, and what interrupted installations left; False where there was none."""
    folder = folder or data_folder()
    if not (folder / kind.name).exists():
        return False
    with hold_lock(kind, folder):
        there = (folder / kind.name / RECORD).exists()
        (folder / kind.name / RECORD).unlink(missing_ok=True)
        remove_unnamed(kind, folder)
    return there


def remove_unnamed(kind: Program, folder: Path) -> None:
    """Remove the folders that no record names."""
    named = read(kind, folder)
    for path in (folder / kind.name).iterdir():
        if path.is_dir() and (named is None or path != Path(named.folder)):
            shutil.rmtree(path)


@contextmanager
def hold_lock(kind: Program, folder: Path) -> Iterator[None]:
    """Let one command at a time work on a kind's environment."""
    (folder / kind.name).mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / kind.name / "lock"):
            yield
    except LockHeld:
        raise UsageError(
            f"{kind.name}: another command installs or removes it now; wait until it has ended"
        ) from None
