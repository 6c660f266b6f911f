"""What a user installs: the built wheel with its extra, in an empty environment, with the newest dependencies."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
UV = Path(sys.executable).parent / "uv"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_leaves_the_tests_out(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "steelyard/cli/main.py" in names
    assert "steelyard/py.typed" in names
    assert "steelyard/testing/frameworks.py" in names
    assert not [name for name in names if Path(name).name.startswith(("test_", "conftest"))]
    assert not [name for name in names if "/simulation/" in name]


def test_an_unpinned_installation_runs_the_example(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    run(UV, "venv", "-q", "--python", sys.executable, environment, cwd=tmp_path)
    python = environment / "bin" / "python"
    run(UV, "pip", "install", "-q", "--compile-bytecode", "--python", python, f"{wheel}[local]", cwd=tmp_path)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    steelyard = environment / "bin" / "steelyard"
    state = tmp_path / "state"
    said = run(steelyard, "run", ROOT / "examples" / "digits", "--state-dir", state, cwd=tmp_path, env=clean)
    assert "report.html" in said
    assert len(list((state / "storage" / "reports").glob("*/report.html"))) == 1
    told = run(steelyard, "demo", "--display", "plain", "--state-dir", state, cwd=tmp_path, env=clean)
    assert "state/audits/digits-all/index.html" in told
    assert (state / "audits" / "digits-all" / "index.html").exists()
