"""Tests of the frame of a service's process."""

from pathlib import Path

import pytest

from steelyard.local.process import ServiceOptions, command_again, in_lines, prepare_folder
from steelyard.local.state import StateDir
from steelyard.settings import load
from steelyard_common.errors import SteelyardError
from steelyard_kube.leader import LeaseLost


def test_the_command_names_the_newest_socket() -> None:
    command = ["python", "-m", "steelyard.cli.service", "kubernetes", "--line", "4"]
    again = [*command, "--listener", "7"]
    assert command_again(command, 7) == again
    assert command_again([*command[:4], "--listener", "9", *command[4:]], 7) == again


SERVERS = """
log = "kafka://k:9092/p"
view = "mongodb://m/p?replicaSet=r"
accounts = "postgresql://s@d/p"
storage = "s3://b/p"
backup = "s3://c/p"
kubernetes = "in-cluster"
"""
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def list_prepared(folder: Path, name: str, text: str, *, chosen: bool, pod: bool) -> set[str] | None:
    """Return what lies in the state folder of a service; None without a folder."""
    file = folder / "steelyard.toml"
    file.write_text(text)
    state = StateDir(folder / "state")
    part = ServiceOptions(name, state, folder_chosen=chosen)
    has_folder = prepare_folder(part, load(file, state.path), POD if pod else {})
    assert has_folder == state.path.exists()
    return {path.name for path in state.path.iterdir()} if has_folder else None


def test_a_service_on_servers_needs_no_folder_in_a_pod(tmp_path: Path) -> None:
    assert list_prepared(tmp_path, "api", SERVERS, chosen=False, pod=True) is None
    assert list_prepared(tmp_path, "operator", 'kubernetes = "in-cluster"', chosen=False, pod=True) is None


@pytest.mark.parametrize(("chosen", "pod"), [(True, True), (False, False)], ids=["chosen", "on a machine"])
def test_a_service_on_servers_makes_no_files_of_one_machine(tmp_path: Path, chosen: bool, pod: bool) -> None:
    assert list_prepared(tmp_path, "aggregator", SERVERS, chosen=chosen, pod=pod) == set()


@pytest.mark.parametrize("engine", ["log", "view", "accounts", "storage", "backup", "kubernetes"])
def test_a_service_with_an_engine_in_its_folder_has_the_folders_secrets(tmp_path: Path, engine: str) -> None:
    text = "\n".join(line for line in SERVERS.splitlines() if not line.startswith(engine))
    made = list_prepared(tmp_path, "api", text, chosen=False, pod=engine != "kubernetes")
    assert made is not None
    assert {"pki", "identity.json"} <= made


@pytest.mark.parametrize(
    "failure",
    [LeaseLost("it"), ExceptionGroup("tasks", [LeaseLost("it"), RuntimeError("a task that failed for it")])],
    ids=["alone", "among the errors of other tasks"],
)
def test_a_leader_that_lost_its_lease_ends_with_one_line(failure: Exception) -> None:
    with (
        pytest.raises(SteelyardError, match="it: this process ends, and stands for election again"),
        in_lines(),
    ):
        raise failure
