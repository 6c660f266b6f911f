"""lm-eval's suite: `compare` in an environment made from the lock beside this file, once per machine."""

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.engines.locked import environment
from tests.source import FOLDERS

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LOCK = HERE / "lm_eval.txt"


def write_entry_points(folder: Path) -> None:
    """Write the entry points that an installed steelyard has: the environment has its source alone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = folder / "steelyard-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: steelyard\nVersion: 0\n")
    lines = [f"{name} = {value}\n" for name, value in project["entry-points"]["steelyard.rubrics"].items()]
    (info / "entry_points.txt").write_text("[steelyard.rubrics]\n" + "".join(lines))


def run() -> int:
    """The exit status of the comparison."""
    python = environment("lm-eval", LOCK)
    with tempfile.TemporaryDirectory(prefix="steelyard-lm-eval-") as scratch:
        folder, work = Path(scratch) / "info", Path(scratch) / "work"
        folder.mkdir()
        work.mkdir()
        write_entry_points(folder)
        settings = {
            "PYTHONPATH": os.pathsep.join(map(str, (folder, *FOLDERS, ROOT))),
            "HF_HOME": str(Path(scratch) / "hf"),
            "HF_HUB_OFFLINE": "1",
            "TQDM_DISABLE": "1",
        }
        command = [str(python), "-m", "tests.engines.lm_eval.compare", str(work)]
        return subprocess.run(command, cwd=ROOT, env=os.environ | settings, check=False).returncode


if __name__ == "__main__":
    sys.exit(run())
