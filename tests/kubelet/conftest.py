"""A machine for each test, on which nothing runs any more when the test ends."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
from steelyard_local_kubernetes.kubelet.testing import Machine, make_config


def processes_of(folder: Path) -> list[str]:
    """Every process whose command or environment names the folder."""
    addresses = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            texts = [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
        except OSError:
            continue
        if int(pid) != os.getpid() and any(os.fsencode(folder) in text for text in texts):
            addresses.append(f"{pid}: {texts[0]!r}")
    return addresses


async def nothing_left_of(folder: Path) -> None:
    """Back once no process has to do with the folder; a shim's interpreter takes a moment to end."""
    async with asyncio.timeout(60):
        while processes_of(folder):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    made = Machine(make_config(tmp_path / "state", interval=0.05, crash_backoff=0.05))
    made.start()
    yield made
    await made.stop()
    await stop_all_pods(made.config, grace=0.0)
    assert processes_of(tmp_path) == []
