"""docs/client.md and docs/challenges.md, as they stand: every example in order, in one program, on a platform."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.integration.conftest import Machine

DOCS = Path(__file__).parents[2] / "docs"


def test_the_guides_examples_work(machine: Machine, tmp_path: Path) -> None:
    machine.up()
    (tmp_path / ".steelyard").symlink_to(machine.state.path)
    program = tmp_path / "guide.py"
    # The page of challenges goes on with the pipeline and a service of the guide.
    pages = "".join((DOCS / name).read_text() for name in ("client.md", "challenges.md"))
    program.write_text("\n".join(re.findall(r"```python\n(.*?)```", pages, re.DOTALL)))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("DYFF_", "STEELYARD_"))
    }
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for said in (
        "Report Complete",
        "audit/index.html",
        "300 answers",
        "'label': 0",
        "regression Ready",
        "is Failed: BadRequest: index",
        "artifacts - artifacts: should list the files to upload, and be empty if dataSource is given",
        "2 reports to read",
    ):
        assert said in done.stdout
