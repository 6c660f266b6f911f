"""Tests of `steelyard down` for Pods whose containers end at the same moment."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard_common import processes
from steelyard_local_kubernetes.kubelet import shim
from steelyard_local_kubernetes.kubelet.records import PodFolder, Sandbox, current_boot
from steelyard_local_kubernetes.kubelet.stopping import SHUTDOWN, stop_all_pods
from steelyard_local_kubernetes.kubelet.testing import make_config

EXITED = {
    "startedAt": "2026-01-31T12:00:00Z", "finishedAt": "2026-01-31T12:00:01Z", "exitCode": 0, "signal": 0,
    "reason": "", "message": "",
}  # fmt: skip


@pytest.fixture
def living() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for a shim which has not ended yet."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "runs"])
async def test_a_run_that_has_recorded_its_end_is_not_disrupted(
    tmp_path: Path, living: subprocess.Popen[bytes], ended: bool
) -> None:
    """A Pod may have other containers to run after the next start."""
    config = make_config(tmp_path / "state")
    folder = PodFolder(config.pods / "0123")
    folder.write_sandbox(Sandbox("default", "demo", "0123", "127.16.0.2", "2026-01-31T12:00:00Z"))
    base = folder.base("main", 0)
    base.parent.mkdir()
    start = processes.start_time(living.pid)
    started = {"startedAt": EXITED["startedAt"], "pid": living.pid, "shim": living.pid, "shimStart": start}
    shim.write_whole(str(base.with_suffix(".json")), {"argv": ["true"]})
    shim.write_whole(str(base.with_suffix(".started")), {**started, "boot": current_boot()})
    if ended:
        shim.write_whole(str(base.with_suffix(".exited")), EXITED)

    await stop_all_pods(config, grace=0.0)

    assert folder.failure() == (None if ended else SHUTDOWN)
