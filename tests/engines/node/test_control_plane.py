"""A control plane without a node ends with the run that has started it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.node.cluster import ROOT
from tests.engines.node.test_cluster import below, commands, until_gone

RUN = """
import sys
from pathlib import Path
from tests.engines.build import binaries
from tests.engines.control_plane import control_plane
with control_plane(binaries(), Path(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.timeout(600)
def test_nothing_is_left_of_a_control_plane_after_its_run_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "control-plane"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        pids = below(run.pid)
        assert {"etcd", "kube-apiserver", "kube-controller"} <= commands(pids)
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        until_gone(pids, folder)
