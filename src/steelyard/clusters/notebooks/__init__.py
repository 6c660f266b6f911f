"""Guided demos as Jupyter notebooks: a cluster and a job, queues, training, inference, tuning, evaluation."""

import shutil
from collections.abc import Sequence
from pathlib import Path

_FOLDER = Path(__file__).parent


def copy_notebooks(folder: Path) -> Sequence[Path]:
    """Copy the notebooks into a folder, which is made, and return them in their order.

    Raises FileExistsError, before anything is copied, where one of them is there: it may have been worked on.
    """
    notebooks = sorted(_FOLDER.glob("*.ipynb"))
    targets = [folder / notebook.name for notebook in notebooks]
    for target in targets:
        if target.exists():
            raise FileExistsError(str(target))
    folder.mkdir(parents=True, exist_ok=True)
    for notebook, target in zip(notebooks, targets, strict=True):
        shutil.copyfile(notebook, target)
    return targets
