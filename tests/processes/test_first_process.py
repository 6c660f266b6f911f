"""A service that is the first process of its container, to which the kernel sends no signal without a handler."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BEGUN = """
import pathlib, time

pathlib.Path({path!r}).touch()
time.sleep(600)
"""
"""A module that is imported at the start of a service, and takes long."""


@pytest.mark.parametrize("module", ["steelyard.cli.main", "steelyard.cli.service"])
def test_an_end_that_is_asked_for_during_the_imports_is_not_lost(tmp_path: Path, module: str) -> None:
    begun = tmp_path / "begun"
    (tmp_path / "uvloop.py").write_text(BEGUN.format(path=str(begun)))
    arguments = ["service"] if module.endswith("main") else []
    alone = ["unshare", "--pid", "--fork", "--kill-child"]
    process = subprocess.Popen(
        [
            *alone,
            sys.executable,
            "-m",
            module,
            *arguments,
            "aggregator",
            "--state-dir",
            str(tmp_path / "state"),
        ],
        env={"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while not begun.exists():
            if process.poll() is not None:
                assert process.stderr is not None
                pytest.skip(f"no namespace of processes here: {process.stderr.read()}")
            time.sleep(0.01)
        (first,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        subprocess.run(["kill", f"-{signal.SIGTERM.value}", first], check=True)
        assert process.wait(60) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.communicate()
