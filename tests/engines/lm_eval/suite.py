"""lm-eval's suite: `compare` in an environment made from the lock beside this file, once per machine."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.engines.locked import environment
from tests.source import FOLDERS, ROOT, write_metadata

LOCK = Path(__file__).parent / "lm_eval.txt"


def run() -> int:
    """The exit status of the comparison."""
    python = environment("lm-eval", LOCK)
    with tempfile.TemporaryDirectory(prefix="steelyard-lm-eval-") as scratch:
        folder, work = Path(scratch) / "info", Path(scratch) / "work"
        folder.mkdir()
        work.mkdir()
        write_metadata(folder)
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
