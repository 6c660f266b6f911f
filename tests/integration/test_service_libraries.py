"""A service that runs alone loads the libraries that it needs and no others: each Pod on a cluster pays for them."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from steelyard.local.state import StateDir

pytestmark = pytest.mark.e2e

SECONDS = 60.0
HEAVY = ("cryptography", "obstore")
"""Libraries of several MB: for secrets and signatures, and for object stores."""


def libraries(name: str, folder: Path) -> set[str]:
    """Start a service on a folder without servers; return the heavy libraries that it has loaded once it runs."""
    state = StateDir(folder)
    command = [sys.executable, "-m", "steelyard.cli.service", name, "--state-dir", str(folder)]
    process = subprocess.Popen(command)
    try:
        end = time.monotonic() + SECONDS
        while not state.metrics(name).exists():
            assert process.poll() is None
            assert time.monotonic() < end, f"{name} does not run after {SECONDS:g} s"
            time.sleep(0.05)
        mapped = Path(f"/proc/{process.pid}/maps").read_text()
    finally:
        process.terminate()
        process.wait(30)
    return {library for library in HEAVY if f"/{library}/" in mapped}


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("api", {"cryptography"}),
        *((name, set()) for name in ("aggregator", "view-sink", "backup-sink", "reaper", "webhooks")),
    ],
)
def test_a_service_loads_what_it_needs(name: str, needed: set[str], tmp_path: Path) -> None:
    assert libraries(name, tmp_path / "state") == needed
