"""Two of each service on Kafka, PostgreSQL, S3 and MongoDB's protocol; any is killed or suspended.

STEELYARD_KILL_SEED repeats the choices of the story's long form.
"""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.cli.demo.digits import make
from tests.engines.services import together
from tests.engines.services.conftest import ServedMachine
from tests.engines.services.service import Service
from tests.integration.test_platform_kills import SEED
from tests.integration.test_several import (
    SETTINGS,
    Processes,
    check_log,
    processes,
    tell_with_two_of_each,
    write_with_faults,
)

PAUSE = (0.2, 30.0)
"""Seconds between two kills: on servers the platform needs several to begin, and nothing was told between more frequent
ones.
"""


@pytest.fixture
def services() -> Iterator[dict[str, Service]]:
    with together.services() as services:
        yield services


@pytest.fixture
def running(
    services: dict[str, Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Processes]:
    settings = tmp_path / "steelyard.toml"
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


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_the_story_with_two_of_each_service_on_servers(machine: ServedMachine, tmp_path: Path) -> None:
    """Two orchestrators and two informers are among them; one of each leads."""
    print(f"\nSTEELYARD_KILL_SEED={SEED}")
    assert machine.config("init").returncode == 0
    machine.up()
    with processes(tmp_path, machine.settings) as beside:
        digits = make(tmp_path / "digits")
        await tell_with_two_of_each(machine, beside, digits, 20, random.Random(SEED), PAUSE)
