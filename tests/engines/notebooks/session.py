"""Each guided demo from its first cell to its last, on one `steelyard up`; what a cell prints is printed.

It runs in the environment of the notebooks: `python -m tests.engines.notebooks.session FOLDER [NAME ...]`.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from steelyard.clusters.notebooks import copy_notebooks
from steelyard.local.detached import UpOptions, start_detached, stop
from steelyard.local.state import StateDir

CELL_SECONDS = 700


def run(notebook: Path) -> bool:
    """Run a notebook as a user would in its folder, and print its outputs; tell whether all of its cells ended well."""
    began = time.monotonic()
    made: Any = nbformat.read(notebook, as_version=4)
    nbformat.validate(made)
    client = NotebookClient(
        made, timeout=CELL_SECONDS, resources={"metadata": {"path": str(notebook.parent)}}
    )
    try:
        client.execute()
    except CellExecutionError as error:
        print(f"{notebook.name}: {error}")
        return False
    finally:
        for cell in made.cells:
            for output in cell.get("outputs", ()):
                print(str(output.get("text", "")).rstrip())
    print(f"---- {notebook.name}: {time.monotonic() - began:.0f} s", flush=True)
    return True


def main(folder: Path, names: list[str]) -> int:
    notebooks = copy_notebooks(folder / "demos")
    chosen = [path for path in notebooks if not names or path.name.startswith(tuple(names))]
    state = StateDir(folder / "state")
    start_detached(state.path, UpOptions())
    try:
        ready = json.loads((state.path / "ready.json").read_text())
        os.environ |= {
            "KUBECONFIG": str(state.kubeconfig),
            "STEELYARD_API_ENDPOINT": ready["api"],
            "STEELYARD_API_TOKEN": ready["token"],
        }
        failed = [path.name for path in chosen if not run(path)]
    finally:
        stop(state.path)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
