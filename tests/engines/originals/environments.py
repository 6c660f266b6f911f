"""Runs one tool's script in an environment of the tool's own, made from its lock once per machine."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.engines.locked import environment

HERE = Path(__file__).parent
LOCKS = {"lm_eval": HERE.parent / "lm_eval" / "lm_eval.txt"}


def by_original(tool: str, script: str, rows: Any, folder: Path) -> Any:
    """The document that `script` writes of these rows.

    Raises Missing where the tool cannot be installed, RuntimeError where it fails.
    """
    python = environment(tool.replace("_", "-"), LOCKS.get(tool, HERE / f"{tool}.txt"))
    given, taken = folder / f"{script}.rows.json", folder / f"{script}.numbers.json"
    given.write_text(json.dumps(rows), encoding="utf-8")
    settings = {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hf"),
        "TQDM_DISABLE": "1",
        "PYTHONHASHSEED": "0",
    }
    command = [str(python), str(HERE / script), str(given), str(taken)]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{tool}: {script} ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(taken.read_text(encoding="utf-8"))
