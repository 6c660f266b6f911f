"""The guard of a server of the tests ends it with the run, whichever signal ends the run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.services import guard


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_whole_group_leaves_no_server(tmp_path: Path, number: signal.Signals) -> None:
    """`timeout` and a closed terminal signal the guards as well as the run."""
    folder = tmp_path / "data"
    folder.mkdir()
    command = [sys.executable, guard.__file__, str(folder), "sleep", "1000"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        server = int(process.stdout.readline())
        process.send_signal(number)
        os.kill(server, 0)
        process.stdin.close()  # the run has ended
        process.wait(60)
    assert not Path(f"/proc/{server}").exists()
    assert not folder.exists()
