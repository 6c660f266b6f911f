"""A machine whose accounts, log, view and storage are on real engines."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.local.detached import UpOptions
from steelyard.local.state import Ready
from steelyard.local.supervisor import start_detached
from tests.engines.services import together
from tests.engines.services.service import Service
from tests.integration.conftest import Machine, processes_of


class ServedMachine(Machine):
    """A machine whose accounts and storage are on servers."""

    settings: Path

    def up(self, *without: str) -> Ready:
        return start_detached(self.state.path, UpOptions(settings=self.settings, without=without))

    def config(self, verb: str) -> subprocess.CompletedProcess[str]:
        """Run `steelyard config`."""
        options = ["--settings", str(self.settings), "--state-dir", str(self.state.path)]
        command = [sys.executable, "-m", "steelyard.cli.main", "config", verb, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def machine(
    services: dict[str, Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServedMachine]:
    """A machine on the engines that the file's fixture `services` starts; no process of it is left in the end."""
    machine = ServedMachine(tmp_path / "state")
    machine.settings = tmp_path / "steelyard.toml"
    for name, value in together.write_settings(machine.settings, services).items():
        monkeypatch.setenv(name, value)
    yield machine
    machine.down()
    assert processes_of(machine.state.path) == []
