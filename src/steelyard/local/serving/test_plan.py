"""Tests of what a server is planned to need and to be called, and of what its end is said to be."""

from pathlib import Path

import pytest

from steelyard.local.runners.environments import Environment, data_folder, write
from steelyard.local.serving.plan import available_memory, plan_server, usual_port
from steelyard.local.serving.server import describe_end
from steelyard.runners.kind import GIB


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in GGUF, for which a runner is installed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = data_folder() / "llama.cpp"
    (folder / "e" / "bin").mkdir(parents=True)
    (folder / "e" / "bin" / "python").touch()
    write(Environment("llama.cpp", "cpu", str(folder / "e"), "", "1", {}), data_folder())
    path = tmp_path / "m" / "small.gguf"
    path.parent.mkdir()
    path.write_bytes(b"1234")
    return path


def test_a_plan_has_the_environments_program_and_the_usual_port(model: Path) -> None:
    plan = plan_server(model.parent, arguments=("--n_ctx", "64"))
    assert plan.command[0].endswith("/e/bin/python")
    assert plan.command[-2:] == ["--n_ctx", "64"]
    assert plan.variables["PATH"].startswith(f"{plan.environment.folder}/bin:")
    assert plan.url == f"http://127.0.0.1:{usual_port(model.parent)}/v1"
    assert plan.serving.name == "m"
    assert plan_server(model).serving.name == "small"
    assert "cache 0.3" in plan.memory_text
    assert usual_port(model.parent) != usual_port(model)


def test_memory_is_what_the_control_group_leaves(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable: 5000 kB\n")
    assert available_memory(tmp_path, tmp_path) == 5000 * 1024
    (tmp_path / "memory.current").write_text("1000\n")
    for limit, left in (("max\n", 5000 * 1024), ("3000\n", 2000), (f"{GIB}\n", 5000 * 1024), ("500\n", 0)):
        (tmp_path / "memory.max").write_text(limit)
        assert available_memory(tmp_path, tmp_path) == left


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "ended with exit status 1"),
        (137, "was killed by signal 9"),
        (-9, "was killed with its watcher by signal 9"),
    ],
)
def test_an_end_is_said_in_words(code: int, text: str) -> None:
    assert describe_end(code) == text
