"""Folder of the unit tests' temporary files: in memory, where there is room."""

import os
import shutil
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
