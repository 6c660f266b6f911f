"""docs/tutorial.md, as it stands: its blocks of Python in one session, and its lines for the shell between them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Machine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]
PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCKS = re.findall(r"^```(python|console)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\S+\.py)\n")
"""First line of a block that is to be saved."""
NOT_HERE = ("export PATH", "steelyard up ", "steelyard down ")
"""Commands for which the fixture stands: the platform runs, and its end is the fixture's."""


def program() -> str:
    """Return the tutorial as one program."""
    parts = ["import subprocess"]
    for language, block in BLOCKS:
        if language == "console":
            lines = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
            shell = "\n".join(line for line in lines if not line.startswith(NOT_HERE))
            # In one shell: the later lines use its variables.
            parts.append(f"subprocess.run(['bash', '-euc', {shell!r}], check=True)")
        elif saved := FILE.match(block):
            parts += [
                f"Path({saved[1]!r}).parent.mkdir(parents=True, exist_ok=True)",
                f"Path({saved[1]!r}).write_text({block!r})",
            ]
        else:
            parts.append(block)
    return "\n".join(parts)


def test_the_tutorial_does_what_it_says(machine: Machine, tmp_path: Path) -> None:
    machine.up()
    (tmp_path / ".steelyard").symlink_to(machine.state.path)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("DYFF_", "STEELYARD_"))
    }
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-u", "-c", program()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for said in (
        "150 answers are measured",
        "accuracy  0.96   Accuracy  144 of 150 answers are right.",
        "accuracy: 0.96",
        "judge SafetyCase Complete",
        "MethodFailed: ValueError: could not convert string to float: 'high' (greenhouse.py, line 23)",
        "Traceback (most recent call last)",
    ):
        assert said in done.stdout
    # The owner's table, and the visitor's.
    assert done.stdout.count("accuracy  0.96   Accuracy") == 2
    page = (tmp_path / "flowers" / "page" / "index.html").read_text()
    assert "Are the flowers told apart?" in page
    assert "144 of 150 answers are right." in page
    assert (tmp_path / "flowers" / "visitor" / "index.html").read_text() == page
