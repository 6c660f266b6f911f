"""Fixtures of the tests of the built wheels."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
UV = Path(sys.executable).parent / "uv"


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """The standard output of a command that has to succeed."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def build(folder: Path) -> Path:
    """Build the wheels of all packages into the folder, and return that of `steelyard`."""
    for package in (ROOT, *sorted((ROOT / "packages").iterdir())):
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=package)
    (built,) = folder.glob("steelyard-*.whl")
    return built


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of `steelyard` among those of all packages, built once for all tests."""
    return build(tmp_path_factory.mktemp("wheels"))


def make_environment(folder: Path, base: str | Path = sys.executable) -> Path:
    """Make an empty environment in the folder, and return its interpreter."""
    python = folder / "environment" / "bin" / "python"
    run(UV, "venv", "-q", "--python", base, python.parent.parent, cwd=folder)
    return python


def install_wheel(python: Path, wheel: Path, extras: str, *options: str | Path) -> None:
    folder = python.parent
    # The others are found beside it, as in any folder of wheels.
    beside = ("--find-links", wheel.parent)
    run(UV, "pip", "install", "-q", *options, *beside, "--python", python, f"{wheel}{extras}", cwd=folder)


@pytest.fixture
def install(wheel: Path, tmp_path: Path) -> Callable[..., Path]:
    """Installs the wheel with its extras into an empty environment, and gives its interpreter."""

    def installed(extras: str = "", *options: str | Path, base: str | Path = sys.executable) -> Path:
        python = make_environment(tmp_path, base)
        install_wheel(python, wheel, extras, *options)
        return python

    return installed
