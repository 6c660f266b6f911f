"""The unit tests: temporary files in memory, where there is room, and a process that each file gives back as it was."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
NEEDED_BYTES = 2 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary files in memory: a third of the suite's time was spent waiting for a disk to confirm writes.

    No unit test sees the difference, since none turns the power off. Integration tests stay on the disk.
    """
    if "PYTEST_DEBUG_TEMPROOT" in os.environ:
        return
    source = Path(__file__).parent
    unit_only = all(Path(arg.split("::")[0]).resolve().is_relative_to(source) for arg in config.args)
    if unit_only and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > NEEDED_BYTES:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY)


@pytest.fixture(scope="module", autouse=True)
def _environment_and_signals() -> Iterator[None]:
    """Take back what a program changes that a test calls: the next file would have a step's folder of Hugging Face, and
    would hear no SIGTERM after a step, whose closed uvloop has it.
    """
    variables, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)
    for name in {*os.environ, *variables} - {"PYTEST_CURRENT_TEST"}:
        if name not in variables:
            del os.environ[name]
        elif os.environ.get(name) != variables[name]:
            os.environ[name] = variables[name]
