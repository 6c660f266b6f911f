"""The README's walkthrough, as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Machine

pytestmark = pytest.mark.e2e
README = Path(__file__).parents[2] / "README.md"


def test_the_walkthrough_does_what_it_says(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    (walkthrough,) = blocks
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # no platform but this one can be found
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / ".steelyard").symlink_to(machine.state.path)
    machine.up()
    done = subprocess.run(
        [sys.executable, "-c", walkthrough],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    assert "Complete" in done.stdout
    assert {path.name for path in (folder / "my-report").iterdir()} >= {"report.html", "report.json"}
