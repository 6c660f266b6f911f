"""Tests of runners' environments, with a uv of our own that fills them, fails, or is killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from steelyard.local.image_resolver import find
from steelyard.local.runners import install as installing
from steelyard.local.runners.environments import data_folder, faults, hold_lock, read, remove
from steelyard.local.runners.images import enter_installed
from steelyard.local.runners.install import InstallFailed, install
from steelyard.local.state import StateDir
from steelyard.runners.table import KINDS
from steelyard_common.errors import UsageError
from steelyard_local_kubernetes.kubelet.images import ImageMissing

KIND = KINDS["llama.cpp"]
UV = """#!{python}
import os, pathlib, sys, time
arguments = sys.argv[1:]
lock = pathlib.Path(arguments[arguments.index("--requirements") + 1]).read_text()
assert "--require-hashes" in arguments and "--no-deps" in arguments and "--hash=sha256:" in lock
if os.environ.get("UV_FAILS"):
    sys.exit("no such package")
python = pathlib.Path(arguments[arguments.index("--python") + 1])
site = next((python.parents[1] / "lib").glob("python3*/site-packages"))
(site / "llama_cpp").mkdir()
(site / "llama_cpp" / "__init__.py").write_text("# it\\n")
info = site / "llama_cpp_python-1.2.dist-info"
info.mkdir()
(info / "METADATA").write_text("Metadata-Version: 2.1\\nName: llama-cpp-python\\nVersion: 1.2\\n")
(info / "RECORD").write_text("llama_cpp/__init__.py,,5\\n")
if os.environ.get("UV_HANGS"):
    print("half done", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A uv that installs one small package, first on the PATH; environments lie below `tmp_path`."""
    program = tmp_path / "bin" / "uv"
    program.parent.mkdir()
    program.write_text(UV.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr(installing, "_uv", lambda: str(program))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return program


def silent(text: str) -> None:
    del text


def left() -> list[str]:
    folder = data_folder() / KIND.name
    return sorted(path.name for path in folder.iterdir() if path.name != "lock")


def test_an_installed_runner_is_checked_listed_and_removed() -> None:
    environment = install(KIND, "cpu", silent)
    assert read(KIND) == environment
    assert (environment.version, environment.variant) == ("1.2", "cpu")
    assert faults(KIND, environment) == []
    assert install(KIND, "cpu", silent) == environment
    next(Path(environment.folder).glob("lib/*/site-packages/llama_cpp/__init__.py")).write_text("")
    assert faults(KIND, environment) == ["llama_cpp/__init__.py: was changed"]
    assert remove(KIND)
    assert read(KIND) is None
    assert left() == []
    assert not remove(KIND)


def test_a_failed_installation_leaves_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = install(KIND, "cpu", silent)
    monkeypatch.setenv("UV_FAILS", "1")
    with pytest.raises(InstallFailed, match="ended with exit status 1"):
        install(KIND, "cuda", silent)
    assert read(KIND) == environment
    assert left() == sorted(["environment.json", Path(environment.folder).name])


def test_another_variant_takes_the_place() -> None:
    first = install(KIND, "cpu", silent)
    second = install(KIND, "cuda", silent)
    assert read(KIND) == second
    assert not Path(first.folder).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_installation_counts_for_nothing(uv: Path, number: signal.Signals) -> None:
    program = (
        "from steelyard.local.runners import install as i; from steelyard.runners.table import KINDS; "
        f"i._uv = lambda: {str(uv)!r}; i.install(KINDS['llama.cpp'], 'cpu', lambda text: None)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"UV_HANGS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half done\n"
        with pytest.raises(UsageError, match="another command installs"), hold_lock(KIND, data_folder()):
            pass
        process.send_signal(number)
        process.wait()
    assert read(KIND) is None
    if number == signal.SIGINT:
        assert left() == []
    environment = install(KIND, "cpu", silent)
    assert left() == sorted(["environment.json", Path(environment.folder).name])


def test_a_full_disk_is_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(UsageError, match="needs about"):
        install(KIND, "cpu", silent)


def test_the_kubelet_finds_what_is_installed_and_names_the_command_for_what_is_not(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    state.path.mkdir()
    mine = '# mine\n["other/image"]\npython = "/usr/bin/python3"\n'
    state.images.write_text(mine)
    with pytest.raises(ImageMissing, match=rf"steelyard runners install llama\.cpp --state-dir {state.path}"):
        find(state.images, f"localhost/{KIND.image}@sha256:0")
    environment = install(KIND, "cpu", silent)
    enter_installed(state)
    enter_installed(state)
    assert find(state.images, f"localhost/{KIND.image}").python == str(environment.python)
    assert state.images.read_text().startswith(mine)
    assert len(tomllib.loads(state.images.read_text())) == 2
    remove(KIND)
    with pytest.raises(ImageMissing, match="runners install"):
        find(state.images, f"localhost/{KIND.image}")
    enter_installed(state)
    assert state.images.read_text().strip() == mine.strip()


def test_an_entry_of_the_user_stays(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    state.path.mkdir()
    said = f'["localhost/{KIND.image}"]\npython = {json.dumps(sys.executable)}\ncommand = ["mine"]\n'
    state.images.write_text(said)
    install(KIND, "cpu", silent)
    enter_installed(state)
    assert state.images.read_text() == said
    assert find(state.images, f"localhost/{KIND.image}").command == ("mine",)
