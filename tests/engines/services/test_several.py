"""Two of each service on Kafka, PostgreSQL, S3 and MongoDB's protocol, any of which is killed or suspended."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.services import together
from tests.integration.test_several import SETTINGS, Processes, check_log, processes, write_with_faults


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    settings = tmp_path / "steelyard.toml"
    with together.services() as services:
        for name, value in together.write_settings(settings, services).items():
            monkeypatch.setenv(name, value)
        settings.write_text(settings.read_text() + SETTINGS)
        command = [sys.executable, "-m", "steelyard.cli.main", "config", "init", "--settings", str(settings)]
        subprocess.run([*command, "--state-dir", str(tmp_path / "state")], check=True)
        with processes(tmp_path, settings) as running:
            yield running


@pytest.mark.timeout(1800)
async def test_several_of_each_on_servers_lose_and_double_nothing(running: Processes) -> None:
    ids = await write_with_faults(running, seed=1, count=10, rounds=8)
    first = running.settings.read_text().splitlines()[0]
    await check_log(first.partition('"')[2].rstrip('"'), ids)
