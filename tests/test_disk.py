"""A test run that was killed leaves nothing that makes the next one fail."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.disk import small_disk

pytestmark = pytest.mark.root
ROOT = Path(__file__).parents[1]
MOUNTED = """
import sys
import time
from pathlib import Path
import pytest

from tests.disk import small_disk
with small_disk(Path(sys.argv[1]), 1) as disk:
    print("mounted", flush=True)
    input()
"""


@pytest.mark.timeout(60)
def test_a_disk_goes_with_a_test_that_is_killed(tmp_path: Path) -> None:
    with small_disk(tmp_path / "other", 1):
        pass
    folder = tmp_path / "disk"
    command = [sys.executable, "-c", MOUNTED, str(folder)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"mounted\n"
        assert folder.is_mount()
        os.killpg(process.pid, signal.SIGKILL)
    while folder.is_mount():
        time.sleep(0.05)


def test_a_folder_of_an_earlier_run_that_cannot_be_removed_fails_no_run(tmp_path: Path) -> None:
    """An earlier run's folder may be in use: pytest only warns of it, and a warning is an error here."""
    earlier = tmp_path / "temporary" / "pytest-of-tester" / "garbage-1"
    (tmp_path / "test_one.py").write_text("def test_one(tmp_path):\n    pass\n")
    with small_disk(earlier / "state", 1):
        earlier.parent.chmod(0o700)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_one.py"),
             "-c", str(ROOT / "pyproject.toml")],
            cwd=ROOT, env={**os.environ, "PYTEST_DEBUG_TEMPROOT": str(tmp_path / "temporary"), "LOGNAME": "tester"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert list(earlier.parent.glob("garbage-*/state")), "it was removed"
    assert done.returncode == 0, done.stdout + done.stderr
