"""A state folder outlives the installation that began it: another one goes on with it, and no file names the first."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from steelyard.local.test_images import written_by_an_earlier_version
from steelyard_kube.resource import JOBS
from tests.integration.conftest import Machine, is_true
from tests.integration.manifests import make_job
from tests.source import FOLDERS

pytestmark = pytest.mark.e2e


def install(folder: Path) -> Path:
    """Make an environment that has Steelyard, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    places = (*FOLDERS, sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    (packages / "steelyard.pth").write_text(
        "".join(f"{place}\n" for place in dict.fromkeys(map(str, places)))
    )
    return folder / "bin" / "python"


def steelyard_of(python: Path, *words: str, folder: Path) -> None:
    """Run a command of an installation."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
    command = [str(python), "-m", "steelyard.cli.main", *words, "--state-dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def naming(folder: Path, *places: str) -> list[str]:
    """Files and links of the folder that name one of the places."""
    words = [os.fsencode(place) for place in places]
    named = []
    for path in folder.rglob("*"):
        if path.is_symlink():
            content = os.fsencode(os.readlink(path))
        elif path.is_file():
            content = path.read_bytes()
        else:
            continue
        if any(word in content for word in words):
            named.append(str(path.relative_to(folder)))
    return named


async def test_another_installation_goes_on_with_a_folder(machine: Machine, tmp_path: Path) -> None:
    """Jobs by Steelyard's own image run before and after the first environment is gone, as in an upgrade."""
    first, second = install(tmp_path / "first"), install(tmp_path / "second")
    folder = machine.state.path
    script = 'python -c "import steelyard" && test -x "$STEELYARD_PYTHON"'
    steelyard_of(first, "up", "--detach", "--without", "platform", folder=folder)
    await machine.create(JOBS, make_job("before", script))
    await machine.until(JOBS, "before", is_true("Complete"))
    steelyard_of(first, "down", folder=folder)
    assert naming(folder, str(tmp_path / "first")) == []

    shutil.rmtree(tmp_path / "first")
    machine.state.images.write_text(written_by_an_earlier_version(machine.state, str(first)))
    steelyard_of(second, "up", "--detach", "--without", "platform", folder=folder)
    await machine.create(JOBS, make_job("after", script))
    await machine.until(JOBS, "after", is_true("Complete"))
    steelyard_of(second, "down", folder=folder)
    assert naming(folder, str(tmp_path / "first"), str(tmp_path / "second")) == []


def test_no_file_of_a_played_story_names_the_installation(machine: Machine) -> None:
    """Data, models, evaluations, reports, audits and their Pods: the whole demo."""
    steelyard_of(Path(sys.executable), "demo", folder=machine.state.path)
    assert naming(machine.state.path, sys.prefix, sys.executable, *map(str, FOLDERS)) == []
