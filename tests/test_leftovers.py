"""A test run that was killed leaves no machine running, and neither does a step that failed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steelyard.local.detached import stop
from tests.integration.conftest import machine_at, processes_of

ROOT = Path(__file__).parents[1]
TESTS = """
from steelyard.local.detached import UpOptions, start_detached


def test_two_machines(tmp_path):
    kubernetes = UpOptions(without=("platform", "operator"))
    start_detached(tmp_path / "runs", kubernetes)
    start_detached(tmp_path / "starts", kubernetes)
"""


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_machines_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    """Two machines: one runs, and one has only just been started."""
    (tmp_path / "test_two.py").write_text(TESTS)
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider"),
        *("-p", "tests.conftest", "--basetemp", str(tmp_path / "run"), str(tmp_path / "test_two.py")),
    ]
    machines = tmp_path / "run" / "test_two_machines0"
    try:
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            while not processes_of(machines / "starts"):
                assert process.poll() is None, process.stdout and process.stdout.read()
                time.sleep(0.01)
            runs = processes_of(machines / "runs")
            os.killpg(process.pid, signal.SIGKILL)
        assert len(runs) >= 2  # the supervisor and Kubernetes
        while processes_of(tmp_path / "run"):  # also its guard
            time.sleep(0.05)
    finally:
        for name in ("runs", "starts"):  # where the guard did not
            stop(machines / name)


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_a_machine_ends_with_a_step_that_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with machine_at(tmp_path / "state") as machine:
            machine.up("platform", "operator")
            raise ValueError("a step failed")

    with pytest.raises(ValueError, match=r"^a step failed$"):
        fail()
    assert processes_of(tmp_path) == []
